"""`windlass operator`: the composition root of the operator process, and what puts it into a cluster."""

import os
import time
from pathlib import Path

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
@click.option("--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]))
def run(kubeconfig: Path | None, context: str | None, host: str, port: int, log_level: str) -> None:
    """Watch the cluster and drive its jobs until stopped. Settings are WINDLASS_OPERATOR_ variables."""
    import anyio

    from windlass.adapters.failpoints.environment import from_environment
    from windlass.boot import logging
    from windlass.core.model.ids import Millis

    try:
        from windlass.client.kube.api import read_config
        from windlass.operator.serve import serve
        from windlass.operator.settings import load
    except ImportError as exc:
        raise click.ClickException(_MISSING) from exc
    logging.configure(log_level)

    async def main() -> None:
        await serve(
            read_config(kubeconfig, context),
            load(os.environ),
            host=host,
            port=port,
            wall=lambda: Millis(time.time_ns() // 1_000_000),
            failpoints=from_environment(os.environ),
        )

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
