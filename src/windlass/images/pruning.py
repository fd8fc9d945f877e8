"""`prune`: removes what no rule keeps, node by node. A dry run unless told otherwise; nothing is ever forced."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from windlass.core.distribution import (
    BadReference,
    Image,
    Inventory,
    KeepRules,
    PrunePlan,
    Reference,
    Removal,
    in_scope,
    parse_reference,
    plan_prune,
)
from windlass.images.config import Config
from windlass.images.errors import ImageSyncError, NodeError
from windlass.images.logs import DayLogs
from windlass.images.nodes import Node, open_crew
from windlass.images.render import align
from windlass.images.report import EXIT_INCOMPLETE, EXIT_OK
from windlass.images.tasks import task_group
from windlass.images.text import clean, show_size

_PROTECT_MAX = 16 << 20


class Removed(Struct, frozen=True, kw_only=True):
    node: str
    name: str
    size: int
    """Bytes that may come back; 0 when the image keeps another name."""
    exit: int | None = None
    """None in a dry run."""
    detail: str = ""


class PruneReport(Struct, frozen=True, kw_only=True):
    plans: Mapping[str, PrunePlan]
    removed: tuple[Removed, ...]
    faults: Mapping[str, ImageSyncError]
    is_real: bool

    @property
    def exit_code(self) -> int:
        return EXIT_INCOMPLETE if self.faults or any(entry.exit for entry in self.removed) else EXIT_OK

    def as_json(self) -> dict[str, Any]:
        return {
            "exit": self.exit_code,
            "dry_run": not self.is_real,
            "removed": [msgspec.structs.asdict(entry) for entry in self.removed],
            "kept": [
                {"node": node, "image": str(kept.name), "reason": kept.reason}
                for node, plan in self.plans.items()
                for kept in plan.kept
            ],
            "faults": {node: str(fault) for node, fault in self.faults.items()},
        }

    def as_text(self) -> str:
        rows: list[Sequence[str]] = [("NODE", "IMAGE", "SIZE", "")]
        for entry in self.removed:
            end = "would go" if entry.exit is None else "removed" if entry.exit == 0 else f"failed: {entry.detail}"
            rows.append((entry.node, entry.name, show_size(entry.size), end))
        for node, plan in self.plans.items():
            rows += [(node, str(kept.name), "", f"stays: {kept.reason}") for kept in plan.kept]
        freed = show_size(sum(entry.size for entry in self.removed if not entry.exit))
        verdict = f"up to {freed} freed" if self.is_real else f"up to {freed} to free; --yes removes"
        return "\n".join([*align(rows), *(str(fault) for fault in self.faults.values()), verdict])


def read_protected(path: str, names: Sequence[str]) -> dict[Reference, str]:
    """A name a line, who needs it after `#`. A name that cannot be read stops the run: it would protect nothing."""
    lines = [(name, "command line") for name in names]
    if path:
        lines += _protect_lines(Path(path).expanduser())
    protected: dict[Reference, str] = {}
    for text, who in lines:
        try:
            protected[parse_reference(text)] = who
        except BadReference as error:
            raise ImageSyncError(
                "protect.invalid", f"{clean(text, 80)!r}: {error}", where=path or "--protect"
            ) from error
    return protected


async def prune_nodes(
    config: Config, logs: DayLogs, protected: Mapping[Reference, str], *, is_real: bool, now: int
) -> PruneReport:
    plans: dict[str, PrunePlan] = {}
    removed: list[Removed] = []
    async with open_crew(config) as crew:
        faults = dict(crew.faults)

        async def prune(node: Node) -> None:
            try:
                plan = await _plan(node, config, protected, now)
                plans[node.name] = plan
                for removal in plan.removals:
                    removed.extend(await _remove(node, removal, is_real=is_real))
            except NodeError as error:
                faults[node.name] = error

        async with task_group() as tasks:
            for node in crew.nodes.values():
                tasks.start_soon(prune, node)
    for entry in removed:
        end = "would be removed" if entry.exit is None else f"removal exit {entry.exit} {entry.detail}".rstrip()
        logs.info(f"PRUNE {entry.node} {entry.name}: {end}")
    return PruneReport(plans=plans, removed=tuple(removed), faults=faults, is_real=is_real)


async def _plan(node: Node, config: Config, protected: Mapping[Reference, str], now: int) -> PrunePlan:
    """What is in use is asked for *after* the listing, so a container started meanwhile still counts."""
    inventory = await node.inventory()
    ours = [image for image in inventory.images if any(in_scope(name, config.prefixes) for name in image.names)]
    described = {image.id: image for image in await node.runtime.described(tuple(ours))}
    inventory = msgspec.structs.replace(
        inventory, images=tuple(described.get(image.id, image) for image in inventory.images)
    )
    rules = KeepRules(
        prefixes=config.prefixes,
        newest=config.settings.keep_newest,
        younger_than_seconds=config.settings.keep_younger_hours * 3600,
        protected=protected,
        in_use=_used_ids(inventory, await node.runtime.used()),
    )
    return plan_prune(inventory, rules, now=now, takes_all_names=node.runtime.takes_all_names)


def _used_ids(inventory: Inventory, used: frozenset[str]) -> frozenset[str]:
    """Runtimes name a container's image by id, by digest or by tag."""

    def is_used(image: Image) -> bool:
        spellings = {image.id, image.id.removeprefix("sha256:")}
        for name in (*image.tags, *image.digests):
            spellings |= {str(name), name.familiar}
        return not spellings.isdisjoint(used)

    return frozenset(image.id for image in inventory.images if is_used(image))


async def _remove(node: Node, removal: Removal, *, is_real: bool) -> list[Removed]:
    names = removal.names[:1] if node.runtime.takes_all_names else removal.names
    entries: list[Removed] = []
    for name in names:
        size = removal.image.size if removal.is_whole and name == names[-1] else 0
        entry = Removed(node=node.name, name=str(name), size=size)
        if is_real:
            finished = await node.shell.run(node.runtime.remove(removal.image, name), timeout_seconds=120)
            entry = msgspec.structs.replace(entry, exit=finished.exit, detail=finished.stderr)
        entries.append(entry)
    return entries


def _protect_lines(path: Path) -> list[tuple[str, str]]:
    try:
        if path.stat().st_size > _PROTECT_MAX:
            raise ImageSyncError("protect.invalid", "larger than 16 MiB", where=str(path))
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        # Without the list nothing is protected; better no prune than a wrong one.
        raise ImageSyncError("protect.unreadable", "cannot be read", where=str(path)) from error
    lines: list[tuple[str, str]] = []
    for line in text.splitlines():
        name, _, who = line.partition("#")
        if name.strip():
            lines.append((name.strip(), clean(who, 80) or path.name))
    return lines
