"""One run as a process: settings → lock → logs → dependencies, then the work, ended by its result or a signal.

The settings are read before the lock is taken, for they say where it is; reading changes nothing.
Exit codes (I5): 0 all well, 1 could not run, 3 something is missing, 130 and 143 after a signal.
"""

import contextlib
import importlib.util
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import anyio
from msgspec import Struct

from windlass.images import lock
from windlass.images.config import Config, load_config
from windlass.images.errors import ImageSyncError
from windlass.images.logs import DayLogs
from windlass.images.shellfile import Value
from windlass.images.tasks import task_group

T = TypeVar("T")
_PLACES: Final = ("image-sync.conf", "image-sync.toml")


class Invocation(Struct, frozen=True, kw_only=True):
    """What the command line said."""

    config: Path | None
    overrides: Mapping[str, Value]
    lock_file: Path | None = None
    only_looks: bool = False
    """It may run beside a sync, and needs no right to write anything: no lock, no logs."""


class Interrupted(BaseException):
    """A signal ended the run; the work was cancelled and has cleaned up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        return 128 + self.number


class Session(Struct, frozen=True, kw_only=True):
    config: Config
    logs: DayLogs


@contextlib.contextmanager
def open_session(invocation: Invocation, *, stderr: Callable[[str], None]) -> Iterator[Session]:
    """Hold the lock, know the settings, have the logs open."""
    environment = dict(os.environ)
    config = load_config(invocation.config or find_config(environment), invocation.overrides, environment)
    logs = open_logs(config, stderr)
    with contextlib.ExitStack() as stack:
        stack.callback(logs.close)
        if not invocation.only_looks:
            stack.enter_context(_locked(invocation, config))
            logs.start()
        for warning in config.warnings:
            stderr(f"warning: {warning}\n")
            if not invocation.only_looks:
                logs.warning(warning)
        check_dependencies()
        yield Session(config=config, logs=logs)


def open_logs(config: Config, stderr: Callable[[str], None]) -> DayLogs:
    settings = config.settings
    return DayLogs(
        config.log_dir,
        now=local_now,
        overflow=stderr,
        level=settings.log_level,
        max_bytes=settings.max_log_bytes,
        retention_days=settings.log_retention_days,
    )


def find_config(environment: Mapping[str, str]) -> Path | None:
    """IMAGE_SYNC_CONFIG, the working directory, the user's configuration, /etc: the first that is there."""
    if named := environment.get("IMAGE_SYNC_CONFIG"):
        return Path(named)
    home = Path(environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "/")) / ".config")
    folders = (Path(), home / "image-sync", Path("/etc/image-sync"), Path("/etc"))
    return next((folder / name for folder in folders for name in _PLACES if (folder / name).is_file()), None)


def check_dependencies() -> None:
    if importlib.util.find_spec("asyncssh") is None:
        raise ImageSyncError(
            "dependency.missing", "the Python package asyncssh is not there", next_step="pip install 'windlass[images]'"
        )


def run_interruptibly(work: Callable[[], Awaitable[T]]) -> T:
    """Run to the end, or raise `Interrupted` when SIGINT or SIGTERM came first and the work has been cancelled."""
    try:
        # Not on uvloop: there, asyncssh's buffers grew to most of a gigabyte while it relayed one; asyncio stays flat.
        return anyio.run(_until_signal, work, backend_options={"use_uvloop": False})
    except KeyboardInterrupt:
        raise Interrupted(signal.SIGINT) from None


def local_now() -> datetime:
    return datetime.fromtimestamp(time.time(), tz=UTC).astimezone()


def jittered_pause(attempt: int) -> float:
    """1, 2, 4 … seconds, at most 30, half of it by chance, so that nodes do not come back in step."""
    full = min(30.0, 2.0 ** (attempt - 1))
    return full / 2 + random.uniform(0, full / 2)  # noqa: S311 - spreading load, not secrets


async def _until_signal(work: Callable[[], Awaitable[T]]) -> T:
    received: list[int] = []
    results: list[T] = []

    async with task_group() as tasks:

        async def listen() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for number in signals:
                    received.append(number)
                    tasks.cancel_scope.cancel()
                    return

        tasks.start_soon(listen)
        results.append(await work())
        tasks.cancel_scope.cancel()
    if received:
        raise Interrupted(received[0])
    return results[0]


@contextlib.contextmanager
def _locked(invocation: Invocation, config: Config) -> Iterator[None]:
    path = invocation.lock_file or (config.lock_dir or config.log_dir) / lock.NAME
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock.sync_lock(path, since=local_now()))
        except ImageSyncError as refusal:
            _log_refusal(config, refusal)
            raise
        yield


def _log_refusal(config: Config, refusal: ImageSyncError) -> None:
    """A run that found the lock taken says so in the log too, when there is one to be had."""
    logs = open_logs(config, lambda _: None)
    logs.error(str(refusal), always=True)
    logs.close()
