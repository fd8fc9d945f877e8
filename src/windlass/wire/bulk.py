"""Many manifests in one document, judged whole: every fault of every item, at `items[n]`. `manifests` tries by parts first."""

from collections.abc import Mapping, Sequence
from typing import Final

from windlass.core.errors import Fault, Invalid
from windlass.core.model.submission import Submission
from windlass.wire.faults import FAULTS_MAX, invalid
from windlass.wire.job import NO_POOLS, MayReach, anywhere, read_manifest

_APPLIED: Final = frozenset({"Tenant", "Pool"})
"""Kinds that have a door of their own."""


def read_bulk(
    data: object,
    *,
    items_max: int,
    runtime: str,
    preset_image: str = "",
    pools: Mapping[str, str] = NO_POOLS,
    may_reach: MayReach = anywhere,
) -> list[Submission]:
    """All of them, or Invalid with the faults of all (as many as are shown)."""
    items = _items(data, items_max)
    submissions: list[Submission] = []
    faults: list[Fault] = []
    for number, item in enumerate(items):
        if other := _other_kind(item):
            faults.append(
                Fault(f"items[{number}].kind", f"{other} is no job: only jobs are taken here; windlass apply takes it")
            )
            continue
        try:
            submissions.append(
                read_manifest(item, runtime=runtime, preset_image=preset_image, pools=pools, may_reach=may_reach)
            )
        except Invalid as exc:
            faults += [Fault(f"items[{number}].{fault.field}", fault.message) for fault in exc.faults]
        if len(faults) >= FAULTS_MAX:
            break
    if faults:
        raise invalid("the batch", faults)
    return submissions


def _other_kind(item: object) -> str:
    """Of a document that is meant for another door: what it lacks as a job would only bury that."""
    kind = item.get("kind") if isinstance(item, Mapping) else None
    return f"a {kind}" if isinstance(kind, str) and kind in _APPLIED else ""


def _items(data: object, items_max: int) -> Sequence[object]:
    items = data.get("items") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(items, list) or not 1 <= len(items) <= items_max:
        raise invalid("the batch", [Fault("items", f"expected a list of 1 to {items_max} manifests")])
    if len(data) > 1:
        raise invalid("the batch", [Fault(str(key), "is not a field here") for key in data if key != "items"])
    return items
