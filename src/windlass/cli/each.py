"""A verb done to several names: each is said, a refusal does not stop the rest, and the exit code is the first refusal's."""

from collections.abc import Callable, Iterable

import click

from windlass.cli import exits
from windlass.cli.failures import show
from windlass.cli.output import say
from windlass.core.errors import WindlassError


def each(ctx: click.Context, kind: str, names: Iterable[str], act: Callable[[str], str]) -> None:
    """`act` does it to one and answers what became of it."""
    code = exits.OK
    for name in names:
        try:
            say(f"{kind}/{name} {act(name)}")
        except WindlassError as exc:
            show(exc)
            code = code or exits.of_error(exc)
    ctx.exit(code)
