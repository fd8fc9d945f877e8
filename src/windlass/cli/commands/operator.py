"""`windlass operator manifest|install`: the CRDs, rights and Deployment, printed or applied."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass import __version__
from windlass.cli.output import say

if TYPE_CHECKING:
    from windlass.wire.kube.names import Document

_IMAGE = f"windlass:{__version__}"
_ENV = "KEY=VALUE"
Reader = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Judges settings and answers the operator's variables; the operator's own, handed in as the context's object."""


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
@click.pass_obj
def manifest(read: Reader, image: str, namespace: str, settings: tuple[str, ...], crds_only: bool) -> None:
    """Print what `install` would apply, as YAML for kubectl or a repository."""
    import yaml

    documents = _documents(image, namespace, _variables(read, settings), crds_only)
    say(yaml.safe_dump_all(documents, sort_keys=False).rstrip())


@click.command()
@_options
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path, exists=True), help="Else KUBECONFIG, else ~/.kube/config."
)
@click.option("--context", help="One of its contexts.")
@click.pass_obj
def install(
    read: Reader,
    image: str,
    namespace: str,
    settings: tuple[str, ...],
    crds_only: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Apply CRDs, rights and Deployment to a cluster; safe to repeat, and the way to upgrade."""
    import anyio

    try:
        from windlass.client.kube.api import read_config
    except ImportError as exc:
        raise click.ClickException("this needs two more packages: pip install 'windlass[k8s]'") from exc
    documents = _documents(image, namespace, _variables(read, settings), crds_only)
    anyio.run(_apply, read_config(kubeconfig, context), documents)


def _documents(image: str, namespace: str, environment: Mapping[str, str], crds_only: bool) -> "list[Document]":
    from windlass.wire.kube.install import crds, everything

    return crds() if crds_only else everything(image, namespace=namespace, environment=environment)


def _variables(read: Reader, settings: tuple[str, ...]) -> Mapping[str, str]:
    return read(dict(_pair(text) for text in settings)) if settings else {}


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"expected {_ENV}, found {text!r}", param_hint="--set")
    return name, value


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
