"""What simulation found about sets that arrive late, twice, or out of order."""

import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec.structs import replace

from windlass.agent.agent import Agent
from windlass.core.model.assignment import Assignment, Assignments
from windlass.core.model.facts import Fact, RunEnded, RunStarted, VolumeMade
from windlass.core.model.ids import JobId, NodeId, RunId, TenantId, VolumeId
from windlass.core.model.job import JobSpec
from windlass.core.model.node import Node
from windlass.core.model.resources import Resources
from windlass.core.model.run import Intent, Token
from windlass.core.model.secret import NOTHING_HANDED, Handed
from windlass.ports.failpoints import NONE
from windlass.ports.runtime import LogLine, LogPosition, Phase
from windlass.testing.blobs import MemoryBlobs
from windlass.testing.builders import a_node
from windlass.testing.logs import Disk, MemoryJournal, MemoryLogs
from windlass.testing.runtime import FakeMachine, FakeRuntime
from windlass.testing.virtual import VirtualClock, VirtualLoop, run_virtual

NO_ROOM_SECONDS = 1000
RUN = RunId("01900000-0000-7000-8000-000000000001-1")


class ScriptedLink:
    """Tells the agent what the test says, hears every fact."""

    def __init__(self) -> None:
        self.say, self._heard = anyio.create_memory_object_stream[Assignments](100)
        self.facts: list[Fact] = []

    async def join(self, node: Node, *, epoch_seen: int) -> None:
        return None

    @asynccontextmanager
    async def assignments(self) -> AsyncIterator[AsyncIterator[Assignments]]:
        yield self._heard

    async def hand_over(self, run: RunId, token: Token) -> Handed:
        return NOTHING_HANDED

    async def report(self, facts: Sequence[Fact]) -> None:
        self.facts += facts


class SlowRecords(ScriptedLink):
    """Where it takes long until a volume is on record."""

    async def report(self, facts: Sequence[Fact]) -> None:
        if any(isinstance(fact, VolumeMade) for fact in facts):
            await anyio.sleep(10)
        await super().report(facts)


class Bench:
    """An agent on a fake machine, on virtual time."""

    def __init__(
        self,
        loop: VirtualLoop,
        link: ScriptedLink | None = None,
        *,
        runtime: type[FakeRuntime] = FakeRuntime,
        **machine: object,
    ) -> None:
        clock = VirtualClock(loop)
        self.machine = FakeMachine(clock, **machine)  # type: ignore[arg-type]
        self.link = link or ScriptedLink()
        self.journal = MemoryJournal(Disk())
        self.logs = MemoryLogs()
        self.agent = Agent(
            a_node("n1"),
            link=self.link,
            runtime=runtime(self.machine, node="n1"),
            blobs=MemoryBlobs(),
            logs=self.logs,
            journal=self.journal,
            clock=clock,
            failpoints=NONE,
            starts_max=4,
        )

    def tell(self, number: int, *runs: Assignment, kept: tuple[RunId, ...] = (), epoch: int = 1) -> None:
        told = Assignments(node=NodeId("n1"), epoch=epoch, number=number, runs=runs, kept=kept)
        self.link.say.send_nowait(told)


class SlowLog(FakeRuntime):
    """Where it takes a minute to give the second line and all after it."""

    async def logs(self, run: RunId, *, after: LogPosition) -> AsyncIterator[LogLine]:
        async for line in super().logs(run, after=after):
            if line.text != b"1":
                await anyio.sleep(60)
            yield line


class NoRoomForLogs(FakeRuntime):
    """Where the log finds no room to be written to, for a long time."""

    async def logs(self, run: RunId, *, after: LogPosition) -> AsyncIterator[LogLine]:
        if anyio.current_time() < NO_ROOM_SECONDS:
            raise OSError(errno.ENOSPC, "No space left on device")
        async for line in super().logs(run, after=after):
            yield line


def an_assignment(*, command: tuple[str, ...] = ("sleep", "30"), image: str = "here") -> Assignment:
    return Assignment(
        run=RUN,
        job=JobId(RUN[:36]),
        tenant=TenantId("local"),
        name="job",
        token=Token(1, 1),
        intent=Intent.RUN,
        volume=VolumeId(RUN[:36]),
        attempt=1,
        spec=JobSpec(image=image, command=command, needs=Resources(cpu_millis=100)),
    )


def test_an_older_set_that_arrives_late_neither_removes_nor_starts_anything() -> None:
    async def main(loop: VirtualLoop) -> tuple[Phase, int]:
        bench = Bench(loop)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.agent.run)
            bench.tell(2, an_assignment())
            await anyio.sleep(5)
            bench.tell(1)
            await anyio.sleep(5)
            phase = bench.machine.containers[RUN].phase
            bench.tell(3)
            await anyio.sleep(5)
            bench.tell(2, an_assignment())
            await anyio.sleep(5)
            tasks.cancel_scope.cancel()
        return phase, bench.machine.starts[RUN]

    assert run_virtual(main) == (Phase.RUNNING, 1)


def test_a_run_that_is_no_longer_wanted_is_not_started_by_a_keeper_that_still_pulls() -> None:
    async def main(loop: VirtualLoop) -> tuple[int, list[RunId]]:
        bench = Bench(loop, images=set(), registry={"slow": 10_000})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.agent.run)
            bench.tell(1, an_assignment(image="slow"))
            await anyio.sleep(5)
            bench.tell(2)
            await anyio.sleep(30)
            tasks.cancel_scope.cancel()
        return bench.machine.starts[RUN], list(bench.machine.containers)

    assert run_virtual(main) == (0, [])


def test_the_same_set_twice_and_a_stop_after_it_lead_to_one_start_and_one_end() -> None:
    async def main(loop: VirtualLoop) -> tuple[int, list[type[Fact]]]:
        bench = Bench(loop)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.agent.run)
            for number in (1, 1, 2):
                bench.tell(number, an_assignment())
            await anyio.sleep(5)
            bench.tell(3, replace(an_assignment(), intent=Intent.STOP))
            await anyio.sleep(20)
            tasks.cancel_scope.cancel()
        return bench.machine.starts[RUN], [
            type(fact) for fact in bench.link.facts if isinstance(fact, RunStarted | RunEnded)
        ]

    assert run_virtual(main) == (1, [RunStarted, RunEnded])


def test_a_container_is_made_while_its_volume_goes_on_record_and_starts_only_after() -> None:
    async def main(loop: VirtualLoop) -> tuple[Phase, Phase, list[type[Fact]]]:
        bench = Bench(loop, SlowRecords())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.agent.run)
            bench.tell(1, an_assignment())
            await anyio.sleep(5)
            meanwhile = bench.machine.containers[RUN].phase
            await anyio.sleep(10)
            after = bench.machine.containers[RUN].phase
            tasks.cancel_scope.cancel()
        return meanwhile, after, [type(fact) for fact in bench.link.facts]

    assert run_virtual(main) == (Phase.CREATED, Phase.RUNNING, [VolumeMade, RunStarted])


def test_a_run_that_runs_though_the_journal_knows_nothing_of_it_is_followed_and_not_started_again() -> None:
    async def main(loop: VirtualLoop) -> tuple[int, list[type[Fact]]]:
        first = Bench(loop)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first.agent.run)
            first.tell(1, an_assignment())
            await anyio.sleep(5)
            tasks.cancel_scope.cancel()
        second = Bench(loop)
        second.machine.containers = first.machine.containers
        second.machine.starts = first.machine.starts
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second.agent.run)
            second.tell(1, an_assignment())
            await anyio.sleep(60)
            tasks.cancel_scope.cancel()
        return second.machine.starts[RUN], [type(fact) for fact in second.link.facts]

    assert run_virtual(main) == (1, [VolumeMade, RunStarted, RunEnded])


def test_what_a_run_used_is_reported_with_its_end_and_nothing_of_one_too_short_to_be_looked_at() -> None:
    async def used(loop: VirtualLoop, seconds: str) -> tuple[int | None, int | None]:
        bench = Bench(loop)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.agent.run)
            needs = Resources(cpu_millis=100, memory_bytes=64 << 20)
            asked = an_assignment(command=("sleep", seconds))
            bench.tell(1, replace(asked, spec=replace(asked.spec, needs=needs)))
            await anyio.sleep(60)
            tasks.cancel_scope.cancel()
        [end] = [fact for fact in bench.link.facts if isinstance(fact, RunEnded)]
        return end.cpu_used_ms, end.memory_peak_bytes

    assert run_virtual(lambda loop: used(loop, "30")) == (15_000, 16 << 20)
    assert run_virtual(lambda loop: used(loop, "1")) == (None, None)


def test_an_end_does_not_wait_for_a_long_log_and_the_container_does() -> None:
    async def main(loop: VirtualLoop) -> tuple[list[type[Fact]], bool, bool, list[bytes], bool]:
        bench = Bench(loop, runtime=SlowLog)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.agent.run)
            bench.tell(1, an_assignment(command=("do", "print 1", "print 2", "print 3")))
            await anyio.sleep(10)
            told = [type(fact) for fact in bench.link.facts if isinstance(fact, RunEnded)]
            bench.tell(2)  # its end was accepted
            await anyio.sleep(10)
            is_there, is_whole = RUN in bench.machine.containers, bench.logs.is_sealed(RUN)
            await bench.logs.closed(RUN)
            await anyio.sleep(10)
            tasks.cancel_scope.cancel()
        lines = [line.text for line in bench.logs.lines[RUN]]
        return told, is_there, is_whole, lines, RUN in bench.machine.containers

    assert run_virtual(main) == ([RunEnded], True, False, [b"1", b"2", b"3"], False)


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_agent_killed_after_the_end_was_told_leaves_the_rest_of_the_log_to_the_next(is_kept: bool) -> None:
    async def main(loop: VirtualLoop) -> tuple[bool, list[bytes], bool]:
        first = Bench(loop, runtime=SlowLog)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first.agent.run)
            first.tell(1, an_assignment(command=("do", "print 1", "print 2", "print 3")))
            await anyio.sleep(10)
            tasks.cancel_scope.cancel()
        second = Bench(loop)
        second.machine.containers = first.machine.containers
        second.logs.lines = first.logs.lines
        was_sealed = first.logs.is_sealed(RUN)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second.agent.run)
            second.tell(1, kept=(RUN,) if is_kept else ())
            await anyio.sleep(10)
            tasks.cancel_scope.cancel()
        assert second.logs.is_sealed(RUN)
        return was_sealed, [line.text for line in second.logs.lines[RUN]], RUN in second.machine.containers

    assert run_virtual(main) == (False, [b"1", b"2", b"3"], is_kept)


def test_a_run_whose_disk_was_full_for_long_goes_on_within_ten_seconds_of_room() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        bench = Bench(loop, runtime=NoRoomForLogs)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.agent.run)
            bench.tell(1, an_assignment(command=("sleep", "1")))
            await anyio.sleep(NO_ROOM_SECONDS - 1)
            assert not any(isinstance(fact, RunEnded) for fact in bench.link.facts), "its end is told with its log"
            await anyio.sleep(11)
            tasks.cancel_scope.cancel()
        return [type(fact).__name__ for fact in bench.link.facts if isinstance(fact, RunEnded)]

    assert run_virtual(main) == ["RunEnded"]
