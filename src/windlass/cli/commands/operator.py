"""`windlass operator manifest|install`: the CRDs, rights and Deployment, printed or applied."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass import __version__
from windlass.cli.output import say
from windlass.core.errors import NotFound
from windlass.wire.kube.names import OPERATOR

if TYPE_CHECKING:
    from windlass.wire.kube.names import Document

_IMAGE = f"windlass:{__version__}"
_ENV = "KEY=VALUE"
_WITHIN = ("Role", "RoleBinding")
_OURS = f"app.kubernetes.io/managed-by=windlass,app.kubernetes.io/name={OPERATOR}"
"""Labels of all that an install has made."""
Reader = Callable[[Mapping[str, str]], tuple[Mapping[str, str], tuple[str, ...]]]
"""Judges settings and answers the operator's variables and the namespaces it watches; the operator's own, handed in as the
context's object."""


def _image(ctx: click.Context, param: click.Parameter, text: str) -> str:
    from windlass.wire.names import read_image

    try:
        return read_image(text)
    except ValueError as exc:
        raise click.BadParameter(str(exc), ctx, param) from None


def _options(function: Any) -> Any:
    for option in (
        click.option(
            "--image",
            default=_IMAGE,
            show_default=True,
            callback=_image,
            help="The operator's image (deploy/Dockerfile makes it).",
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

    environment, watched = read(_pairs(settings))
    return crds() if crds_only else everything(image, namespace=namespace, environment=environment, watched=watched)


def _pairs(settings: tuple[str, ...]) -> dict[str, str]:
    """A list of several is one value, `a,b`: of two values given for it nobody would see which one holds."""
    given = [_pair(text) for text in settings]
    names = Counter(name.lower().replace("-", "_") for name, _ in given)
    for name, count in names.items():
        if count > 1:
            raise click.BadParameter(f"{name} is given more than once; a list is {name}=a,b", param_hint="--set")
    return dict(given)


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
    """What an install before this one gave in namespaces that the operator no longer watches by name."""
    from windlass.wire.kube.install import is_left
    from windlass.wire.kube.kinds import ROLE_BINDINGS

    for binding in await api.list(ROLE_BINDINGS, labels=_OURS):
        if not is_left(binding, namespace, documents):
            continue
        metadata = binding["metadata"]
        await _take_roles(api, binding)  # before it: by the binding the next install would find what is left
        await api.delete(ROLE_BINDINGS, metadata["name"], metadata["namespace"], uid=metadata["uid"])


async def _take_roles(api: Any, binding: "Document") -> None:
    """The operator's own and a server's. One that somebody else has bound is at work, and is theirs to take away."""
    from windlass.wire.kube.kinds import ROLE_BINDINGS, ROLES

    within, own = binding["metadata"]["namespace"], binding["metadata"]["uid"]
    bindings = [one for one in await api.list(ROLE_BINDINGS, within) if one["metadata"]["uid"] != own]
    bound = {one["roleRef"]["name"]: one["metadata"]["name"] for one in bindings if one["roleRef"]["kind"] == "Role"}
    for role in await api.list(ROLES, within, labels=_OURS):
        name = role["metadata"]["name"]
        if name in bound:
            say(f"role/{name} in {within} left: rolebinding/{bound[name]} gives it to somebody")
        elif await api.delete(ROLES, name, within, uid=role["metadata"]["uid"]):
            say(f"role/{name} in {within} taken back")


def _plural(kind: str) -> str:
    return f"{kind.lower()}s"
