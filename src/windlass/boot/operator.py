"""`windlass operator`: the composition root of the operator process, and what puts it into a cluster."""

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from windlass.cli.commands.operator import install, manifest

_MISSING = "the operator needs two more packages: pip install 'windlass[k8s]'"


@click.group("operator")
def command() -> None:
    """Run jobs on a Kubernetes cluster: kubectl apply -f job.yaml gives the same job."""


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

    async def main() -> None:
        with ExitStack() as stack:
            place = state or Path(stack.enter_context(TemporaryDirectory(prefix="windlass-operator-")))
            place.mkdir(parents=True, exist_ok=True)
            clock = ServiceClock(place / "clock.json")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(clock.run)
                await serve(
                    read_config(kubeconfig, context),
                    load(os.environ),
                    host=host,
                    port=port,
                    service=clock.now,
                    failpoints=from_environment(os.environ),
                )
                tasks.cancel_scope.cancel()

    try:
        anyio.run(main)
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first ends the process, with its own words; the rest are its consequences."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


command.add_command(manifest)
command.add_command(install)
