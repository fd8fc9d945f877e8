"""The fake node's machine: containers, volumes and images that outlive the agent, a record of what happened, and faults."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio
from msgspec import Struct

from windlass.core.errors import Invalid, NotFound, Unavailable
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import Millis, NodeId, RunId, VolumeId
from windlass.core.model.resources import Resources
from windlass.core.model.secret import NOTHING_HANDED
from windlass.ports.clock import Clock
from windlass.ports.runtime import ENGINE_UNAVAILABLE, ImageUnavailable, LogLine, Observed, Phase, Stream
from windlass.testing.runtime.program import Program

PIECE: Final = 16_384
"""Engines cut long lines; so does this one."""


class Happening(Struct, frozen=True):
    """For the checkers of a simulation: what this machine did, in order."""

    at: Millis
    what: str
    run: RunId


class Owner(Struct, frozen=True):
    installation: str
    node: str


class Folder:
    """A volume: files by path. A link is kept as its target and never followed."""

    def __init__(self, owner: Owner, labels: Mapping[str, str]) -> None:
        self.owner = owner
        self.labels = dict(labels)
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.directories: set[str] = set()

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def write(self, path: str, data: bytes) -> None:
        self.links.pop(path, None)
        self.files[path] = data
        self.make_parents(path)

    def link(self, path: str, target: str) -> None:
        self.files.pop(path, None)
        self.links[path] = target
        self.make_parents(path)

    def make_parents(self, path: str) -> None:
        parts = path.split("/")[:-1]
        self.directories |= {"/".join(parts[: n + 1]) for n in range(len(parts))}

    def goes_through_link(self, path: str) -> bool:
        parts = path.split("/")
        return any("/".join(parts[: n + 1]) in self.links for n in range(len(parts)))


class Container:
    """One run. `program` is None until it is started."""

    def __init__(self, assignment: Assignment, owner: Owner) -> None:
        self.assignment = assignment
        self.owner = owner
        self.program: Program | None = None
        self.handed = NOTHING_HANDED
        self.started_at = Millis(0)
        self.error = ""
        self.pid = 0
        self.givers: list[object] = []
        """Who is attached and has not ended its input."""

    @property
    def phase(self) -> Phase:
        if self.program is None:
            return Phase.CREATED
        return Phase.RUNNING if self.program.end is None else Phase.EXITED


class FakeMachine:
    """Hand it to one FakeRuntime after the other, as a machine is to agents that crash and come back.

    `images` None: every image is there. Else only those; what `registry` maps to milliseconds can be pulled in that time, and
    what it maps to an error cannot. `is_down` makes every call Unavailable, as an engine that restarts does.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        capacity: Resources | None = None,
        gpu_ids: tuple[str, ...] = (),
        images: set[str] | None = None,
        registry: Mapping[str, int | ImageUnavailable] | None = None,
    ) -> None:
        self.clock = clock
        self.capacity = capacity or Resources(cpu_millis=8_000, memory_bytes=16 << 30, gpus=len(gpu_ids))
        self.gpu_ids = gpu_ids
        self.images = images
        self.registry = dict(registry or {})
        self.containers: dict[RunId, Container] = {}
        self.volumes: dict[VolumeId, Folder] = {}
        self.slices: dict[Owner, set[NodeId]] = {}
        """Whose runs were held together."""
        self.starts: Counter[RunId] = Counter()
        self.history: list[Happening] = []
        self._is_down = False
        self._faults: list[tuple[str, Exception, bool]] = []
        self._changed = anyio.Event()
        self._pids = 1000

    @property
    def is_down(self) -> bool:
        return self._is_down

    @is_down.setter
    def is_down(self, value: bool) -> None:
        self._is_down = value
        self.change()

    def fail(self, verb: str, error: Exception, *, times: int = 1, is_after: bool = False) -> None:
        """The next `times` calls of the port's `verb` raise `error`: before the act, or after it, when the answer is lost."""
        self._faults += [(verb, error, is_after)] * times

    def check(self, verb: str, *, is_after: bool = False) -> None:
        """Called by the runtime around every act."""
        if self._is_down and not is_after:
            raise Unavailable("the engine is down", code=ENGINE_UNAVAILABLE)
        for fault in self._faults:
            if fault[0] == verb and fault[2] is is_after:
                self._faults.remove(fault)
                raise fault[1]

    def change(self) -> None:
        """Wake whoever waits for something here."""
        self._changed.set()
        self._changed = anyio.Event()

    def news(self) -> anyio.Event:
        """The next change. Taken before a look, so that nothing between the look and the waiting is missed."""
        return self._changed

    async def changed(self, event: anyio.Event, until: Millis | None) -> None:
        """That change, or that moment, whichever comes first."""
        if until is None:
            await event.wait()
            return
        async with anyio.create_task_group() as tasks:

            async def sleep() -> None:
                await self.clock.sleep_until(until)
                tasks.cancel_scope.cancel()

            tasks.start_soon(sleep)
            await event.wait()
            tasks.cancel_scope.cancel()

    def settle(self) -> None:
        """Let every program run up to now. One may wait for a file that another writes, hence the second round."""
        now = self.clock.now()
        for _ in range(2):
            for container in self.containers.values():
                self._advance(container, now)

    def next_at(self) -> Millis | None:
        """When any program does something by itself next."""
        moments = [c.program.wakes_at for c in self.containers.values() if c.program and c.program.wakes_at is not None]
        return min(moments, default=None)

    def start(self, container: Container, steps: tuple[str, ...], environ: Mapping[str, str]) -> None:
        run, now = container.assignment.run, self.clock.now()
        self._pids += 1
        container.pid, container.started_at = self._pids, now
        folder = self.volumes.get(container.assignment.volume) or Folder(container.owner, {})
        container.program = Program(steps, at=now, files=folder, environ=environ)
        self.starts[run] += 1
        self.history.append(Happening(now, "started", run))
        self._advance(container, now)
        self.change()

    def observe(self, container: Container) -> Observed:
        program, run = container.program, container.assignment.run
        end = program.end if program else None
        return Observed(
            run=run,
            phase=container.phase,
            token=container.assignment.token,
            pid=container.pid if container.phase is Phase.RUNNING else None,
            exit_code=end.code if end else None,
            is_oom=end.is_oom if end else False,
            ran_ms=Millis(end.at - container.started_at) if end else Millis(0),
            started_wall=self.clock.wall(container.started_at) if program else None,
            finished_wall=self.clock.wall(end.at) if end else None,
            error=container.error,
        )

    def lines(self, container: Container) -> list[LogLine]:
        """All that was written so far, cut into lines and long lines into pieces."""
        lines: list[LogLine] = []
        pending: dict[Stream, bytes] = {}
        outputs = container.program.output if container.program else ()
        for output in outputs:
            at = self.timestamp(output.at)
            *whole, rest = (pending.get(output.stream, b"") + output.data).split(b"\n")
            for text in whole:
                lines += _cut(at, output.stream, text)
            pending[output.stream] = rest
        if container.phase is Phase.EXITED:
            at = self.timestamp(self.clock.now() if not outputs else outputs[-1].at)
            lines += [LogLine(at=at, stream=s, text=rest, is_partial=True) for s, rest in pending.items() if rest]
        return lines

    def timestamp(self, at: Millis) -> str:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=round(self.clock.wall(at) * 1000))
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond * 1000:09d}Z"

    def _advance(self, container: Container, now: Millis) -> None:
        if container.program is None or container.program.end is not None:
            return
        container.program.advance(now)
        if container.program.end is not None:
            self.history.append(Happening(container.program.end.at, "ended", container.assignment.run))


def steps_below(path: str) -> str:
    """The path without its dots. Raises Invalid for one that would leave the volume."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise Invalid(f"{path[:200]!r} is not a path below the volume's root", code="path-outside")
    return "/".join(parts)


def absent(run: RunId) -> NotFound:
    return NotFound(f"no container for run {run}", code="run-not-found")


def _cut(at: str, stream: Stream, text: bytes) -> list[LogLine]:
    pieces = [text[n : n + PIECE] for n in range(0, len(text), PIECE)] or [b""]
    last = len(pieces) - 1
    return [LogLine(at=at, stream=stream, text=piece, is_partial=n < last) for n, piece in enumerate(pieces)]
