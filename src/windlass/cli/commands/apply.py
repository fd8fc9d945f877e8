"""`windlass apply -f`: make what the documents of a file describe. Applying twice changes nothing."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from windlass.cli import exits
from windlass.cli.command import Command, client_of
from windlass.cli.failures import show
from windlass.cli.output import output_option, say, show_document
from windlass.core.errors import Fault, Invalid, WindlassError

files_option = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A manifest in YAML or JSON; - is stdin.",
)


@click.command(cls=Command)
@files_option
@output_option("table", "json", "yaml", "name")
@click.pass_context
def apply(ctx: click.Context, files: tuple[str, ...], form: str) -> None:
    """Create what FILE describes; jobs that exist unchanged are left alone, tenants and pools are changed.

    A file may hold many documents, separated by `---`. All are read before the first is sent.
    """
    documents = [document for file in files for document in read_documents(file)]
    client, made, code = client_of(ctx), list[Any](), exits.OK
    appliers: dict[str, tuple[str, Callable[[Any], tuple[Any, str]]]] = {
        "Tenant": ("tenant", client.apply_tenant),
        "Pool": ("pool", client.apply_pool),
    }
    for document in documents:
        try:
            noun, send = appliers.get(str(document.get("kind")), ("job", client.apply))
            made_one, verdict = send(document)
        except WindlassError as exc:
            exc.message = f"{document['metadata']['name']}: {exc.message}"
            show(exc)
            code = code or exits.of_error(exc)
            continue
        made.append(made_one)
        if form in {"table", "name"}:
            name = f"{noun}/{made_one['metadata']['name']}"
            say(name + (f" {verdict}" if form == "table" else ""))
    show_document(made[0] if len(documents) == 1 and made else {"items": made}, form)
    ctx.exit(code)


def read_documents(file: str) -> list[dict[str, Any]]:
    from windlass.wire.yaml12 import load

    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    shown = "stdin" if file == "-" else file
    try:
        documents = load(_text(content), depth_max=64, nodes_max=100_000)
    except WindlassError as exc:
        exc.message = f"{shown}: {exc.message}"
        raise
    faults = [fault for i, document in enumerate(documents) for fault in _faults(document, i, len(documents))]
    if not documents:
        faults = [Fault("", "expected at least one document")]
    if faults:
        raise Invalid(
            f"{shown} cannot be applied", faults=faults, hint="a manifest begins with apiVersion, kind and metadata"
        )
    return documents


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise Invalid(f"not UTF-8, in line {line}", code="text", hint="save it as UTF-8") from exc


def _faults(document: Any, index: int, count: int) -> list[Fault]:
    """Only what is needed to send it at all; the rest is judged by the server, which names every fault at once."""
    where = f"document {index + 1}: " if count > 1 else ""
    if not isinstance(document, dict):
        return [Fault(where.rstrip(": "), "expected a mapping with apiVersion, kind, metadata and spec")]
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return [Fault(f"{where}metadata.name", "expected a name: apply finds by it what exists already")]
    return []
