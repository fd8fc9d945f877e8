"""Money as people read it: tables with bars, so that the largest is seen before it is read."""

from collections.abc import Iterable, Sequence
from typing import Any

from windlass.cli.render.fit import Columns, columns
from windlass.cli.render.table import Cell, Row
from windlass.cli.render.values import bytes_of, clock_time, span
from windlass.cli.render.values import money as amount
from windlass.client.documents import Document

BURSTS = columns(("OPENED", "ENDS", "STATE", "BY", "RUNS", "COST"), ("BY", 8), "OPENED", "BY")
SAVINGS = columns(
    ("SAVES", "KIND", "TENANT", "POOL", "ASKED", "ADVISED", "EVIDENCE"),
    ("EVIDENCE", 20),
    ("POOL", 8),
    ("TENANT", 12),
    "POOL",
    ("EVIDENCE", 12),
    "EVIDENCE",
    ("TENANT", 8),
)
PRICES = columns(("POOL", "CORE", "MEMORY GB", "GPU", "WORKER", "STORED GB"), ("POOL", 12), "WORKER")
"""Each for an hour."""
_BAR = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"


def cost_columns(by: Sequence[str], *, has_stored: bool = False) -> Columns:
    """`has_stored`: volumes are paid for here, as they are where somebody gave that a price."""
    names = [one.upper() for one in by]
    cut = [(name, 12) for name in names if name != "DAY"]
    stored = ("STORED",) if has_stored else ()
    shown = (*names, "COST", "BURST", *stored, "LIVE", "RUNS", "RAN", "")
    return columns(shown, ("", 8), *cut, "LIVE", "BURST", *stored, "RAN", "")


def has_stored(found: Document) -> bool:
    return any(item.get("storedCost") for item in found["items"])


def cost_rows(found: Document) -> list[Row]:
    most = max((item["cost"] for item in found["items"]), default=0)
    return [_cost_row(item, found["by"], most, has_stored(found)) for item in found["items"]]


def price_rows(found: Document) -> list[Row]:
    return [_price_row("every", found["every"]), *(_price_row(*one) for one in sorted(found["pools"].items()))]


def burst_rows(items: Iterable[Any]) -> list[Row]:
    return [
        (
            clock_time(item["openedAt"]),
            clock_time(item["endsAt"]),
            Cell(item["state"], "green" if item["state"] == "open" else "bright_black", is_pill=True),
            item["openedBy"],
            str(item["runs"]),
            amount(item["cost"]),
        )
        for item in items
    ]


def budget_lines(found: Document) -> list[str]:
    if found["perMonth"] is None:
        return [f"tenant {found['tenant']} has no budget; spent in {found['month']}: {amount(found['spent'])}"]
    share = found["spent"] / found["perMonth"]
    hard = "; at the end of it, runs are stopped" if found["hardStop"] else ""
    first = f"{found['month']}  {amount(found['spent'])} of {amount(found['perMonth'])} ({share:.0%}){hard}"
    drawn = bar(found["spent"], found["perMonth"])
    passed = [f"{'':7}  {one['percent']:g} % passed at {clock_time(one['at'])}" for one in found["passed"]]
    return [first, *([f"{'':7}  {drawn}"] if drawn else []), *passed]


def savings_rows(found: Document) -> list[Row]:
    return [
        (
            amount(item["saves"]),
            item["kind"],
            item["tenant"],
            item["pool"],
            _needs(item["asked"]),
            _advice(item),
            _evidence(item["evidence"]),
        )
        for item in found["items"]
    ]


def bar(value: int, most: int, *, width: int = _BAR) -> str:
    eighths = min(width * 8, value * width * 8 // most) if most > 0 else 0
    full, part = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[part] if part else "")


def _cost_row(item: Document, by: Sequence[str], most: int, with_stored: bool) -> Row:
    return (
        *(str(item.get(one) or "-") for one in by),
        amount(item["cost"]),
        amount(item["burstCost"]) if item["burstCost"] else "-",
        *([amount(item["storedCost"]) if item["storedCost"] else "-"] if with_stored else []),
        amount(item["liveCost"]) if item["liveCost"] else "-",
        str(item["runs"]),
        span(item["seconds"]),
        Cell(bar(item["cost"], most), "blue", drawn=lambda width: bar(item["cost"], most, width=width)),
    )


def _price_row(pool: str, book: Document) -> Row:
    things = ("coreHour", "gigabyteHour", "gpuHour", "workerHour", "storedGigabyteHour")
    return (pool, *(amount(book[thing]) for thing in things))


def _advice(item: Document) -> str:
    if item["advisedPool"]:
        return f"in {item['advisedPool']}"
    return f"end it, or {_needs(item['advised'])}" if item["kind"] == "idle" else _needs(item["advised"])


def _needs(resources: Document) -> str:
    gpu = f", {resources['gpu']} gpu" if resources["gpu"] else ""
    return f"{resources['cpu']} cpu, {resources['memory']}{gpu}"


def _evidence(seen: Document) -> str:
    jobs = ", ".join(seen["jobs"])
    if not seen["measured"]:
        return f"{seen['runs']} run{'s' * (seen['runs'] != 1)}, {span(seen['seconds'])}, none measured: {jobs}"
    used = f"at most {seen['cpuMost']:g} cores and {bytes_of(seen['memoryPeak'])}"
    return f"{seen['measured']} of {seen['runs']} run{'s' * (seen['runs'] != 1)} measured, {span(seen['seconds'])}, {used}: {jobs}"
