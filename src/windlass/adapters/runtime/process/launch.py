"""From a fork of the executor to a workload: what a shim sheds, and how it spawns what it was ordered to. Standard library only.

`posix_spawn` rather than fork and exec: it copies no page tables, and a failing exec comes back as an error here.
"""

import contextlib
import os
import resource
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn

from windlass.adapters.runtime.cgroups import Group, Limits
from windlass.adapters.runtime.process import kernel, records
from windlass.adapters.runtime.process.records import Record

_NOT_EXECUTABLE = 126
_NO_LIMITS = 126
_NOT_FOUND = 127
_NICE_WITHOUT_LIMITS = 5
_OOM_SCORE = "300"
_RESET = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
"""An ignored signal would stay ignored in the workload: by Python, by the executor, or by a shell that put the server behind."""


class CannotStart(Exception):
    """It never ran. The code is what a shell would answer: 127 no such command, 126 not one that can be run."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def live_and_end(live: Callable[[], None]) -> NoReturn:
    """A shim never returns into the executor's code it was forked from."""
    try:
        live()
    except BaseException:
        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def shed(keep: Iterable[int], *, name: str, files_soft: int) -> None:
    """Right after the fork: an own session, no descriptor of the executor's but standard error and `keep`, its own orphans."""
    os.setsid()
    previous = 2
    for fd in sorted(keep):
        os.closerange(previous + 1, fd)
        previous = fd
    os.closerange(previous + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(files_soft, hard), hard))
    kernel.become_subreaper()
    kernel.set_process_name(name)


@contextlib.contextmanager
def inside(group: Group | None, order: Record | None) -> Iterator[None]:
    """What is spawned here is born in the run's cgroup. A session joins a group that its run has made."""
    if group is None:
        yield
        return
    try:
        if order is not None:
            group.make(limits_of(order))
        group.join()
    except OSError as error:
        raise CannotStart(f"its resource limits cannot be set: {error}", _NO_LIMITS) from error
    try:
        yield
    finally:
        group.leave()


def spawn(order: Record, descriptors: tuple[int, int, int]) -> int:
    return _spawn(
        records.texts(order, "command"),
        environment=_environment(order),
        directory=records.text(order, "directory"),
        descriptors=descriptors,
    )


def spawn_on_terminal(order: Record) -> tuple[int, int]:
    master, slave = os.openpty()
    try:
        pid = _spawn(
            records.texts(order, "command"),
            environment=_environment(order),
            directory=records.text(order, "directory"),
            terminal=os.ttyname(slave),
        )
    finally:
        os.close(slave)  # held here, the end of the workload would never be seen as the end of its output
    return pid, master


def _spawn(
    command: Sequence[str],
    *,
    environment: dict[str, str],
    directory: str,
    descriptors: tuple[int, int, int] | None = None,
    terminal: str = "",
) -> int:
    """Start it in a session of its own, on three descriptors or on a pseudo-terminal, which becomes its controlling one."""
    path = _find(command, environment.get("PATH", os.defpath), _enter(directory))
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]]
    if descriptors is None:
        actions = [(os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    else:
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(descriptors)]
    try:
        pid = os.posix_spawn(
            path, list(command), environment, file_actions=actions, setsid=True, setsigmask=[], setsigdef=_RESET
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotStart(f"{command[0]!r} cannot be run: {reason}", _NOT_EXECUTABLE) from error
    with contextlib.suppress(OSError):  # if memory runs out, the workload goes, not those who look after it
        fd = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, _OOM_SCORE.encode())
        os.close(fd)
    return pid


def limits_of(order: Record) -> Limits:
    """Of a run, or of the slice that it names."""
    asked = records.table(order, "limits")
    return Limits(
        memory_bytes=records.number(asked, "memory_bytes"),
        cpu_millis=records.number(asked, "cpu_millis"),
        pids_max=records.number(asked, "pids_max"),
    )


def yield_priority() -> None:
    """Without CPU limits, the workload must at least not starve the server."""
    with contextlib.suppress(OSError):
        os.nice(_NICE_WITHOUT_LIMITS)


def _enter(directory: str) -> str:
    try:
        os.chdir(directory)
    except OSError as error:
        raise CannotStart(
            f"the working directory {directory!r} cannot be entered: {error.strerror}", _NOT_EXECUTABLE
        ) from error
    return directory


def _find(command: Sequence[str], search: str, directory: str) -> str:
    if not command:
        raise CannotStart("no command was given, and a process has no image to bring one", _NOT_FOUND)
    name = command[0]
    if "\0" in name or not name:
        raise CannotStart(f"no such command: {name!r}", _NOT_FOUND)
    places = [directory] if "/" in name else search.split(":")
    is_there = False
    for place in places:
        path = os.path.join(directory, place, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        is_there = is_there or os.path.exists(path)
    if is_there:
        raise CannotStart(f"{name!r} is not an executable file", _NOT_EXECUTABLE)
    # Where it was looked for is not said: PATH may have been given as a secret, and messages are kept and shown.
    raise CannotStart(f"no such command: {name!r}" + ("" if "/" in name else " on its PATH"), _NOT_FOUND)


def _environment(order: Record) -> dict[str, str]:
    return {key: value for key, value in records.table(order, "environment").items() if isinstance(value, str)}
