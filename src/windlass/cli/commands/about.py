"""`windlass version`, `whoami`, `open`: about the two ends of the line."""

import click

from windlass import __version__
from windlass.cli.command import Command, client_of
from windlass.cli.output import note, output_option, say, show_document
from windlass.core.errors import Unavailable


@click.command(cls=Command)
@output_option("table", "json", "yaml")
@click.pass_context
def version(ctx: click.Context, form: str) -> None:
    """Versions of this client and of the server it talks to."""
    client = client_of(ctx)
    about: dict[str, object] = {"client": __version__, "server": None}
    try:
        about["server"] = client.version()
    except Unavailable as exc:
        if form == "table":
            note(exc.message)
    if show_document(about, form):
        return
    say(f"client  {__version__}")
    if isinstance(about["server"], dict):
        server = about["server"]
        more = f"API {server.get('api', '?')}, runs on {server.get('runtime', '?')}"
        more += ", decides compiled" if server.get("compiled") else ""
        say(f"server  {server.get('version', '?')}  at {client.connection.url}  ({more})")


@click.command(cls=Command)
@output_option("table", "json", "yaml")
@click.pass_context
def whoami(ctx: click.Context, form: str) -> None:
    """Who the server takes you for: subject, tenant, roles."""
    me = client_of(ctx).whoami()
    if show_document(me, form):
        return
    width = max(map(len, me))
    for key, value in me.items():
        say(f"{key.ljust(width)}  {', '.join(map(str, value)) if isinstance(value, list) else value}")


@click.command("open", cls=Command)
@click.pass_context
def open_page(ctx: click.Context) -> None:
    """Print the address of the live page.

    It carries your token behind the `#`, which a browser keeps to itself: treat the line like a password.
    """
    connection = client_of(ctx).connection
    say(f"{connection.url}/{'#token=' + connection.token if connection.token else ''}")
