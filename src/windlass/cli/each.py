"""A verb done to several names: each is said, a refusal does not stop the rest, and the exit code is the first refusal's.

A server that does not answer is said once: it would not answer for the next either.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import click

from windlass.cli import exits
from windlass.cli.failures import show
from windlass.cli.output import say
from windlass.client.problems import UNREACHABLE
from windlass.core.errors import WindlassError

_Outcome = str | WindlassError


def each(
    ctx: click.Context,
    kind: str,
    names: Sequence[str],
    act: Callable[[str], str],
    *,
    sent: Sequence[str] | None = None,
) -> None:
    """`act` does it to one and answers what became of it. `sent`: the order it is done in, where they are told in another."""
    code = exits.OK
    for name, outcome in _outcomes(names, act) if sent is None else _in_order(names, dict(_outcomes(sent, act))):
        if isinstance(outcome, WindlassError):
            show(outcome)
            code = code or exits.of_error(outcome)
        else:
            say(f"{kind}/{name} {outcome}")
    ctx.exit(code)


def _outcomes(names: Iterable[str], act: Callable[[str], str]) -> Iterator[tuple[str, _Outcome]]:
    for name in names:
        try:
            yield name, act(name)
        except WindlassError as exc:
            yield name, exc
            if exc.code == UNREACHABLE:
                return


def _in_order(names: Iterable[str], found: dict[str, _Outcome]) -> Iterator[tuple[str, _Outcome]]:
    return ((name, found[name]) for name in names if name in found)
