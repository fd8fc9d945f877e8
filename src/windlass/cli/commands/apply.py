"""`windlass apply -f`: make what the documents of a file describe. Applying twice changes nothing."""

from collections.abc import Callable
from typing import Any

import click

from windlass.cli import exits
from windlass.cli.command import Command, client_of
from windlass.cli.failures import show
from windlass.cli.manifests import files_option, read_manifests
from windlass.cli.output import note, output_option, say, show_document
from windlass.client.problems import UNREACHABLE
from windlass.core.errors import WindlassError


@click.command(cls=Command)
@files_option
@output_option("table", "json", "yaml", "name")
@click.pass_context
def apply(ctx: click.Context, files: tuple[str, ...], form: str) -> None:
    """Create what FILE describes; jobs that exist unchanged are left alone, tenants and pools are changed.

    A file may hold many documents, separated by `---`. All are read before the first is sent.
    """
    documents = [found.document for found in read_manifests(files)]
    client, made, code = client_of(ctx), list[Any](), exits.OK
    appliers: dict[str, tuple[str, Callable[[Any], tuple[Any, str]]]] = {
        "Tenant": ("tenant", client.apply_tenant),
        "Pool": ("pool", client.apply_pool),
    }
    for at, document in enumerate(documents):
        try:
            noun, send = appliers.get(str(document.get("kind")), ("job", client.apply))
            made_one, verdict = send(document)
        except WindlassError as exc:
            if exc.code == UNREACHABLE:  # nor will it answer for the next: said once
                show(exc)
                note(f"not applied: {', '.join(one['metadata']['name'] for one in documents[at:])}")
                code = code or exits.of_error(exc)
                break
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
