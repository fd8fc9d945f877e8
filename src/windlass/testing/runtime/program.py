"""What a fake container runs: a few words of script on virtual time, without a process, a thread or a real second.

A job's command is one step, or `do` and any number of steps, each a single word of the command:

    ("sleep", "5")                                    ("exit", "3")            ("print", "a", "b")
    ("do", "print hello", "sleep 2", "warn oh no", "write out.txt data", "exit 3")

| step | does |
| --- | --- |
| `print TEXT`, `warn TEXT` | a line to stdout, to stderr |
| `raw HEX`, `rawwarn HEX` | bytes as they are, without a newline |
| `sleep SECONDS` | time passes; fractions are allowed |
| `exit CODE` | the end; without it a program ends with 0 |
| `hoard` | takes more memory than it may: killed with 137 |
| `ignore-term` | from here on only SIGKILL ends it |
| `trap CODE` | from here on SIGTERM ends it with CODE |
| `env NAME` | prints a variable |
| `write PATH TEXT`, `append PATH TEXT`, `link PATH TARGET`, `show PATH` | files of the volume |
| `await PATH` | until the file is there |
| `read`, `copy` | one line of input is printed; all input is, until it ends |

Any other word is no such command.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from windlass.core.model.ids import Millis
from windlass.ports.runtime import Stream

_WRITING: Final = frozenset({"print", "warn", "raw", "rawwarn", "env", "show"})
_FILES: Final = frozenset({"write", "append", "link"})
_LIVING: Final = frozenset({"sleep", "exit", "true", "false", "hoard", "ignore-term", "trap"})
_WAITING: Final = frozenset({"await", "read", "copy"})
_STEPS: Final = _WRITING | _FILES | _LIVING | _WAITING
KILLED: Final = 137
TERMINATED: Final = 143


class Files(Protocol):
    """The volume as a program sees it."""

    def read(self, path: str) -> bytes | None: ...

    def write(self, path: str, data: bytes) -> None: ...

    def link(self, path: str, target: str) -> None: ...


class Output(Struct, frozen=True):
    at: Millis
    stream: Stream
    data: bytes


class End(Struct, frozen=True):
    at: Millis
    code: int
    is_oom: bool = False


def parse(command: tuple[str, ...]) -> tuple[str, ...] | None:
    """The steps; None when there is no such command."""
    steps = command[1:] if command and command[0] == "do" else (" ".join(command),) if command else ()
    if command and command[0] == "print":
        steps = tuple(f"print {line}" for line in command[1:])
    return steps if all(step.split(" ", 1)[0] in _STEPS for step in steps) else None


class Program:
    """Runs as far as `now` whenever it is looked at. The times of what it did are exact, however late the look."""

    def __init__(self, steps: tuple[str, ...], *, at: Millis, files: Files, environ: Mapping[str, str]) -> None:
        self.output: list[Output] = []
        self.end: End | None = None
        self.wakes_at: Millis | None = None
        """When looking again is worth it; None while it waits for somebody else."""
        self._steps = list(steps)
        self._at = at
        self._files = files
        self._environ = environ
        self._input = b""
        self._is_input_closed = False
        self._on_term: int | None = TERMINATED

    def advance(self, now: Millis) -> None:
        while self.end is None:
            if self.wakes_at is not None:
                if self.wakes_at > now:
                    return
                self._at, self.wakes_at = self.wakes_at, None
            if not self._steps:
                self.end = End(self._at, 0)
            elif not self._step(now):
                return

    def feed(self, data: bytes, now: Millis) -> None:
        self.advance(now)
        self._input += data
        self._at = max(self._at, now)
        self.advance(now)

    def close_input(self, now: Millis) -> None:
        self._is_input_closed = True
        self.feed(b"", now)

    def terminate(self, now: Millis) -> None:
        self.advance(now)
        if self.end is None and self._on_term is not None:
            self.end, self.wakes_at = End(now, self._on_term), None

    def kill(self, now: Millis) -> None:
        self.advance(now)
        if self.end is None:
            self.end, self.wakes_at = End(now, KILLED), None

    def _step(self, now: Millis) -> bool:
        """One step; False when it must wait for something that is not there yet."""
        verb, _, rest = self._steps[0].partition(" ")
        if verb in _WAITING:
            return self._waiting_step(verb, rest, now)
        del self._steps[0]
        path, _, text = rest.partition(" ")
        act: dict[str, Callable[[], None]] = {
            "print": lambda: self._say(Stream.STDOUT, rest.encode() + b"\n"),
            "warn": lambda: self._say(Stream.STDERR, rest.encode() + b"\n"),
            "raw": lambda: self._say(Stream.STDOUT, bytes.fromhex(rest)),
            "rawwarn": lambda: self._say(Stream.STDERR, bytes.fromhex(rest)),
            "env": lambda: self._say(Stream.STDOUT, self._environ.get(rest, "").encode() + b"\n"),
            "show": lambda: self._say(Stream.STDOUT, self._files.read(rest) or b""),
            "sleep": lambda: self._sleep(rest),
            "exit": lambda: self._exit(int(rest)),
            "true": lambda: self._exit(0),
            "false": lambda: self._exit(1),
            "hoard": lambda: self._exit(KILLED, is_oom=True),
            "ignore-term": lambda: self._trap(None),
            "trap": lambda: self._trap(int(rest)),
            "write": lambda: self._files.write(path, text.encode()),
            "append": lambda: self._files.write(path, (self._files.read(path) or b"") + text.encode() + b"\n"),
            "link": lambda: self._files.link(path, text),
        }
        act[verb]()
        return True

    def _waiting_step(self, verb: str, rest: str, now: Millis) -> bool:
        if verb == "await":
            is_there = self._files.read(rest) is not None
            self._at = max(self._at, now) if is_there else self._at
            self._steps = self._steps[is_there:]
            return is_there
        line, newline, after = self._input.partition(b"\n")
        if verb == "copy":
            line, newline, after = self._input, b"", b""
        is_done = self._is_input_closed or bool(newline)
        if line and (is_done or verb == "copy"):
            self._say(Stream.STDOUT, line + newline)
        if is_done or verb == "copy":
            self._input = after
        self._steps = self._steps[is_done:]
        return is_done

    def _say(self, stream: Stream, data: bytes) -> None:
        self.output.append(Output(self._at, stream, data))

    def _sleep(self, seconds: str) -> None:
        self.wakes_at = Millis(self._at + round(float(seconds) * 1000))

    def _exit(self, code: int, *, is_oom: bool = False) -> None:
        self.end = End(self._at, code, is_oom)

    def _trap(self, code: int | None) -> None:
        self._on_term = code
