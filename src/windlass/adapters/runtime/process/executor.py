"""The detached owner of a node directory's process runs: `python -m windlass.adapters.runtime.process.executor DIRECTORY`.

Starting it returns when its socket takes connections; where one is already there it returns at once. It may be killed at any
time: every run has its own shim, and the next executor finds them again. `--stop` ends its runs, then itself.
Standard library only.
"""

import contextlib
import fcntl
import gc
import json
import os
import resource
import signal
import socket
import sys

from windlass.adapters.runtime.process import journal, kernel, records, sockets
from windlass.adapters.runtime.process.doors import Doors
from windlass.adapters.runtime.process.loop import Loop

_LOG_BYTES_MAX = 1 << 20
_STOP_GRACE_MS = 10_000


def main(arguments: list[str]) -> int:
    if len(arguments) == 1:
        return start(os.path.realpath(arguments[0]))
    if len(arguments) == 2 and arguments[0] == "--stop":
        return stop(os.path.realpath(arguments[1]))
    print("usage: executor [--stop] DIRECTORY", file=sys.stderr)
    return 64


def start(root: str) -> int:
    os.umask(0o077)
    for name in ("runs", "volumes", "labels"):
        os.makedirs(f"{root}/{name}", 0o700, exist_ok=True)
    os.chmod(root, 0o700)
    lock = os.open(f"{root}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    listener = sockets.listen(root, sockets.EXECUTOR)
    log = _open_log(f"{root}/executor.log")
    if os.fork() != 0:
        return 0  # it listens already: whoever waits for us may connect
    _detach(log, keep=(lock, listener.fileno()))
    _serve(root, listener)
    return 0


def stop(root: str) -> int:
    """End every run, whoever's, then the executor. If it is gone, a new one comes for this: its runs may still be there."""
    if not os.path.isdir(f"{root}/runs"):
        return 0
    start(root)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            peer.connect(f"/proc/self/fd/{fd}/{sockets.EXECUTOR}")
        finally:
            os.close(fd)
        with peer.makefile("rwb") as stream:
            runs = _all_runs(root)
            for run, owner in runs:
                request = {"op": "stop", "run": run, "owner": owner, "grace_ms": _STOP_GRACE_MS}
                stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
            for _ in runs:
                stream.readline()
            stream.write(b'{"op": "quit"}\n')
            stream.flush()
            return 0 if b'"ok"' in stream.readline() else 1


def _serve(root: str, listener: socket.socket) -> None:
    kernel.become_subreaper()
    kernel.set_process_name("windlass-exec")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a descriptor per run; the workloads get the old limit
    doors = Doors(root, Loop(), listener, files_soft=soft)
    gc.freeze()  # a fork of this process should not copy pages for the collector's sake
    doors.serve()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{root}/{sockets.EXECUTOR}")


def _detach(log: int, *, keep: tuple[int, ...]) -> None:
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    os.chdir("/")
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for target, fd in enumerate((nothing, nothing, log)):
        os.dup2(fd, target)
    previous = 2
    for fd in sorted(keep):
        os.closerange(previous + 1, fd)
        previous = fd
    os.closerange(previous + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def _open_log(path: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        if os.stat(path).st_size > _LOG_BYTES_MAX:
            os.rename(path, f"{path}.1")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _all_runs(root: str) -> list[tuple[str, str]]:
    known = ((name, journal.read(f"{root}/runs/{name}")) for name in sorted(os.listdir(f"{root}/runs")))
    return [(name, records.text(lines["order"], "owner")) for name, lines in known if lines]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
