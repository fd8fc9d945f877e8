"""`fairness` and `queues` as people read them."""

from typing import Any

from windlass.cli.render import queues
from windlass.cli.render.table import Cell
from windlass.cli.render.values import detail


def text(cell: Cell | str) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def standing(tenant: str, *, deserved: int, received: int) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "weight": 2.0,
        "waiting": 3,
        "deserved": deserved,
        "received": received,
        "lag": deserved - received,
    }


def test_bars_go_left_for_who_is_behind_and_right_for_who_is_ahead() -> None:
    items = [
        standing("a", deserved=3_000_000, received=1_000_000),
        standing("b", deserved=1_000_000, received=3_000_000),
    ]
    behind, ahead = ([text(cell).rstrip() for cell in row] for row in queues.fairness_rows(items))
    assert len(behind) == len(queues.FAIRNESS.headings)
    assert behind[:7] == ["a", "2", "3", "3", "1", "2", "25.0%"]
    assert (behind[7], ahead[7]) == ("█" * 12 + "┃", " " * 12 + "┃" + "█" * 12)


def test_nobody_served_yet_is_no_division_by_nothing() -> None:
    (row,) = queues.fairness_rows([standing("a", deserved=0, received=0)])
    assert (text(row[6]), text(row[7]).rstrip()) == ("-", " " * 12 + "┃")


def test_a_queue_says_who_is_next_and_why_it_waits() -> None:
    item = {
        "tenant": "a",
        "resources": {"cpu": "2", "memory": "1Gi", "gpu": 0},
        "depth": 7,
        "urgent": 0,
        "head": {"name": "next-one", "uid": "u", "priority": 0},
        "oldestWaitSeconds": 75.0,
        "state": "parked",
        "reasons": [{"reason": "cpu in use", "nodes": 2}, {"reason": "quota-jobs: full", "nodes": 0}],
    }
    (row,) = queues.queue_rows([item])
    cells = [text(cell).rstrip() for cell in row]
    assert len(cells) == len(queues.QUEUES.headings)
    assert cells[4:] == ["7", "-", "next-one", "1m15s", "parked", "cpu in use (2 nodes); quota-jobs: full"]


def test_a_list_shows_a_deadline_that_is_near() -> None:
    job: Any = {
        "spec": {},
        "metadata": {},
        "status": {"state": "PENDING", "waiting": ["cpu in use (1 node)"], "sla": {"dueAt": "x", "state": "critical"}},
    }
    assert detail(job) == "deadline critical; cpu in use (1 node)"
