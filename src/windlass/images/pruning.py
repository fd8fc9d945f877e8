"""`prune`: removes what no rule keeps, node by node. A dry run unless told otherwise; nothing is ever forced."""

from collections import defaultdict
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
from windlass.images.render import align, unmatched_warnings
from windlass.images.report import EXIT_INCOMPLETE, EXIT_OK
from windlass.images.ssh import Finished
from windlass.images.tasks import task_group
from windlass.images.text import clean, count, show_size

_PROTECT_MAX = 16 << 20


class Removed(Struct, frozen=True, kw_only=True):
    node: str
    name: str
    size: int
    """Bytes that may come back; 0 when the image keeps another name."""
    exit: int | None = None
    """None in a dry run."""
    detail: str = ""

    @property
    def words(self) -> str:
        if self.exit is None:
            return "would go"
        return "removed" if self.exit == 0 else f"failed (exit {self.exit}): {self.detail}"


class PruneReport(Struct, frozen=True, kw_only=True):
    plans: Mapping[str, PrunePlan]
    removed: tuple[Removed, ...]
    faults: Mapping[str, ImageSyncError]
    is_real: bool
    unmatched: tuple[str, ...] = ()
    """Prefixes that begin no image on any node that answered."""

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
            "unmatched_prefixes": list(self.unmatched),
            "faults": {node: str(fault) for node, fault in self.faults.items()},
        }

    def as_text(self) -> str:
        rows: list[Sequence[str]] = [("NODE", "IMAGE", "SIZE", "")]
        for node, plan in self.plans.items():
            mine = sorted((entry for entry in self.removed if entry.node == node), key=lambda entry: entry.name)
            rows += [(node, entry.name, show_size(entry.size), entry.words) for entry in mine]
            kept = sorted(plan.kept, key=lambda kept: str(kept.name))
            rows += [(node, str(one.name), "", f"stays: {one.reason}") for one in kept]
        lines = [*align(rows), *map(str, self.faults.values()), *unmatched_warnings(self.unmatched), self.verdict()]
        return "\n".join(lines)

    def verdict(self) -> str:
        """The counts, for the end of the text and of the log. Names are counted: an image may have several."""
        gone = [entry for entry in self.removed if not entry.exit]
        failed = len(self.removed) - len(gone)
        stay = count(sum(len(plan.kept) for plan in self.plans.values()), "name") + " kept"
        freed = f"up to {show_size(sum(entry.size for entry in gone))}"
        if not self.is_real:
            hint = "; --yes removes them" if gone else ""
            return f"dry run: {count(len(gone), 'name')} would go, {stay}, {freed} to free{hint}"
        return f"{count(len(gone), 'name')} removed, {count(failed, 'removal')} failed, {stay}, {freed} freed"


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
    dry = "" if is_real else " (dry run)"
    logs.info(
        f"PRUNE STARTED{dry}: {count(len(config.nodes), 'node')}, prefixes {' '.join(config.prefixes)}", always=True
    )
    plans: dict[str, PrunePlan] = {}
    removed: dict[str, list[Removed]] = defaultdict(list)
    async with open_crew(config) as crew:
        faults = dict(crew.faults)

        async def prune(node: Node) -> None:
            try:
                plans[node.name] = await _plan(node, config, protected, now)
                for removal in plans[node.name].removals:
                    for entry in await _remove(node, removal, is_real=is_real):
                        # At once, not at the end: a run that is broken off has said what it removed.
                        _log(logs, entry)
                        removed[node.name].append(entry)
            except NodeError as error:
                faults[node.name] = error

        async with task_group() as tasks:
            for node in crew.nodes.values():
                tasks.start_soon(prune, node)
    report = PruneReport(
        plans={name: plans[name] for name in crew.order if name in plans},
        removed=tuple(entry for name in crew.order for entry in removed[name]),
        faults={name: faults[name] for name in crew.order if name in faults},
        is_real=is_real,
        unmatched=_unmatched(tuple(plans.values()), config.prefixes),
    )
    for line in unmatched_warnings(report.unmatched):
        logs.warning(line.removeprefix("warning: "))
    for fault in report.faults.values():
        logs.error(str(fault))
    logs.info(f"PRUNE COMPLETE{dry}: exit {report.exit_code}, {report.verdict()}", always=True)
    return report


def _unmatched(plans: Sequence[PrunePlan], prefixes: Sequence[str]) -> tuple[str, ...]:
    names = {kept.name for plan in plans for kept in plan.kept}
    names |= {name for plan in plans for removal in plan.removals for name in removal.names}
    return tuple(prefix for prefix in prefixes if not any(in_scope(name, (prefix,)) for name in names))


def _log(logs: DayLogs, entry: Removed) -> None:
    level = logs.warning if entry.exit else logs.info
    level(f"PRUNE {entry.node} {entry.name}: {entry.words}")


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
    """An entry for every name. Where the runtime drops an image with all its names, one command ends them all."""
    entries: list[Removed] = []
    ended: Finished | None = None
    for name in removal.names:
        size = removal.image.size if removal.is_whole and name == removal.names[-1] else 0
        entry = Removed(node=node.name, name=str(name), size=size)
        if is_real:
            if ended is None or not node.runtime.takes_all_names:
                ended = await node.shell.run(node.runtime.remove(removal.image, name), timeout_seconds=120)
            entry = msgspec.structs.replace(entry, exit=ended.exit, detail=ended.stderr)
        entries.append(entry)
    return entries


def _protect_lines(path: Path) -> list[tuple[str, str]]:
    try:
        if path.stat().st_size > _PROTECT_MAX:
            raise ImageSyncError("protect.invalid", "larger than 16 MiB", where=str(path))
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        # Without the list nothing is protected; better no prune than a wrong one.
        reason = str(error.strerror) if isinstance(error, OSError) else "not UTF-8"
        step = (
            "Nothing was removed. Write the names that must stay into it (none: leave it empty), or unset PROTECT_FILE"
        )
        raise ImageSyncError("protect.unreadable", reason, where=f"PROTECT_FILE {path}", next_step=step) from error
    lines: list[tuple[str, str]] = []
    for line in text.splitlines():
        name, _, who = line.partition("#")
        if name.strip():
            lines.append((name.strip(), clean(who, 80) or path.name))
    return lines
