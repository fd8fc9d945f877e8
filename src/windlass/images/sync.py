"""The run itself (I2): ssh to every node → list → compare by digest → pull or copy → list again → the truth.

What a node says it pulled counts only when its next listing shows it, with the content the others have. A tag that moved
in the registry meanwhile makes the nodes uneven again; then another round follows, for what has not failed yet.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from windlass.core.distribution import CellState, Comparison, Inventory, Want, compare, unmatched, wanted_pulls
from windlass.images import journal
from windlass.images.config import Config
from windlass.images.errors import ImageSyncError
from windlass.images.guard import DiskGuard
from windlass.images.logs import DayLogs
from windlass.images.nodes import Crew, open_crew, take_inventories
from windlass.images.peers import copy_from_peers, is_worth_a_copy, planned_way
from windlass.images.progress import Progress
from windlass.images.pulls import Tools, pull_all
from windlass.images.report import Outcome, Report, Result, Traffic, Way
from windlass.images.text import count

_ROUNDS_MAX: Final = 3


class Choices(Struct, frozen=True, kw_only=True):
    is_dry_run: bool = False
    source: str | None = None
    """The node whose versions count, where nodes differ."""


async def synchronise(
    config: Config, logs: DayLogs, progress: Progress, *, choices: Choices, pause: Callable[[int], float]
) -> Report:
    """Make the nodes even, as far as they and the registry let us; the report says how far that was."""
    started = anyio.current_time()
    journal.log_start(logs, config, is_dry_run=choices.is_dry_run)
    tools = Tools(
        settings=config.settings,
        logs=logs,
        progress=progress,
        guard=DiskGuard(config.settings.min_free_bytes),
        traffic=Traffic(),
        total=anyio.CapacityLimiter(config.settings.max_total),
        pause=pause,
    )
    progress.say(f"connecting to {count(len(config.nodes), 'node')}")
    async with open_crew(config) as crew:
        for fault in crew.faults.values():
            progress.say(str(fault))
        run = _Run(config, crew, tools, choices)
        try:
            report = await run.to_the_end(started)
        except anyio.get_cancelled_exc_class():
            run.break_off()
            raise
    journal.log_summary(report, logs)
    return msgspec.structs.replace(report, withheld_log_lines=logs.withheld)


class _Run:
    def __init__(self, config: Config, crew: Crew, tools: Tools, choices: Choices) -> None:
        self._config = config
        self._crew = crew
        self._tools = tools
        self._choices = choices
        self._faults: dict[str, ImageSyncError] = dict(crew.faults)
        self._arriving: list[Result] = []
        """Of the pulls or copies under way, what has ended; see `break_off`."""
        self._results: dict[tuple[str, str], Result] = {}
        self._wants: dict[tuple[str, str], Want] = {}
        self._inventories: dict[str, Inventory] = {}

    async def to_the_end(self, started: float) -> Report:
        self._check_source()
        before = after = await self._look()
        planned = wanted_pulls(before, source=self._choices.source)
        self._log_found(before, planned)
        rounds = 0 if self._choices.is_dry_run else _ROUNDS_MAX
        for _ in range(rounds):
            wants = [want for want in wanted_pulls(after, source=self._choices.source) if self._is_open(want)]
            if not wants:
                break
            self._tools.progress.say(f"{count(len(wants), 'image')} to get")
            await self._get(wants, after)
            self._tools.progress.say("listing again")
            after = await self._look()
            self._verify(wants, after)
        if not self._choices.is_dry_run:
            self._settle(after)
            journal.log_results(self._tools.logs, self._in_order(), self._faults, self._refused())
        return Report(
            nodes={node.name: node.runtime.kind for node in self._crew.nodes.values() if node.name not in self._faults},
            order=self._crew.order,
            faults={name: self._faults[name] for name in self._crew.order if name in self._faults},
            refused=self._refused(),
            unmatched=unmatched(before, self._config.prefixes),
            before=before,
            after=after,
            wants=tuple({(want.node, str(want.name)): want for want in (*planned, *self._wants.values())}.values()),
            results=tuple(self._in_order()),
            seconds=anyio.current_time() - started,
            traffic=self._tools.traffic.by_node(),
            is_dry_run=self._choices.is_dry_run,
            ways=self._ways(before, planned) if self._choices.is_dry_run else {},
        )

    def break_off(self) -> None:
        """A signal came. What has ended has ended: it gets its line, though nobody looked whether it is really there."""
        self._note(self._arriving)
        journal.log_results(self._tools.logs, self._in_order(), self._faults, {})
        text = journal.log_break(self._tools.logs, list(self._results.values()), len(self._wants))
        self._tools.progress.say(f"interrupted: {text}")

    def _check_source(self) -> None:
        if self._choices.source and self._choices.source not in self._crew.nodes:
            fault = self._faults.get(self._choices.source)
            known = ", ".join(self._crew.nodes) or "none answered"
            what = str(fault) if fault else f"--source {self._choices.source}: no such node"
            raise ImageSyncError("source.unknown", what, expected=f"one of {known}")

    async def _look(self) -> Comparison:
        """List every node that is still trusted. One that stops making sense drops out and is a fault."""
        trusted = {name: node for name, node in self._crew.nodes.items() if name not in self._faults}
        inventories, faults = await take_inventories(Crew(nodes=trusted, faults={}))
        for fault in faults.values():
            self._tools.logs.error(str(fault))
        self._faults.update(faults)
        self._inventories = inventories
        return compare(tuple(inventories.values()), self._config.prefixes, source=self._choices.source)

    def _is_open(self, want: Want) -> bool:
        """Not yet tried, or brought well and yet uneven: once more. What failed has had its tries."""
        result = self._results.get((want.node, str(want.name)))
        return result is None or result.outcome is Outcome.SUCCESS

    async def _get(self, wants: Sequence[Want], comparison: Comparison) -> None:
        self._wants.update({(want.node, str(want.name)): want for want in wants})
        if not self._is_by_peers:
            await pull_all(self._crew.nodes, wants, self._tools, self._arriving)
            self._take_in()
        left = list(wants) if self._is_by_peers else self._worth_a_copy(wants)
        if left:
            rows = {row.name: row for row in comparison.rows}
            settled = self._choices.source is not None
            await copy_from_peers(
                self._crew.nodes, self._inventories, left, rows, self._tools, self._arriving, is_settled=settled
            )
            self._take_in()

    @property
    def _is_by_peers(self) -> bool:
        return self._tools.settings.peers == "only" or self._choices.source is not None

    def _ways(self, before: Comparison, planned: Sequence[Want]) -> dict[tuple[str, str], Way]:
        rows = {row.name: row for row in before.rows}
        settled = self._choices.source is not None
        return {
            (want.node, str(want.name)): planned_way(want, rows[want.name], self._crew.nodes, is_settled=settled)
            if self._is_by_peers
            else Way(via="registry")
            for want in planned
        }

    def _take_in(self) -> None:
        arrived, self._arriving = self._arriving, []
        self._note(arrived)

    def _worth_a_copy(self, wants: Sequence[Want]) -> list[Want]:
        if self._tools.settings.peers == "never":
            return []
        return [want for want in wants if is_worth_a_copy(want, self._results[want.node, str(want.name)])]

    def _note(self, results: Sequence[Result]) -> None:
        for result in results:
            earlier = self._results.get((result.node, result.name))
            if earlier is not None and earlier.outcome is not Outcome.SUCCESS:
                # The pull's own end stays in the failed log, also when a peer could help afterwards.
                self._tools.logs.failed(earlier.node, earlier.name, earlier.words)
            self._results[result.node, result.name] = result

    def _verify(self, wants: Sequence[Want], after: Comparison) -> None:
        """A success without the image in the next listing was none."""
        rows = {row.name: row for row in after.rows}
        for want in wants:
            key = (want.node, str(want.name))
            row = rows.get(want.name)
            cell = row.cells.get(want.node) if row else None
            there = cell is not None and cell.state is not CellState.MISSING
            if self._results[key].outcome is Outcome.SUCCESS and not there:
                detail = "the runtime reported success, but the node does not list the image"
                self._results[key] = _refuted(self._results[key], "VERIFY", detail)

    def _settle(self, after: Comparison) -> None:
        """What is still uneven after all rounds did not succeed, whatever was pulled; and it says so under its name."""
        for row in after.rows:
            for node, cell in row.cells.items():
                key = (node, str(row.name))
                result = self._results.get(key)
                if result is None and cell.state is not CellState.PRESENT:
                    detail = "it came to another node while the run went on; the next run gets it"
                    self._results[key] = _refuted(Result(node=node, name=key[1], outcome=Outcome.FAILED), "NEW", detail)
                elif result and result.outcome is Outcome.SUCCESS and cell.state is CellState.DIFFERENT:
                    detail = f"still another version than on {', '.join(row.versions[0][1])}"
                    self._results[key] = _refuted(result, "MOVED", detail)

    def _in_order(self) -> list[Result]:
        """By node as the settings list them, then by name."""
        places = {name: place for place, name in enumerate(self._crew.order)}
        return sorted(self._results.values(), key=lambda result: (places[result.node], result.name))

    def _refused(self) -> Mapping[str, tuple[str, ...]]:
        prefixes = self._config.prefixes
        found = {
            name: tuple(text for text in inventory.refused if text.startswith(prefixes))
            for name, inventory in self._inventories.items()
        }
        return {name: texts for name, texts in found.items() if texts}

    def _log_found(self, before: Comparison, planned: Sequence[Want]) -> None:
        logs = self._tools.logs
        for fault in self._crew.faults.values():
            logs.error(str(fault))
        kinds = {name: node.runtime.kind for name, node in self._crew.nodes.items()}
        journal.log_inventories(logs, self._inventories, kinds)
        journal.log_refused(logs, self._refused())
        journal.log_comparison(logs, before, planned, unmatched(before, self._config.prefixes))


def _refuted(result: Result, reason: str, detail: str) -> Result:
    return msgspec.structs.replace(result, outcome=Outcome.FAILED, reason=reason, detail=detail)
