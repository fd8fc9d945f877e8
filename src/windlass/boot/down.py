"""`windlass down`: end the server and everything it runs; with --purge, leave nothing of it behind."""

import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from windlass.boot.installation import Installation
    from windlass.boot.settings import Settings
    from windlass.ports.runtime import Runtime

_STOP_SECONDS = 30
_LEAVING_TRIES = 50
_LEAVING_SECONDS = 0.1


@click.command("down")
@click.option("--data-dir", type=click.Path(path_type=Path), help="The data directory it was started with.")
@click.option("--purge", is_flag=True, help="Remove volumes, history, logs and keys as well.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(purge: bool, yes: bool, **flags: Any) -> None:
    """End the server and everything it runs, found by its labels. Volumes and history stay unless --purge."""
    import anyio

    from windlass.boot import logging
    from windlass.boot.installation import Installation
    from windlass.boot.settings import load

    logging.configure("warning")
    settings = load(os.environ, {name: value for name, value in flags.items() if value is not None})
    installation = Installation(settings.data_dir)
    if not installation.exists:
        click.echo(f"nothing to do: there is no installation in {settings.data_dir}")
        return
    if purge and not yes:
        click.confirm(f"Remove everything in {settings.data_dir}, with all volumes?", abort=True)
    _stop_server(installation)
    with installation.locked():
        ended = anyio.run(_end_all, settings, installation, purge)
        click.echo(f"ended: {ended} run{'s' * (ended != 1)}" + (" and all volumes" if purge else ""))
        if purge:
            _remove_data(installation)
            click.echo(f"removed: {settings.data_dir}")


def _stop_server(installation: "Installation") -> None:
    pid = installation.server_pid()
    if pid is None:
        click.echo("no server runs here")
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while installation.server_pid() == pid:
        if time.monotonic() > deadline:
            raise click.ClickException(f"the server (pid {pid}) did not stop within {_STOP_SECONDS} s; end it by hand")
        time.sleep(0.05)
    click.echo(f"stopped the server (pid {pid})")


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

    try:
        runs = await runtime.observe_all()
        if purge:
            await runtime.remove_all()
        else:
            for seen in runs:
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
