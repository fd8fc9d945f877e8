"""Pools and their history, as people read them."""

from collections.abc import Iterable

from windlass.cli.render.fit import columns
from windlass.cli.render.table import Row
from windlass.cli.render.tenants import flat
from windlass.cli.render.values import age
from windlass.client.documents import Document

POOLS = columns(
    ("NAME", "KIND", "NODES", "WORKERS", "MIN", "MAX", "WORKER", "TENANTS", "PAUSED", "AGE"),
    ("TENANTS", 10),
    "AGE",
    ("NAME", 16),
    "KIND",
    "WORKER",
    "TENANTS",
    ("NAME", 8),
    "PAUSED",
)
HISTORY = columns(
    ("WHEN", "BY", "WANTED", "RULE", "HELD BACK BY", "READY", "COMING", "IDLE", "DEPTH"),
    ("HELD BACK BY", 12),
    ("RULE", 16),
    "DEPTH",
    "IDLE",
    "COMING",
    "READY",
    ("RULE", 10),
)


def pool_rows(pools: Iterable[Document], now: float) -> list[Row]:
    return [_row(pool, now) for pool in pools]


def history_rows(steps: Iterable[Document], now: float) -> list[Row]:
    """Newest first. What was held back by the same thing several times in a row is one line: since when, and how often."""
    return [
        (
            age(step["at"], now),
            f"{step['by']:+d}",
            str(step["wanted"]),
            step["rule"],
            (", ".join(step["held"]) or "-") + (f" (told {times} times)" if times > 1 else ""),
            str(step["seen"]["ready"]),
            str(step["seen"]["coming"]),
            str(step["seen"]["idle"]),
            "-" if step["seen"]["depth"] is None else str(step["seen"]["depth"]),
        )
        for step, times in _folded(steps)
    ]


def _folded(steps: Iterable[Document]) -> list[tuple[Document, int]]:
    """The newest of each row of alike, and how many they are."""
    folded: list[tuple[Document, int]] = []
    for step in steps:
        if folded and not step["by"] and _gist(step) == _gist(folded[-1][0]):
            folded[-1] = folded[-1][0], folded[-1][1] + 1
        else:
            folded.append((step, 1))
    return folded


def _gist(step: Document) -> tuple[int, str]:
    """What it says, without the numbers of the moment."""
    said = " ".join((step["rule"], *step["held"]))
    return step["by"], "".join(one for one in said if not one.isdigit())


def pool_lines(pool: Document, metrics: Document, now: float) -> list[str]:
    """The page about one: what it is, who its workers are, and what its autoscaler sees."""
    workers = pool["status"]["workers"]
    rows = [
        ("name", pool["metadata"]["name"]),
        ("age", age(pool["metadata"].get("creationTimestamp"), now)),
        *flat(pool["spec"]),
        ("now nodes", str(pool["status"]["nodes"])),
        *((("now lacking", lacks),) if (lacks := pool["status"].get("lacks")) else ()),
        *((f"worker {one['name']}", _worker(one)) for one in workers),
        *(("now " + name, "-" if value is None else str(value)) for name, value in metrics.items()),
    ]
    width = max(len(name) for name, _ in rows)
    return [f"{name.ljust(width)}  {value}" for name, value in rows]


def _worker(worker: Document) -> str:
    problem = f", {worker['problem']}" if worker["problem"] else ""
    runs = worker["runs"]
    return f"{worker['state']}, {worker['running']} running, {runs} run{'s' * (runs != 1)} ever{problem}"


def _row(pool: Document, now: float) -> Row:
    spec, status = pool["spec"], pool["status"]
    scaling = spec["scaling"]
    worker = scaling["worker"] if scaling else None
    return (
        pool["metadata"]["name"],
        spec["kind"],
        str(status["nodes"]),
        str(len(status["workers"])) if scaling else "-",
        str(scaling["min"]) if scaling else "-",
        str(scaling["max"]) if scaling else "-",
        f"{worker['cpu']} / {worker['memory']}" if worker else "-",
        ", ".join(spec["tenants"]) or "all",
        "yes" if spec["paused"] else "-",
        age(pool["metadata"].get("creationTimestamp"), now),
    )
