"""`windlass operator manifest|install`: the CRDs, rights and Deployment, printed or applied."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass import __version__
from windlass.cli.output import say

if TYPE_CHECKING:
    from windlass.wire.kube.names import Document

_IMAGE = f"windlass:{__version__}"
_ENV = "KEY=VALUE"


def _options(function: Any) -> Any:
    for option in (
        click.option(
            "--image", default=_IMAGE, show_default=True, help="The operator's image (deploy/Dockerfile makes it)."
        ),
        click.option(
            "--namespace", "-n", default="windlass-system", show_default=True, help="Where the operator lives."
        ),
        click.option(
            "--set", "settings", multiple=True, metavar=_ENV, help="A setting, such as preset_image=…; repeat it."
        ),
        click.option("--crds-only", is_flag=True, help="The CRDs and nothing else."),
    ):
        function = option(function)
    return function


@click.command()
@_options
def manifest(image: str, namespace: str, settings: tuple[str, ...], crds_only: bool) -> None:
    """Print what `install` would apply, as YAML for kubectl or a repository."""
    import yaml

    say(yaml.safe_dump_all(_documents(image, namespace, settings, crds_only), sort_keys=False).rstrip())


@click.command()
@_options
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path, exists=True), help="Else KUBECONFIG, else ~/.kube/config."
)
@click.option("--context", help="One of its contexts.")
def install(
    image: str, namespace: str, settings: tuple[str, ...], crds_only: bool, kubeconfig: Path | None, context: str | None
) -> None:
    """Apply CRDs, rights and Deployment to a cluster; safe to repeat, and the way to upgrade."""
    import anyio

    try:
        from windlass.client.kube.api import read_config
    except ImportError as exc:
        raise click.ClickException("this needs two more packages: pip install 'windlass[k8s]'") from exc
    anyio.run(_apply, read_config(kubeconfig, context), _documents(image, namespace, settings, crds_only))


def _documents(image: str, namespace: str, settings: tuple[str, ...], crds_only: bool) -> "list[Document]":
    from windlass.wire.kube.install import crds, everything

    if crds_only:
        return crds()
    return everything(image, namespace=namespace, environment=dict(_variable(text) for text in settings))


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"expected {_ENV}, found {text!r}", param_hint="--set")
    return f"WINDLASS_OPERATOR_{name.upper()}", value


async def _apply(config: Any, documents: "list[Document]") -> None:
    from windlass.client.kube.api import Kind, KubeApi

    async with KubeApi(config, manager="windlass-install") as api:
        for document in documents:
            kind = Kind(document["apiVersion"], _plural(document["kind"]))
            metadata = document["metadata"]
            await api.apply(kind, document, metadata.get("namespace", ""))
            say(f"{document['kind'].lower()}/{metadata['name']} applied")


def _plural(kind: str) -> str:
    return f"{kind.lower()}s"
