"""Reports that come twice, late, in the wrong order, for another run or with another's token: fifty thousand sequences of them.

Plain chance and a seed instead of hypothesis: a sequence takes half a millisecond, and it is their number that counts here.
"""

import random

from windlass.core.model.facts import Fact, RunEnded, RunProgressed, RunStarted, VolumeGone
from windlass.core.model.ids import LOCAL_TENANT, JobId, Millis, RunId
from windlass.core.model.job import TERMINAL, Job
from windlass.core.model.run import Run, RunState, Token
from windlass.core.model.volume import VolumeState, doomed_on
from windlass.core.world import requests
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.records import JobOver
from windlass.core.world.submit import submit
from windlass.testing.builders import a_job_id, a_node, a_submission, a_world

SEQUENCES = 50_000
REPORTS_MAX = 6
ENDS = (
    (RunState.EXITED, 0, "Completed"),
    (RunState.EXITED, 1, "ExitCode"),
    (RunState.STOPPED, 137, "DeadlineExceeded"),
    (RunState.LOST, None, "Vanished"),
    (RunState.REFUSED, None, "ImagePull"),
)


class Reporting:
    """One World, one job at a time on it, and every run there ever was, for reports that come much too late."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = a_world(a_node("n1"))
        self.now = Millis(2_000_000)
        self.ends: dict[JobId, Job] = {}
        self.past: list[Run] = []
        self.ignored = 0

    def live_through_one(self) -> Job:
        retries = self.chance.randrange(3)
        asked = a_submission(retries=retries, volume_ttl_ms=0)
        job, _ = submit(self.world, LOCAL_TENANT, asked, job=a_job_id(), now=self.now)
        for _ in range(self.chance.randint(1, REPORTS_MAX)):
            self._step(job.id)
        while job.id not in self.ends:
            self._end_truly(job.id)
        over = self.ends[job.id]
        for run in self.past[-2:]:  # and once more, when all is over
            self._report(self._ended(run, run.token))
        assert self.ends[job.id] is over
        self._clear()
        return over

    def _step(self, job: JobId) -> None:
        self._pass_time()
        if self.chance.random() < 0.05 and job in self.world.tables.jobs:
            requests.cancel(self.world, LOCAL_TENANT, job, now=self.now)
        self._place()
        if self.past:
            self._report(self._any_report())

    def _any_report(self) -> Fact:
        run = self.past[-1] if self.chance.random() < 0.7 else self.chance.choice(self.past[-20:])
        token = run.token if self.chance.random() < 0.7 else self._foreign(run)
        run_id = RunId("nobody-1") if self.chance.random() < 0.1 else run.id
        kind = self.chance.randrange(3)
        if kind == 0:
            return RunStarted(run=run_id, token=token)
        if kind == 1:
            return RunProgressed(run=run_id, token=token, progress="pulling")
        return self._ended(run, token, run_id=run_id)

    def _foreign(self, run: Run) -> Token:
        """An older one, one that was never given, or another run's."""
        return self.chance.choice(
            (Token(run.token.epoch, run.token.n - 1), Token(run.token.epoch + 1, 0), self.past[0].token)
        )

    def _ended(self, run: Run, token: Token, *, run_id: RunId | None = None) -> RunEnded:
        state, code, reason = self.chance.choice(ENDS)
        return RunEnded(
            run=run_id or run.id,
            token=token,
            state=state,
            exit_code=code,
            reason=reason,
            ran_ms=Millis(self.chance.randint(0, self.now - run.since)),
        )

    def _end_truly(self, job: JobId) -> None:
        self.now = Millis(self.now + 120_000)  # past every backoff
        expire(self.world, now=self.now)
        self._place()
        run = self.world.live_run(job)
        if run is not None:
            self._report(self._ended(run, run.token))

    def _report(self, fact: Fact) -> None:
        times = 1 + (self.chance.random() < 0.3)  # an answer that was lost is a report that comes again
        for _ in range(times):
            before = self.world.number
            observe(self.world, fact, now=self.now)
            self.ignored += self.world.number == before
        self._commit()

    def _place(self) -> None:
        self.past += place(self.world, now=self.now, limit=1)
        self._commit()

    def _pass_time(self) -> None:
        self.now = Millis(self.now + self.chance.choice((1, 500, 2_500)))
        expire(self.world, now=self.now)

    def _commit(self) -> None:
        for entry in self.world.journal.take(1 << 30):
            if isinstance(entry.new, JobOver):
                self._note_end(entry.new.job)
        self.world.journal.settle()

    def _note_end(self, job: Job) -> None:
        assert job.id not in self.ends, "an end is said once"
        assert job.state in TERMINAL
        assert job.cost >= 0
        assert job.finished_at is not None
        assert job.created_at <= (job.started_at or job.created_at) <= job.finished_at
        assert 0 <= job.attempt <= job.retries + 1
        self.ends[job.id] = job

    def _clear(self) -> None:
        expire(self.world, now=self.now)
        for volume in list(self.world.tables.volumes.values()):
            if volume.state is VolumeState.DROPPING:
                for node in doomed_on(volume):
                    observe(self.world, VolumeGone(volume=volume.id, node=node), now=self.now)
        self._commit()
        assert not self.world.tables.jobs
        del self.past[:-20]


def test_no_report_twice_late_misplaced_or_foreign_changes_an_end() -> None:
    told = Reporting(seed=15)
    states = {told.live_through_one().state for _ in range(SEQUENCES)}
    assert len(told.ends) == SEQUENCES
    assert states == TERMINAL
    assert told.ignored > SEQUENCES, "most of what is not to count does not count"
    usage = told.world.tables.usage[LOCAL_TENANT]
    assert (usage.jobs, usage.runs) == (0, 0), "nothing is held any more"
