"""What the runs of the runtime contract do, in neutral steps, and how a harness says so to its runtime."""

import shlex
import time
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, Protocol

import anyio
from msgspec import Struct

from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import JobId, Millis, RunId, TenantId, VolumeId
from windlass.core.model.job import JobSpec
from windlass.core.model.resources import Resources
from windlass.core.model.run import Intent, Token
from windlass.ports.runtime import Runtime, Stream


class RealClock:
    """Time as it passes: a real engine's containers know no other."""

    def __init__(self) -> None:
        self._wall_at_zero = time.time() - time.monotonic()

    def now(self) -> Millis:
        return Millis(time.monotonic_ns() // 1_000_000)

    def wall(self, at: Millis) -> float:
        return self._wall_at_zero + at / 1000

    async def sleep_until(self, at: Millis) -> None:
        await anyio.sleep(max(0, at - self.now()) / 1000)


class Say(Struct, frozen=True):
    """Bytes as they are; newlines are the caller's."""

    data: bytes
    stream: Stream = Stream.STDOUT


class Sleep(Struct, frozen=True):
    seconds: float


class Exit(Struct, frozen=True):
    code: int


class IgnoreTerm(Struct, frozen=True):
    """Only SIGKILL ends it from here on."""


class Trap(Struct, frozen=True):
    """SIGTERM ends it with this code from here on."""

    code: int


class Variable(Struct, frozen=True):
    """Print a variable and a newline."""

    name: str


class Append(Struct, frozen=True):
    """A line at the end of a file of the volume."""

    path: str
    text: str


class Link(Struct, frozen=True):
    path: str
    target: str


class Show(Struct, frozen=True):
    """Print a file of the volume."""

    path: str


class Await(Struct, frozen=True):
    """Until that file of the volume is there."""

    path: str


class Copy(Struct, frozen=True):
    """Input to output, until it ends."""


class ReadLine(Struct, frozen=True):
    """One line of input, printed."""


Step = Say | Sleep | Exit | IgnoreTerm | Trap | Variable | Append | Link | Show | Await | Copy | ReadLine


class Trait(StrEnum):
    TERMINAL = "a run may have a terminal, and attach reaches it"
    INPUT = "a run may be given input without a terminal, by several at once"
    EXECUTE = "a second process may be started beside a run"
    DEBUG = "a shell may be started beside a volume"


class Harness(Protocol):
    """A machine under test and the runtime on it."""

    runtime: Runtime
    traits: frozenset[Trait]
    image: str

    def command(self, *steps: Step) -> tuple[str, ...]: ...

    def open(self, *, installation: str = ..., node: str = ...) -> AbstractAsyncContextManager[Runtime]:
        """Another runtime on the same machine: by default of the same installation and node, as after a crash."""
        ...


def as_shell(steps: tuple[Step, ...]) -> tuple[str, ...]:
    """For runtimes whose runs have a POSIX shell and the volume at $WINDLASS_ARTIFACTS."""
    return ("sh", "-c", "\n".join(_shell(step) for step in steps))


def as_fake(steps: tuple[Step, ...]) -> tuple[str, ...]:
    """For the fake's own script."""
    return ("do", *(_fake(step) for step in steps))


def an_assignment(harness: Harness, name: str, *steps: Step, **changes: Any) -> Assignment:
    """`changes` go to the spec, unless the assignment has a field of that name."""
    own = {key: changes.pop(key) for key in tuple(changes) if key in Assignment.__struct_fields__}
    spec = {"command": harness.command(*steps), "image": harness.image} | changes
    spec.setdefault("needs", Resources(cpu_millis=500, memory_bytes=64 << 20))
    fields: dict[str, Any] = {
        "run": RunId(f"{name}-1"),
        "job": JobId(name),
        "tenant": TenantId("acme"),
        "name": f"job-{name}",
        "token": Token(3, 14),
        "intent": Intent.RUN,
        "volume": VolumeId(f"v-{name}"),
        "attempt": 1,
        "spec": JobSpec(**spec),
    }
    return Assignment(**(fields | own))


def _shell(step: Step) -> str:
    match step:
        case Say(data, stream):
            redirect = " >&2" if stream is Stream.STDERR else ""
            return "\n".join(f"printf '{part}'{redirect}" for part in _octal(data))
        case Sleep(seconds):
            return f"sleep {seconds} & wait $!"  # a shell that waits can be told; one that runs sleep cannot
        case Exit(code):
            return f"exit {code}"
        case IgnoreTerm():
            return "trap '' TERM"
        case Trap(code):
            return f"trap 'exit {code}' TERM"
        case Variable(name):
            return f'echo "${name}"'
        case Append(path, text):
            return f'echo {shlex.quote(text)} >> "${{WINDLASS_ARTIFACTS:-/mnt}}/{path}"'
        case Link(path, target):
            return f'ln -s {shlex.quote(target)} "${{WINDLASS_ARTIFACTS:-/mnt}}/{path}"'
        case Show(path):
            return f'cat "${{WINDLASS_ARTIFACTS:-/mnt}}/{path}"'
        case Await(path):
            return f'until [ -e "${{WINDLASS_ARTIFACTS:-/mnt}}/{path}" ]; do sleep 0.05; done'
        case Copy():
            return "cat"
        case ReadLine():
            return "read -r line; echo $line"


def _octal(data: bytes) -> list[str]:
    shown = [chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\{byte:03o}" for byte in data]
    return ["".join(shown)] if shown else []


def _fake(step: Step) -> str:
    match step:
        case Say(data, stream):
            return f"{'rawwarn' if stream is Stream.STDERR else 'raw'} {data.hex()}"
        case Sleep(seconds):
            return f"sleep {seconds}"
        case Exit(code):
            return f"exit {code}"
        case IgnoreTerm():
            return "ignore-term"
        case Trap(code):
            return f"trap {code}"
        case Variable(name):
            return f"env {name}"
        case Append(path, text):
            return f"append {path} {text}"
        case Link(path, target):
            return f"link {path} {target}"
        case Show(path):
            return f"show {path}"
        case Await(path):
            return f"await {path}"
        case Copy():
            return "copy"
        case ReadLine():
            return "read"
