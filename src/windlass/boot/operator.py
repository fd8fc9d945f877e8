"""`windlass operator`: the composition root of the operator process, and what puts it into a cluster."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.cli.commands.operator import install, manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from windlass.core.model.ids import Millis

_MISSING = "the operator needs two more packages: pip install 'windlass[k8s]'"


@click.group("operator")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Run jobs on a Kubernetes cluster: kubectl apply -f job.yaml gives the same job."""
    ctx.obj = _installed


@command.command("run")
@click.option("--kubeconfig", type=click.Path(path_type=Path, exists=True), help="Else the pod's own, or KUBECONFIG.")
@click.option("--context", help="One of its contexts.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where probes and metrics are served.")
@click.option("--port", default=8086, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where service time is kept over a restart; else it starts from the wall clock, or the API server's if that is behind.",
)
@click.option("--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]))
def run(kubeconfig: Path | None, context: str | None, host: str, port: int, state: Path | None, log_level: str) -> None:
    """Watch the cluster and drive its jobs until stopped. Settings are WINDLASS_OPERATOR_ variables."""
    import anyio

    from windlass.adapters.clock.service import ServiceClock
    from windlass.adapters.failpoints.environment import from_environment
    from windlass.boot import logging

    try:
        from windlass.client.kube.api import read_config
        from windlass.operator.serve import serve
        from windlass.operator.settings import load
    except ImportError as exc:
        raise click.ClickException(_MISSING) from exc
    logging.configure(log_level)
    settings = load(os.environ)
    if state is not None:
        state.mkdir(parents=True, exist_ok=True)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            service = _since_start()
            if state is not None:
                clock = ServiceClock(state / "clock.json")
                tasks.start_soon(clock.run)
                service = clock.now
            await serve(
                read_config(kubeconfig, context),
                settings,
                host=host,
                port=port,
                service=service,
                failpoints=from_environment(os.environ),
            )
            tasks.cancel_scope.cancel()

    try:
        anyio.run(main, backend_options={"use_uvloop": True})  # a third less processor time: most of it goes to TLS
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _installed(given: "Mapping[str, str]") -> "tuple[Mapping[str, str], tuple[str, ...]]":
    from windlass.operator.settings import installed

    return installed(given)


def _since_start() -> "Callable[[], Millis]":
    """Service time that is kept nowhere: from the wall clock of this moment on, by the kernel's own count."""
    from windlass.adapters.clock.service import MachineClocks
    from windlass.core.model.ids import Millis

    clocks = MachineClocks()
    offset = clocks.wall_ms() - clocks.boottime_ms()
    return lambda: Millis(clocks.boottime_ms() + offset)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first ends the process, with its own words; the rest are its consequences."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


command.add_command(manifest)
command.add_command(install)
