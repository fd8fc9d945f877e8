"""`windlass up`: everything on this machine in one process, in the foreground; only the read model's writer stands beside it."""

import os
import signal
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterator

    import anyio

    from windlass.boot.installation import Installation
    from windlass.boot.local import Local


_TELLING_SECONDS = 5.0
"""For whoever follows what `windlass down` ended to hear of it,"""
_ASKING_SECONDS = 0.5
"""and then to ask how."""


@click.command("up")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where everything is kept.")
@click.option("--host", help="Address to listen on (default 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on (default 8080; 0 takes a free one).")
@click.option("--runtime", type=click.Choice(["auto", "docker", "process"]), help="What jobs run on (default auto).")
@click.option("--docker-host", help="A container engine's address (default: DOCKER_HOST, then the usual sockets).")
@click.option(
    "--config", "config", type=click.Path(path_type=Path), help="Settings file (default <data dir>/windlass.toml)."
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Of the server's own log.")
def command(config: Path | None, **flags: Any) -> None:
    """Start Windlass on this machine: control plane, node and page in one process.

    Takes the container engine that answers (Docker or Podman), else runs plain processes and says so.
    """
    import anyio

    from windlass.adapters.readmodel import scribe
    from windlass.boot import logging
    from windlass.boot.installation import Installation
    from windlass.boot.settings import load

    settings = load(os.environ, {name: value for name, value in flags.items() if value is not None}, config)
    logging.configure(settings.log_level)
    installation = Installation(settings.data_dir)
    with scribe.forked() as writer, _listening(settings, installation) as listener, installation.locked():
        installation.clear_ending()
        try:
            anyio.run(_serve, settings, installation, writer, listener, backend_options={"use_uvloop": True})
        except BaseExceptionGroup as group:
            raise _cause(group) from None


@contextmanager
def _listening(settings: Any, installation: "Installation") -> "Iterator[socket.socket]":
    """Before anything is made: whoever cannot have the address leaves no trace. That a server runs here already says more."""
    from windlass.api.server import listen

    if installation.server_pid() is not None:
        with installation.locked():
            pass
    with listen(settings.host, settings.port) as listener:
        yield listener


async def _serve(settings: Any, installation: Any, scribe: Any, listener: "socket.socket") -> None:
    import anyio

    from windlass.api.server import serve
    from windlass.boot.application import make_application
    from windlass.boot.greeting import greet, say_stopped
    from windlass.boot.local import open_local
    from windlass.boot.pages import keep_gathering
    from windlass.boot.tuning import tune

    async with open_local(settings, installation, os.environ, scribe) as local, anyio.create_task_group() as tasks:
        app, token = await make_application(local, settings, installation)
        tasks.start_soon(_stop_on_signal, tasks.cancel_scope, partial(_end_runs, local, app), installation)
        tasks.start_soon(local.run)
        port: int = await tasks.start(partial(serve, app, host=settings.host, port=settings.port, listener=listener))
        url = f"http://{_shown(settings.host)}:{port}"
        await local.plane.brain.committer.durable(local.plane.brain.world.number)  # the token is on record
        installation.write_context(url, token)
        tasks.start_soon(keep_gathering, tune())
        greet(url, local.machine, installation, local.found, held_ms=local.clock.held_ms)
    say_stopped(by_down=installation.is_ending)


def _cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What a person can act on, if that is in it; else the whole."""
    from windlass.core.errors import WindlassError

    known, _ = group.split(WindlassError)
    while known is not None:
        first = known.exceptions[0]
        if isinstance(first, WindlassError):
            return first
        known = first
    return group


async def _stop_on_signal(
    scope: "anyio.CancelScope", end_runs: "Callable[[], Awaitable[None]]", installation: "Installation"
) -> None:
    """At once, and what runs goes on without us; but `windlass down` has it ended first. Asked twice, at once in any case."""
    import anyio

    is_ending = False

    async def end() -> None:
        await end_runs()
        scope.cancel()

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            async for _ in signals:
                if is_ending or not installation.is_ending:
                    scope.cancel()
                    return
                is_ending = True
                tasks.start_soon(end)


async def _end_runs(local: "Local", app: Any) -> None:
    import anyio

    await local.plane.brain.take_down()
    await local.agent.at_rest()  # their logs are copied, their containers go
    with anyio.move_on_after(_TELLING_SECONDS):  # who follows a job that waits still waits, and will find us gone
        if await app.context.seats.told():
            await anyio.sleep(_ASKING_SECONDS)


def _shown(host: str) -> str:
    """An address a browser takes."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104 — compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
