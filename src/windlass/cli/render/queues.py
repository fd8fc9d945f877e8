"""Queues and fairness as people read them: a bar from the middle shows at a glance who is behind and who is ahead."""

from collections.abc import Sequence
from typing import Any

from windlass.cli.render.fit import columns
from windlass.cli.render.money import bar
from windlass.cli.render.table import Cell, Row
from windlass.cli.render.values import memory, money, span

BALANCE = "BEHIND ┃ AHEAD"
FAIRNESS = columns(
    ("TENANT", "WEIGHT", "WAITING", "DESERVED", "RECEIVED", "LAG", "SHARE", BALANCE),
    (BALANCE, len(BALANCE) + 1),
    ("TENANT", 12),
    "WEIGHT",
    "SHARE",
    "WAITING",
    ("TENANT", 8),
    BALANCE,
)
QUEUES = columns(
    ("TENANT", "CPU", "MEMORY", "GPU", "WAITING", "URGENT", "NEXT", "OLDEST", "STATE", "WHY"),
    ("NEXT", 12),
    ("WHY", 20),
    ("TENANT", 12),
    "URGENT",
    "GPU",
    "NEXT",
    "OLDEST",
    ("WHY", 10),
    "MEMORY",
    ("TENANT", 8),
)
_HALF = 12
_STATE_COLOUR = {"running": "green", "parked": "yellow", "held": "magenta"}


def fairness_rows(items: Sequence[Any]) -> list[Row]:
    received = sum(max(0, item["received"]) for item in items)
    furthest = max((abs(item["lag"]) for item in items), default=0)
    return [
        (
            item["tenant"],
            f"{item['weight']:g}",
            str(item["waiting"]),
            money(item["deserved"]),
            money(item["received"]),
            money(item["lag"]),
            f"{max(0, item['received']) / received:.1%}" if received else "-",
            _balance(item["lag"], furthest),
        )
        for item in items
    ]


def queue_rows(items: Sequence[Any]) -> list[Row]:
    return [
        (
            item["tenant"],
            str(item["resources"]["cpu"]),
            memory(item["resources"]["memory"]),
            str(item["resources"]["gpu"]),
            str(item["depth"]),
            str(item["urgent"] or "-"),
            item["head"]["name"],
            span(item["oldestWaitSeconds"]),
            Cell(item["state"], _STATE_COLOUR[item["state"]], is_pill=True),
            "; ".join(_reason(one) for one in item["reasons"]) or "-",
        )
        for item in items
    ]


def _balance(lag: int, furthest: int) -> Cell:
    def drawn(width: int) -> str:
        half = min(_HALF, (width - 1) // 2)
        if lag > 0:
            return f"{'█' * len(bar(lag, furthest, width=half)):>{half}}┃"
        return f"{'':{half}}┃{bar(-lag, furthest, width=half)}"

    whole = 2 * _HALF + 1
    return Cell(f"{drawn(whole):<{whole}}", "red" if lag > 0 else "blue", drawn=drawn)


def _reason(one: Any) -> str:
    nodes = one["nodes"]
    return f"{one['reason']} ({nodes} node{'s' * (nodes != 1)})" if nodes else one["reason"]
