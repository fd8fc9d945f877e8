"""`windlass operator manifest|install`: the CRDs, rights and Deployment, printed or applied."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass import __version__
from windlass.cli.output import say
from windlass.core.errors import NotFound

if TYPE_CHECKING:
    from windlass.wire.kube.names import Document

_IMAGE = f"windlass:{__version__}"
_ENV = "KEY=VALUE"
_WITHIN = ("Role", "RoleBinding")
Reader = Callable[[Mapping[str, str]], tuple[Mapping[str, str], tuple[str, ...]]]
"""Judges settings and answers the operator's variables and the namespaces it watches; the operator's own, handed in as the
context's object."""


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

    documents = _documents(read, image, namespace, settings, crds_only)
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
    documents = _documents(read, image, namespace, settings, crds_only)
    anyio.run(_install, read_config(kubeconfig, context), documents, "" if crds_only else namespace)


def _documents(
    read: Reader, image: str, namespace: str, settings: tuple[str, ...], crds_only: bool
) -> "list[Document]":
    from windlass.wire.kube.install import crds, everything

    environment, watched = read(dict(_pair(text) for text in settings))
    return crds() if crds_only else everything(image, namespace=namespace, environment=environment, watched=watched)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"expected {_ENV}, found {text!r}", param_hint="--set")
    return name, value


async def _install(config: Any, documents: "list[Document]", namespace: str) -> None:
    """Without a namespace there is no operator, and nothing that it could have had before."""
    from windlass.client.kube.api import KubeApi

    async with KubeApi(config, manager="windlass-install") as api:
        await _check_namespaces(api, documents)
        for document in documents:
            await _apply(api, document)
        if namespace:
            await _take_back(api, documents, namespace)


async def _check_namespaces(api: Any, documents: "list[Document]") -> None:
    """Before anything is applied: an install that stopped halfway would take rights from an operator that is at work."""
    from windlass.wire.kube.kinds import NAMESPACES

    made = {one["metadata"]["name"] for one in documents if one["kind"] == "Namespace"}
    wanted = dict.fromkeys(one["metadata"]["namespace"] for one in documents if one["kind"] in _WITHIN)
    missing = [name for name in wanted if name not in made and await api.get(NAMESPACES, name) is None]
    if missing:
        commands = ", ".join(f"kubectl create namespace {name}" for name in missing)
        raise NotFound(
            f"there is no namespace {' nor '.join(missing)}; nothing was applied", hint=f"{commands}, then again"
        )


async def _apply(api: Any, document: "Document") -> None:
    from windlass.wire.kube.kinds import Kind

    metadata, kind = document["metadata"], document["kind"]
    within = metadata.get("namespace", "")
    await api.apply(Kind(document["apiVersion"], _plural(kind)), document, within)
    say(f"{kind.lower()}/{metadata['name']} applied{f' in {within}' if kind in _WITHIN else ''}")


async def _take_back(api: Any, documents: "list[Document]", namespace: str) -> None:
    """The operator's rights in namespaces that it no longer watches by name."""
    from windlass.wire.kube.install import is_left
    from windlass.wire.kube.kinds import ROLE_BINDINGS, ROLES

    for binding in await api.list(ROLE_BINDINGS, labels="app.kubernetes.io/managed-by=windlass"):
        if not is_left(binding, namespace, documents):
            continue
        name, within = binding["metadata"]["name"], binding["metadata"]["namespace"]
        await api.delete(ROLE_BINDINGS, name, within, uid=binding["metadata"]["uid"])
        role = await api.get(ROLES, name, within)
        if role is not None:
            await api.delete(ROLES, name, within, uid=role["metadata"]["uid"])
        say(f"role/{name} in {within} taken back")


def _plural(kind: str) -> str:
    return f"{kind.lower()}s"
