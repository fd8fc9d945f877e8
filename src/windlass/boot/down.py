"""`windlass down`: end the server and everything it runs; with --purge, leave nothing of it behind."""

import os
import shutil
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from windlass.boot.installation import Installation
    from windlass.boot.settings import Settings
    from windlass.ports.runtime import Observed, Runtime

_INTERRUPTED = 130
_STOP_SECONDS = 30
_TELL_SECONDS = 3.0
_LEAVING_TRIES = 50
_LEAVING_SECONDS = 0.1
_GRACE_MS = 10_000


@click.command("down")
@click.option("--data-dir", type=click.Path(path_type=Path), help="The data directory it was started with.")
@click.option("--purge", is_flag=True, help="Remove volumes, history, logs and keys as well.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(purge: bool, yes: bool, **flags: Any) -> None:
    """End the server and everything it runs, found by its labels. Volumes and history stay unless --purge.

    What runs is asked to end (SIGTERM) and has its grace, then it is killed; the jobs are CANCELLED, with the reason
    TakenDown. What waits stays in the queue for the next `windlass up`.
    """
    from windlass.boot import logging
    from windlass.boot.installation import Installation
    from windlass.boot.settings import load

    logging.configure("warning")
    settings = load(os.environ, {name: value for name, value in flags.items() if value is not None})
    installation = Installation(settings.data_dir)
    if not _is_there(installation):
        return
    if purge and not yes:
        _ask(f"Remove everything in {settings.data_dir}, with all volumes?")
    with installation.one_down(_say_another) as has_waited:
        if not has_waited or _is_there(installation):
            _take_down(settings, installation, purge=purge, has_waited=has_waited)


def _is_there(installation: "Installation") -> bool:
    if not installation.exists:
        click.echo(f"nothing to do: there is no installation in {installation.root}")
    return installation.exists


def _say_another() -> None:
    click.echo("it is being taken down already, by another `windlass down`: waiting for that (Ctrl-C stops waiting)")


def _take_down(settings: "Settings", installation: "Installation", *, purge: bool, has_waited: bool) -> None:
    import anyio

    ended = _stop_server(installation, is_told=has_waited and installation.is_ending)
    with installation.locked():
        # What the server was still ending when it was told a second time was counted there already.
        ended = max(ended, anyio.run(_end_all, settings, installation, purge))
        click.echo(f"ended: {_runs(ended)}" + (" and all volumes" if purge else ""))
        if purge:
            _remove_data(installation)
            click.echo(_what_went(installation.root))


def _ask(question: str) -> None:
    try:
        is_agreed = click.confirm(question)
    except click.Abort:
        click.echo()
        raise click.UsageError("nothing was removed: nobody answered; --yes answers for you") from None
    if not is_agreed:
        click.echo("nothing was removed")
        raise click.exceptions.Exit(1)


def _stop_server(installation: "Installation", *, is_told: bool) -> int:
    """Ends its runs, each with its grace, and then itself: how many those were. Told a second time, it would give no grace."""
    pid = installation.server_pid()
    if pid is None:
        click.echo("no server runs here")
        return 0
    runs = _running(installation)
    with installation.ending():
        if not is_told:
            with suppress(ProcessLookupError):  # gone by itself since we looked
                os.kill(pid, signal.SIGTERM)
        try:
            _Leaving(installation, pid, runs).wait()
        except KeyboardInterrupt:
            click.echo(
                "\nno longer waited for: the server goes on to end what runs, each with its grace, and then itself; "
                "`windlass down` again ends them at once"
            )
            raise click.exceptions.Exit(_INTERRUPTED) from None
    click.echo(f"stopped the server (pid {pid})")
    return runs


class _Leaving:
    """What a server does before it goes, told as it changes: runs end, their logs are copied."""

    def __init__(self, installation: "Installation", pid: int, runs: int) -> None:
        self._installation = installation
        self._pid = pid
        self._runs = runs
        self._copied = 0
        self._told_at = self._moved_at = time.monotonic()

    def wait(self) -> None:
        self._tell_runs()
        while self._installation.server_pid() == self._pid:
            runs = _running(self._installation)
            if runs != self._runs:
                self._runs, self._moved_at = runs, time.monotonic()
                self._tell_runs()
            elif not runs:
                self._look_at_logs(time.monotonic())
            time.sleep(_LEAVING_SECONDS)

    def _tell_runs(self) -> None:
        if self._runs:
            click.echo(f"ending {_runs(self._runs)}: each has its grace (Ctrl-C stops waiting for them)")

    def _look_at_logs(self, now: float) -> None:
        """A long log takes its time; only a server that no longer writes any has come to a halt."""
        copied = _bytes_of_logs(self._installation.logs)
        if copied != self._copied:
            self._copied, self._moved_at = copied, now
        if now - self._moved_at > _STOP_SECONDS:
            raise click.ClickException(
                f"the server (pid {self._pid}) did not stop within {_STOP_SECONDS} s; end it by hand"
            )
        if now - self._told_at > _TELL_SECONDS:
            self._told_at = now
            click.echo(f"what they printed is being copied: {copied >> 20} MiB of logs by now")


def _bytes_of_logs(directory: Path) -> int:
    """Of those that are not complete."""
    sizes: dict[str, int] = {}
    complete = set()
    with suppress(FileNotFoundError):  # also of one that goes while we look
        for entry in os.scandir(directory):
            run, _, kind = entry.name.partition(".")
            if kind == "sealed":
                complete.add(run)
            else:
                sizes[run] = sizes.get(run, 0) + entry.stat().st_size
    return sum(size for run, size in sizes.items() if run not in complete)


def _running(installation: "Installation") -> int:
    """As the server counts them; 0 when it does not answer."""
    from windlass.client.client import Client
    from windlass.client.connection import find
    from windlass.core.errors import WindlassError

    try:
        nodes = Client(find({"WINDLASS_DATA_DIR": str(installation.root)})).nodes()
    except WindlassError:
        return 0
    return sum(int(node["runs"]) for node in nodes)


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"


def _what_went(root: Path) -> str:
    left = sorted(path.name for path in root.iterdir()) if root.exists() else []
    if not left:
        return f"removed: {root}"
    return f"removed: all that Windlass put into {root}; not by it, and left there: {', '.join(left)}"


async def _end_all(settings: "Settings", installation: "Installation", purge: bool) -> int:
    """On every runtime that was ever used from here: what runs, and with `purge` everything we made."""
    from windlass.adapters.clock.service import ServiceClock
    from windlass.adapters.ids.system import SystemIds
    from windlass.adapters.runtime.docker.runtime import DockerRuntime
    from windlass.adapters.runtime.process.executor import stop
    from windlass.adapters.runtime.process.runtime import ProcessRuntime
    from windlass.boot.clusters import open_kubernetes

    who = installation.identity(SystemIds().uuid7())
    clock = ServiceClock(installation.clock)
    ended = 0
    for address in installation.engines():
        async with DockerRuntime.open(address, installation=who.installation, node=who.node, clock=clock) as engine:
            ended += await _end_on(engine, address, purge)
    if installation.processes.exists():
        async with ProcessRuntime.open(installation.processes, who.installation, who.node) as processes:
            ended += await _end_on(processes, "the process executor", purge)
        if not purge:  # a purge has ended the executor already, with everything it had
            stop(str(installation.processes))
    if settings.kubernetes is not None:
        async with open_kubernetes(settings.kubernetes, who, clock, installation.keys) as cluster:
            ended += await _end_on(cluster, "the cluster", purge)
    return ended


async def _end_on(runtime: "Runtime", where: str, purge: bool) -> int:
    from windlass.core.errors import Unavailable
    from windlass.core.model.ids import Millis
    from windlass.ports.runtime import Phase

    try:
        runs = [seen for seen in await runtime.observe_all() if seen.phase is Phase.RUNNING]
        if not purge:  # no server ended them
            await _stop_all(runtime, runs)
        if purge:
            await runtime.remove_all()
        else:
            for seen in await runtime.observe_all():
                await runtime.remove(seen.run)
            await runtime.tidy(idle_ms=Millis(0))
            await _end_slices(runtime)
    except Unavailable as error:
        raise Unavailable(
            f"{where} does not answer, so what we made there cannot be removed: {error.message}",
            code="engine-absent",
            hint="start it and try again; nothing else was removed",
        ) from error
    return len(runs)


async def _stop_all(runtime: "Runtime", runs: "list[Observed]") -> None:
    """Together, each with the grace that a job has unless it says otherwise."""
    import anyio

    from windlass.core.model.ids import Millis

    if runs:
        click.echo(f"ending {_runs(len(runs))} that no server looks after: they have {_GRACE_MS // 1000} s")
    async with anyio.create_task_group() as tasks:
        for seen in runs:
            tasks.start_soon(partial(runtime.stop, seen.run, grace_ms=Millis(_GRACE_MS)))


async def _end_slices(runtime: "Runtime") -> None:
    """What held their runs together is made again with the next. What has just ended may be a moment in leaving it."""
    import anyio

    from windlass.core.errors import Unavailable

    for slice_left in await runtime.slices():
        for _ in range(_LEAVING_TRIES):
            try:
                await runtime.end_slice(slice_left)
                break
            except Unavailable:
                await anyio.sleep(_LEAVING_SECONDS)


def _remove_data(installation: "Installation") -> None:
    """Only what we put there; the directory itself when nothing else is in it."""
    for path in installation.ours():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if not any(installation.root.iterdir()):
        installation.root.rmdir()
