"""What pools did since the server started, counted from what became durable: steps, what held them, workers that came."""

from collections import defaultdict
from collections.abc import Sequence

from windlass.core.model.ids import PoolId
from windlass.core.model.pool import Worker, WorkerState
from windlass.core.scaling import PoolTally, ScalingStep
from windlass.core.world.entry import Entry
from windlass.core.world.records import Table


class Tallies:
    def __init__(self) -> None:
        self._of: defaultdict[PoolId, PoolTally] = defaultdict(PoolTally)

    def of(self, pool: PoolId) -> PoolTally:
        return self._of.get(pool) or PoolTally()

    def committed(self, entries: Sequence[Entry], revision: int) -> None:
        for entry in entries:
            if entry.table is Table.WORKERS:
                self._note_worker(entry.old, entry.new)
            elif entry.table is Table.OUTBOX and isinstance(entry.new, ScalingStep):
                self._note_step(entry.new)
            elif entry.table is Table.POOLS and entry.new is None:
                self._of.pop(PoolId(entry.key), None)

    def _note_step(self, step: ScalingStep) -> None:
        tally, verdict = self._of[step.pool], step.verdict
        direction = "up" if verdict.by > 0 else "down" if verdict.by < 0 else "held"
        tally.steps[direction] = tally.steps.get(direction, 0) + 1
        for hold in verdict.holds:
            tally.holds[hold] = tally.holds.get(hold, 0) + 1

    def _note_worker(self, old: object, new: object) -> None:
        if not isinstance(old, Worker) or not isinstance(new, Worker) or old.state is not WorkerState.ASKED:
            return
        tally = self._of[new.pool]
        if new.state is WorkerState.READY:
            tally.ready += 1
            tally.ready_ms += new.since - new.asked_at
        elif new.state is WorkerState.ENDING:
            tally.given_up += 1
        elif new.problem != old.problem:
            tally.refusals += 1
