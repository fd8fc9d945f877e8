"""Arguments that name a job: completed in the shell from what the server has, silently nothing when it does not answer."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from windlass.cli.command import client_of
from windlass.core.errors import WindlassError

F = TypeVar("F", bound=Callable[..., Any])
NAMES_MAX = 200
PREFIX = "job/"


class JobName(click.ParamType[str]):
    """A name or a uid, also as `-o name` prints it: `job/NAME`."""

    name = "job"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return plain_name(str(value))


def plain_name(text: str) -> str:
    """No name has a slash in it."""
    return text.removeprefix(PREFIX)


def job_argument(name: str = "job", *, nargs: int = 1, required: bool = True) -> Callable[[F], F]:
    return click.argument(
        name, type=JobName(), metavar="JOB", nargs=nargs, required=required, shell_complete=complete_job
    )


def complete_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    try:
        page = client_of(ctx).page(name=incomplete or None, limit=NAMES_MAX)
    except (WindlassError, OSError):
        return []
    return [name for job in page["items"] if (name := job["metadata"].get("name", "")).startswith(incomplete)]
