"""`windlass secrets`: values go in by a file, a pipe or a prompt, and never come out.

There is no flag that takes a value: a command line is in the shell's history, and every user of the machine sees it in the list of
processes for as long as it runs.
"""

import sys
import time
from typing import Any

import click

from windlass.cli.command import Command, client_of
from windlass.cli.each import each
from windlass.cli.output import note, output_option, say, show_document, show_table
from windlass.cli.render import lists
from windlass.cli.render.fit import Columns

DEFAULT_KEY = "value"


@click.group()
def secrets() -> None:
    """Values that jobs are handed when they start: sealed in the store, shown to nobody."""


@secrets.command("set", cls=Command)
@click.argument("name")
@click.option(
    "--from-file",
    "files",
    multiple=True,
    metavar="[KEY=]FILE",
    help="Take a file's bytes as they are; `-` is standard input. May be repeated, each with its KEY.",
)
@click.option("--key", metavar="KEY", help=f"Of the single value that is typed or piped.  [default: {DEFAULT_KEY}]")
@click.pass_context
def set_secret(ctx: click.Context, name: str, files: tuple[str, ...], key: str | None) -> None:
    """Set the secret NAME, replacing all it had.

    \b
      windlass secrets set hub-token                      (asks, and shows nothing)
      pass show hub | windlass secrets set hub-token      (one line's end is dropped)
      windlass secrets set tls --from-file cert.pem=a.pem --from-file key.pem=b.pem

    A value is never given on the command line: others could read it there.
    """
    if files and key is not None:
        raise click.UsageError("--key goes with a typed or piped value; a file's key stands before it: KEY=FILE", ctx)
    data = _from_files(files) if files else {key or DEFAULT_KEY: _typed_or_piped("Value", is_confirmed=True)}
    made = client_of(ctx).set_secret(name, data)
    say(f"secret/{made['name']} set, version {made['version']}")


@secrets.command("list", cls=Command)
@output_option("table", "wide", "json", "yaml", "name")
@click.pass_context
def list_secrets(ctx: click.Context, form: str) -> None:
    """Names, keys and who uses them."""
    show_listed(client_of(ctx).secrets(), form, "name", lists.SECRETS, lambda i: lists.secret_rows(i, time.time()))


@secrets.command("rm", cls=Command)
@click.argument("names", nargs=-1, required=True)
@click.pass_context
def remove(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Remove secrets. Jobs that refer to one and have not started will fail with the reason SecretMissing."""
    client = client_of(ctx)

    def one(name: str) -> str:
        gone = client.remove_secret(name)
        return f"removed; still referred to by {', '.join(gone['usedBy'])}" if gone["usedByCount"] else "removed"

    each(ctx, "secret", names, one)


@secrets.command("rotate-key", cls=Command)
@click.pass_context
def rotate_key(ctx: click.Context) -> None:
    """Make a new data key and seal everything with it; the older keys are destroyed. For admins."""
    done = client_of(ctx).rotate_key()
    if done["left"]:
        note(f"{done['left']} values are still to be sealed anew; that goes on by itself")
    say(f"data key {done['key']} is in use")


def show_listed(items: list[Any], form: str, named_by: str, headings: Columns, rows: Any) -> None:
    if show_document({"items": items}, form):
        return
    if form == "name":
        for item in items:
            say(item[named_by])
    elif items:
        show_table(headings, rows(items), form)
    else:
        note("none")


def typed_or_piped(what: str) -> str:
    """Text, as a password is."""
    try:
        return _typed_or_piped(what, is_confirmed=False).decode()
    except UnicodeDecodeError:
        raise click.UsageError(f"the {what.lower()} is not UTF-8") from None


def _typed_or_piped(what: str, *, is_confirmed: bool) -> bytes:
    """From a terminal without an echo; from a pipe all of it, but for the line's end that `echo` and its like put there."""
    if sys.stdin.isatty():
        text: str = click.prompt(what, hide_input=True, confirmation_prompt=is_confirmed, err=True)
        return text.encode()
    piped = sys.stdin.buffer.read()
    if not piped:
        raise click.UsageError(f"no {what.lower()} came: type it, pipe it, or name a file")
    return piped.removesuffix(b"\n").removesuffix(b"\r")


def _from_files(files: tuple[str, ...]) -> dict[str, bytes]:
    data: dict[str, bytes] = {}
    for text in files:
        key, equals, path = text.partition("=")
        if not equals:
            key, path = DEFAULT_KEY, text
        if key in data:
            raise click.BadParameter(f"the key {key!r} is given twice", param_hint="--from-file")
        data[key] = _read(path)
    return data


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as exc:
        raise click.BadParameter(f"{path}: {exc.strerror}", param_hint="--from-file") from None
