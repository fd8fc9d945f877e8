"""The runtime contract on the fake, on a real Docker Engine and on a real Podman."""

import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest

from tests.contracts.runtime_acts import (
    DEADLINE_SECONDS,
    all_lines,
    all_said,
    joined,
    position_after,
    started,
    until_it_says,
)
from tests.contracts.runtime_behaviours import Exit, ReadLine, Say
from tests.contracts.runtime_suite import (
    Harness,
    RealClock,
    RuntimeContract,
    Step,
    Trait,
    an_assignment,
    as_fake,
    as_shell,
)
from tests.parts import busybox
from tests.parts.engine_api import EngineApi
from windlass.adapters.runtime.docker import DockerRuntime
from windlass.core.errors import Unavailable
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import Millis
from windlass.ports.runtime import ImageUnavailable, LogPosition, Observed, Phase, Runtime, Stream
from windlass.testing.runtime import FakeMachine, FakeRuntime
from windlass.testing.virtual import VirtualClock, VirtualLoop, run_virtual

INSTALLATION, NODE = f"contract-{secrets.token_hex(4)}", "node"
"""What an installation has outside its engine (cgroups of slices) is named by its id: no two runs of the tests share one."""


class FakeHarness:
    traits = frozenset(Trait)
    image = "any"

    def __init__(self) -> None:
        self.machine = FakeMachine(RealClock())
        self.runtime: Runtime = FakeRuntime(self.machine, installation=INSTALLATION, node=NODE)

    def command(self, *steps: Step) -> tuple[str, ...]:
        return as_fake(steps)

    @asynccontextmanager
    async def open(self, *, installation: str = INSTALLATION, node: str = NODE) -> AsyncIterator[Runtime]:
        yield FakeRuntime(self.machine, installation=installation, node=node)


class EngineHarness:
    """Docker and Podman: the same adapter on another socket."""

    traits = frozenset(Trait)
    image = busybox.IMAGE

    def __init__(self, engine: EngineApi) -> None:
        self.engine = engine
        self.runtime: Runtime

    def command(self, *steps: Step) -> tuple[str, ...]:
        return as_shell(steps)

    def open(self, *, installation: str = INSTALLATION, node: str = NODE) -> AbstractAsyncContextManager[Runtime]:
        return DockerRuntime.open(self.engine.host, installation=installation, node=node, clock=RealClock())


@pytest.mark.anyio
class TestFake(RuntimeContract):
    @pytest.fixture
    async def harness(self) -> Harness:
        return FakeHarness()


class _OnEngine(RuntimeContract):
    @asynccontextmanager
    async def _harness(self, engine: EngineApi) -> AsyncIterator[Harness]:
        harness = EngineHarness(engine)
        async with harness.open() as runtime:
            harness.runtime = runtime
            try:
                yield harness
            finally:
                await runtime.remove_all()


@pytest.mark.anyio
@pytest.mark.docker
class TestDocker(_OnEngine):
    @pytest.fixture
    async def harness(self, docker_engine: EngineApi) -> AsyncIterator[Harness]:
        async with self._harness(docker_engine) as harness:
            yield harness


@pytest.mark.anyio
@pytest.mark.podman
class TestPodman(_OnEngine):
    @pytest.fixture
    async def harness(self, podman_service: EngineApi) -> AsyncIterator[Harness]:
        async with self._harness(podman_service) as harness:
            yield harness

    async def test_all_that_a_quick_run_said_is_there(self, harness: Harness) -> None:
        """Its log is longer than what is followed of it before its end; Podman drops what it follows after that."""
        written = b"".join(b"%d\n" % n for n in range(1, 20_001))
        assignment = await started(harness, "quick", command=("seq", "1", "20000"))
        assert joined(await all_lines(harness.runtime, assignment.run)) == written
        half = await all_lines(harness.runtime, assignment.run)
        assert joined(await all_lines(harness.runtime, assignment.run, after=position_after(half[:9_000]))) == joined(
            half[9_000:]
        )

    async def test_who_attaches_late_sees_the_prompt_that_stands_there(self, harness: Harness) -> None:
        """Docker keeps an unfinished line to itself."""
        steps = (Say(b"welcome\nname? "), ReadLine(), Exit(4))
        assignment = await started(harness, "prompt-tty", *steps, wants_terminal=True)
        await until_it_says(harness.runtime, assignment.run, b"name? ")
        with anyio.fail_after(DEADLINE_SECONDS):
            async with harness.runtime.attach(assignment.run), harness.runtime.attach(assignment.run) as second:
                await second.send(b"x\n")
                assert (await all_said(second))[Stream.STDOUT].startswith(b"welcome\r\nname? ")


class TestFakeOnVirtualTime:
    """What simulations rely on beyond the port."""

    def test_an_hour_takes_no_time_and_is_exact(self) -> None:
        async def main(loop: VirtualLoop) -> tuple[Observed, list[str]]:
            runtime = FakeRuntime(FakeMachine(VirtualClock(loop)))
            assignment = _scripted("print one", "sleep 3600", "warn two", "sleep 0.5", "exit 3")
            await runtime.create(assignment)
            await runtime.start(assignment.run)
            seen = await runtime.wait(assignment.run)
            lines = [line async for line in runtime.logs(assignment.run, after=LogPosition())]
            return seen, [f"{line.at[11:]} {line.stream} {line.text.decode()}" for line in lines]

        seen, lines = run_virtual(main)
        assert (seen.exit_code, seen.ran_ms) == (3, 3_600_500)
        assert lines == ["15:06:40.000000000Z stdout one", "16:06:40.000000000Z stderr two"]
        assert run_virtual(main) == (seen, lines)

    def test_the_machine_counts_starts_over_crashes(self) -> None:
        async def main(loop: VirtualLoop) -> FakeMachine:
            machine = FakeMachine(VirtualClock(loop))
            assignment = _scripted("sleep 5")
            for _ in range(3):
                runtime = FakeRuntime(machine)
                await runtime.create(assignment)
                await runtime.start(assignment.run)
            await runtime.wait(assignment.run)
            await runtime.start(assignment.run)
            return machine

        machine = run_virtual(main)
        assert machine.starts == {"job-1": 1}
        assert [(event.what, event.run) for event in machine.history] == [("started", "job-1"), ("ended", "job-1")]
        assert machine.history[1].at - machine.history[0].at == 5_000

    def test_a_fault_strikes_before_the_act_or_swallows_its_answer(self) -> None:
        async def main(loop: VirtualLoop) -> list[Phase]:
            machine = FakeMachine(VirtualClock(loop))
            runtime, assignment, phases = FakeRuntime(machine), _scripted("exit 0"), []
            for is_after in (False, True):
                machine.fail("create", Unavailable("lost"), is_after=is_after)
                with pytest.raises(Unavailable):
                    await runtime.create(assignment)
                phases.append((await runtime.observe(assignment.run)).phase)
            return phases

        assert run_virtual(main) == [Phase.ABSENT, Phase.CREATED]

    def test_a_wait_outlasts_an_engine_that_is_down(self) -> None:
        async def main(loop: VirtualLoop) -> tuple[int, Observed]:
            clock = VirtualClock(loop)
            machine = FakeMachine(clock)
            runtime, assignment = FakeRuntime(machine), _scripted("sleep 10", "exit 4")
            await runtime.create(assignment)
            await runtime.start(assignment.run)
            began = clock.now()
            machine.is_down = True
            with pytest.raises(Unavailable):
                await runtime.observe_all()
            async with anyio.create_task_group() as tasks:

                async def mend() -> None:
                    await clock.sleep_until(Millis(began + 60_000))
                    machine.is_down = False

                tasks.start_soon(mend)
                seen = await runtime.wait(assignment.run)
            return clock.now() - began, seen

        waited, seen = run_virtual(main)
        assert (waited, seen.exit_code, seen.ran_ms) == (60_000, 4, 10_000)

    def test_images_come_from_the_registry_in_its_own_time(self) -> None:
        async def main(loop: VirtualLoop) -> list[object]:
            clock = VirtualClock(loop)
            denied = ImageUnavailable("no", is_transient=False, code="image-denied")
            runtime = FakeRuntime(FakeMachine(clock, images={"here"}, registry={"far": 7_000, "secret": denied}))
            told: list[object] = []
            for image in ("here", "far", "far", "secret", "nowhere"):
                began = clock.now()
                try:
                    lines = [line async for line in runtime.ensure_image(image)]
                except ImageUnavailable as error:
                    told.append(error.code)
                else:
                    told.append((clock.now() - began, lines))
            return told

        assert run_virtual(main) == [
            (0, []),
            (7_000, ["pulling far"]),
            (0, []),
            "image-denied",
            "image-not-found",
        ]


def _scripted(*steps: str) -> Assignment:
    harness = FakeHarness()
    return an_assignment(harness, "job", command=("do", *steps))
