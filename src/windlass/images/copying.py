"""`copy`: one image from the nodes that have it to those that lack it, without a registry."""

from collections.abc import Callable, Mapping

import anyio
from msgspec import Struct

from windlass.core.distribution import CellState, Comparison, Reference, Want, compare
from windlass.images.config import Config
from windlass.images.errors import ImageSyncError
from windlass.images.guard import DiskGuard
from windlass.images.journal import log_results
from windlass.images.logs import DayLogs
from windlass.images.nodes import Crew, open_crew, take_inventories
from windlass.images.peers import copy_from_peers
from windlass.images.progress import Progress
from windlass.images.pulls import Tools
from windlass.images.report import Report, Result, Traffic


class CopyOrder(Struct, frozen=True, kw_only=True):
    name: Reference
    source: str | None = None
    targets: tuple[str, ...] = ()
    """None: all that lack it."""


async def copy_image(
    config: Config, logs: DayLogs, progress: Progress, order: CopyOrder, *, pause: Callable[[int], float]
) -> Report:
    started = anyio.current_time()
    tools = Tools(
        settings=config.settings,
        logs=logs,
        progress=progress,
        guard=DiskGuard(config.settings.min_free_bytes),
        traffic=Traffic(),
        total=anyio.CapacityLimiter(config.settings.max_total),
        pause=pause,
    )
    async with open_crew(config) as crew:
        _check_names(crew, order)
        inventories, unlisted = await take_inventories(crew)
        if order.source in unlisted:
            raise unlisted[order.source]
        faults = _concerned({**crew.faults, **unlisted}, order)
        before = compare(tuple(inventories.values()), (str(order.name),), source=order.source)
        wants = _wants(before, order)
        rows = {row.name: row for row in before.rows}
        settled = order.source is not None
        results: list[Result] = []
        try:
            await copy_from_peers(crew.nodes, inventories, wants, rows, tools, results, is_settled=settled)
        finally:
            # Also when it is broken off: what has arrived has its line.
            log_results(logs, results, faults, {})
        seen, unlisted = await take_inventories(crew)
        faults |= _concerned(unlisted, order)
        after = compare(tuple(seen.values()), (str(order.name),), source=order.source)
    return Report(
        nodes={name: crew.nodes[name].runtime.kind for name in seen if name not in faults},
        order=tuple(name for name in crew.order if name in faults or name in seen),
        faults={name: faults[name] for name in crew.order if name in faults},
        refused={},
        before=before,
        after=_restricted(after, order),
        wants=wants,
        results=tuple(results),
        seconds=anyio.current_time() - started,
        traffic=tools.traffic.by_node(),
    )


def _check_names(crew: Crew, order: CopyOrder) -> None:
    strange = [name for name in (order.source, *order.targets) if name and name not in crew.nodes]
    if strange:
        reasons = "; ".join(
            str(crew.faults[name]) if name in crew.faults else f"{name}: not in NODES" for name in strange
        )
        raise ImageSyncError("node.unknown", reasons, expected=f"one of {', '.join(crew.nodes) or 'none answered'}")


def _wants(before: Comparison, order: CopyOrder) -> tuple[Want, ...]:
    row = next((row for row in before.rows if row.name == order.name), None)
    if row is None or (order.source and row.cells[order.source].state is CellState.MISSING):
        where = order.source or "any node"
        raise ImageSyncError(
            "image.absent", f"{order.name} is not on {where}", next_step="windlass images status shows what is there"
        )
    return tuple(
        Want(node=node, name=row.name, image_id=row.content().id, size=row.size, has_moved=row.has_moved)
        for node, cell in row.cells.items()
        if cell.state is not CellState.PRESENT and (not order.targets or node in order.targets)
    )


def _concerned(faults: Mapping[str, ImageSyncError], order: CopyOrder) -> dict[str, ImageSyncError]:
    """With targets named, a node that is neither sender nor receiver may be away."""
    parties = {order.source, *order.targets}
    return {name: fault for name, fault in faults.items() if not order.targets or name in parties}


def _restricted(after: Comparison, order: CopyOrder) -> Comparison:
    """Only the image and the nodes that were asked for decide whether all is well."""
    nodes = tuple(node for node in after.nodes if not order.targets or node in order.targets)
    rows = tuple(row for row in after.rows if row.name == order.name)
    return Comparison(
        nodes=nodes,
        rows=tuple(
            type(row)(name=row.name, cells={node: row.cells[node] for node in nodes}, versions=row.versions)
            for row in rows
        ),
    )
