"""The runtime port on a `FakeMachine`. It keeps nothing itself: throw it away and make another, and that was a crash."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from windlass.core.errors import Conflict, NotFound, Unavailable
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import Millis, NodeId, RunId, VolumeId
from windlass.core.model.secret import NOTHING_HANDED, Handed
from windlass.core.model.variables import run_variables
from windlass.ports.runtime import (
    ANY_VOLUME,
    ANYBODY,
    IDLE_MS,
    ImageAccess,
    ImageUnavailable,
    LogLine,
    LogPosition,
    Machine,
    Observed,
    Phase,
    StartFailed,
    Terminal,
    Traits,
    Used,
    VolumeWish,
)
from windlass.testing.runtime.archives import pack, unpack
from windlass.testing.runtime.machine import Container, FakeMachine, Folder, Owner, absent, steps_below
from windlass.testing.runtime.program import Program, parse
from windlass.testing.runtime.terminal import FakeTerminal

_OVER = frozenset({Phase.EXITED, Phase.ABSENT})


class FakeRuntime:
    traits = Traits()

    def __init__(self, machine: FakeMachine, *, installation: str = "installation", node: str = "node") -> None:
        self._machine = machine
        self._owner = Owner(installation, node)

    async def close(self) -> None:
        return None

    async def machine(self) -> Machine:
        self._machine.check("machine")
        return Machine(runtime="fake", kind="container", capacity=self._machine.capacity, gpu_ids=self._machine.gpu_ids)

    async def ensure_image(self, image: str, *, access: ImageAccess = ANYBODY) -> AsyncIterator[str]:
        self._machine.check("ensure_image")
        if self._machine.images is None or image in self._machine.images:
            return
        source = self._machine.registry.get(image)
        if source is None:
            raise ImageUnavailable(f"{image}: manifest unknown", is_transient=False, code="image-not-found")
        if isinstance(source, ImageUnavailable):
            raise source
        yield f"pulling {image}"
        await self._machine.clock.sleep_until(Millis(self._machine.clock.now() + source))
        self._machine.images.add(image)

    async def ensure_volume(
        self, volume: VolumeId, *, labels: Mapping[str, str], wish: VolumeWish = ANY_VOLUME
    ) -> None:
        self._machine.check("ensure_volume")
        folder = self._machine.volumes.setdefault(volume, Folder(self._owner, labels))
        if folder.owner != self._owner:
            raise Conflict(f"volume {volume} is not ours", code="volume-foreign")
        self._machine.check("ensure_volume", is_after=True)

    async def put_archive(self, volume: VolumeId, path: str, tar: AsyncIterator[bytes]) -> None:
        self._machine.check("put_archive")
        below = steps_below(path)
        data = b"".join([chunk async for chunk in tar])
        folder = self._folder(volume)
        if folder.goes_through_link(below):
            raise NotFound(f"{path!r} is a link; links are not followed", code="path-is-link")
        unpack(folder, below, data)
        self._machine.settle()
        self._machine.change()
        self._machine.check("put_archive", is_after=True)

    async def get_archive(self, volume: VolumeId, path: str) -> AsyncIterator[bytes]:
        self._machine.check("get_archive")
        self._machine.settle()
        yield pack(self._folder(volume), steps_below(path))

    async def remove_volume(self, volume: VolumeId) -> None:
        self._machine.check("remove_volume")
        folder = self._machine.volumes.get(volume)
        if folder is None or folder.owner != self._owner:
            return
        if any(c.assignment.volume == volume for c in self._machine.containers.values()):
            raise Conflict(f"volume {volume} is in use", code="volume-in-use")
        del self._machine.volumes[volume]
        self._machine.check("remove_volume", is_after=True)

    async def volumes(self) -> tuple[VolumeId, ...]:
        self._machine.check("volumes")
        return tuple(sorted(v for v, folder in self._machine.volumes.items() if folder.owner == self._owner))

    async def create(self, assignment: Assignment, *, handed: Handed = NOTHING_HANDED) -> None:
        self._machine.check("create")
        existing = self._machine.containers.get(assignment.run)
        if existing is not None and existing.owner != self._owner:
            raise Conflict(f"another installation has a container {assignment.run}", code="name-taken")
        if existing is None:
            if self._machine.images is not None and assignment.spec.image not in self._machine.images:
                raise ImageUnavailable(f"no {assignment.spec.image}", is_transient=True, code="image-not-found")
            self._machine.volumes.setdefault(assignment.volume, Folder(self._owner, {}))
            self._machine.containers[assignment.run] = Container(assignment, self._owner)
            if assignment.slice is not None:
                self._machine.slices.setdefault(self._owner, set()).add(assignment.slice.node)
        self._machine.check("create", is_after=True)

    async def start(self, run: RunId, *, handed: Handed = NOTHING_HANDED) -> None:
        self._machine.check("start")
        container = self._container(run)
        if container is None:
            raise absent(run)
        if container.phase is Phase.CREATED:
            container.handed = handed
            self._start(container)
        self._machine.check("start", is_after=True)

    async def observe(self, run: RunId) -> Observed:
        self._machine.check("observe")
        container = self._container(run)
        return self._machine.observe(container) if container else Observed(run=run, phase=Phase.ABSENT)

    async def usage(self, run: RunId) -> Used | None:
        """Every program keeps half a core busy and holds a quarter of the memory it asked for."""
        self._machine.check("usage")
        container = self._container(run)
        if container is None or self._machine.observe(container).phase is not Phase.RUNNING:
            return None
        ran_ms = self._machine.clock.now() - container.started_at
        needs = container.assignment.spec.needs
        return Used(cpu_used_ms=ran_ms // 2, memory_peak_bytes=needs.memory_bytes // 4)

    async def observe_all(self) -> tuple[Observed, ...]:
        self._machine.check("observe_all")
        self._machine.settle()
        ours = [c for c in self._machine.containers.values() if c.owner == self._owner]
        return tuple(sorted((self._machine.observe(c) for c in ours), key=lambda seen: seen.run))

    async def wait(self, run: RunId) -> Observed:
        while True:
            news = self._machine.news()
            try:
                seen = await self.observe(run)
                if seen.phase in _OVER:
                    return seen
            except Unavailable:
                await self._machine.changed(news, None if self._machine.is_down else self._machine.clock.now())
                continue
            await self._machine.changed(news, self._machine.next_at())

    async def stop(self, run: RunId, *, grace_ms: Millis) -> None:
        self._machine.check("stop")
        container = self._container(run)
        if container is None or container.program is None:
            return
        container.program.terminate(self._machine.clock.now())
        deadline = Millis(self._machine.clock.now() + grace_ms)
        self._machine.settle()
        self._machine.change()
        while container.phase is Phase.RUNNING:
            news = self._machine.news()
            if self._machine.clock.now() >= deadline:
                container.program.kill(self._machine.clock.now())
                self._machine.change()
                break
            wakes = container.program.wakes_at
            await self._machine.changed(news, deadline if wakes is None else min(deadline, wakes))
            self._machine.settle()
        self._machine.check("stop", is_after=True)

    async def logs(self, run: RunId, *, after: LogPosition) -> AsyncIterator[LogLine]:
        given = None
        while True:
            news = self._machine.news()
            container = self._container(run)
            if container is None or (container.phase is Phase.CREATED and container.error):
                return
            if self._machine.is_down:
                await self._machine.changed(news, None)
                continue
            is_over, lines = container.phase is Phase.EXITED, self._machine.lines(container)
            if given is None:
                given = _held(lines, after)
            for line in lines[given:]:
                given += 1
                yield line
            if is_over:
                return
            await self._machine.changed(news, self._machine.next_at())

    async def remove(self, run: RunId) -> None:
        self._machine.check("remove")
        container = self._container(run)
        if container is not None:
            if container.program:
                container.program.kill(self._machine.clock.now())
            self._machine.settle()
            del self._machine.containers[run]
            self._machine.change()
        self._machine.check("remove", is_after=True)

    @asynccontextmanager
    async def attach(self, run: RunId) -> AsyncIterator[Terminal]:
        container = self._container(run)
        if container is None:
            raise absent(run)
        spec = container.assignment.spec
        givers = container.givers if spec.wants_input and not spec.wants_terminal else None
        terminal = FakeTerminal(self._machine, lambda: container.program, givers)
        try:
            yield terminal
        finally:
            if givers is not None and container.program is not None:
                await terminal.close_input()
            elif givers is not None:
                givers.remove(terminal)

    @asynccontextmanager
    async def execute(self, run: RunId, command: tuple[str, ...], *, wants_terminal: bool) -> AsyncIterator[Terminal]:
        container = self._container(run)
        if container is None:
            raise absent(run)
        if container.phase is not Phase.RUNNING:
            raise Conflict(f"run {run} is {container.phase}, not running", code="run-not-running")
        program = self._program(command, self._folder(container.assignment.volume), {})
        yield FakeTerminal(self._machine, lambda: program)

    @asynccontextmanager
    async def debug(
        self,
        volume: VolumeId,
        *,
        name: str,
        image: str,
        command: tuple[str, ...],
        labels: Mapping[str, str],
        keep: bool,
    ) -> AsyncIterator[Terminal]:
        program = self._program(command, self._folder(volume), {})
        yield FakeTerminal(self._machine, lambda: program)

    async def slices(self) -> tuple[NodeId, ...]:
        self._machine.check("slices")
        return tuple(sorted(self._machine.slices.get(self._owner, ())))

    async def end_slice(self, node: NodeId) -> None:
        self._machine.check("end_slice")
        self._machine.settle()
        ours = (one for one in self._machine.containers.values() if one.owner == self._owner)
        if any(
            one.phase is Phase.RUNNING and one.assignment.slice and one.assignment.slice.node == node for one in ours
        ):
            raise Unavailable(f"something runs in the slice {node}", code="slice-cgroup")
        self._machine.slices.get(self._owner, set()).discard(node)

    async def tidy(self, *, idle_ms: Millis = IDLE_MS) -> None:
        self._machine.check("tidy")

    async def remove_all(self) -> int:
        self._machine.check("remove_all")
        self._machine.slices.pop(self._owner, None)
        runs = [run for run, container in self._machine.containers.items() if container.owner == self._owner]
        for run in runs:
            await self.remove(run)
        volumes = await self.volumes()
        for volume in volumes:
            await self.remove_volume(volume)
        return len(runs) + len(volumes)

    def _container(self, run: RunId) -> Container | None:
        self._machine.settle()
        container = self._machine.containers.get(run)
        return container if container and container.owner == self._owner else None

    def _folder(self, volume: VolumeId) -> Folder:
        folder = self._machine.volumes.get(volume)
        if folder is None or folder.owner != self._owner:
            raise NotFound(f"no volume {volume}", code="volume-not-found")
        return folder

    def _start(self, container: Container) -> None:
        if container.error:
            raise StartFailed(container.error)
        command = container.assignment.spec.command
        steps = parse(command)
        if steps is None:
            container.error = f"no such command in the image: {command[0]} (exit 127)"
            raise StartFailed(container.error)
        self._machine.start(container, steps, _environ(container.assignment, container.handed))

    def _program(self, command: tuple[str, ...], folder: Folder, environ: Mapping[str, str]) -> Program:
        steps = parse(command)
        if steps is None:
            raise StartFailed(f"no such command in the image: {command[0]} (exit 127)")
        return Program(steps, at=self._machine.clock.now(), files=folder, environ=environ)


def _held(lines: list[LogLine], after: LogPosition) -> int:
    """How many of the lines the reader has. Times never decrease here, so what it has is a beginning."""
    seen: dict[str, int] = {}
    for number, line in enumerate(lines):
        if line.at > after.last_at:
            return number
        if line.at == after.last_at:
            seen[line.stream] = seen.get(line.stream, 0) + 1
            if seen[line.stream] > after.lines_at_last.get(line.stream, 0):
                return number
    return len(lines)


def _environ(assignment: Assignment, handed: Handed = NOTHING_HANDED) -> dict[str, str]:
    return dict(assignment.spec.env) | dict(handed.variables) | run_variables(assignment)
