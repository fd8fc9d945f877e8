"""`windlass attach`, `exec`, `debug`: terminals into containers."""

import sys

import click

from windlass.cli.command import Command, CommandWithWords, client_of, refuse_words, words_after_dashes
from windlass.cli.names import job_argument
from windlass.cli.output import note
from windlass.cli.render.values import name_of
from windlass.client.client import Client
from windlass.client.documents import Manifest

SHELL = ("sh",)


@click.command(cls=Command)
@job_argument()
@click.pass_context
def attach(ctx: click.Context, job: str) -> None:
    """Connect to a JOB started with `run -it` or `run -i`. Ctrl-P Ctrl-Q leaves a terminal running; a job that takes no input
    is shown."""
    from windlass.cli.terminal import attach_when_running

    client = client_of(ctx)
    ctx.exit(attach_when_running(client, client.job(job)))


@click.command("exec", cls=CommandWithWords)
@job_argument()
@click.argument("words", metavar="-- COMMAND...", nargs=-1)
@click.option("-i", "--interactive", is_flag=True, help="Connect your keyboard.")
@click.option("-t", "--tty", is_flag=True, help="Give it a terminal.")
@click.pass_context
def execute(ctx: click.Context, job: str, words: tuple[str, ...], interactive: bool, tty: bool) -> None:
    """Run COMMAND inside the running container of JOB; its exit code is returned."""
    from windlass.cli.terminal import converse

    refuse_words(ctx, [job], words)
    command = words_after_dashes(ctx)
    if not command:
        raise click.UsageError("which command? `windlass exec JOB -- COMMAND`", ctx)
    with client_of(ctx).execute(job, command, tty=tty) as terminal:
        ctx.exit(converse(terminal, is_raw=tty and interactive, has_input=interactive) or 0)


@click.command(cls=CommandWithWords)
@job_argument()
@click.option("--image", help="The image of the shell; else the server's choice.")
@click.option("--exec", "line", metavar="COMMAND", help="Run this instead of a shell.")
@click.option("--keep", is_flag=True, help="Do not remove the debug container afterwards.")
@click.option("--name", help="The name of the debug container.")
@click.pass_context
def debug(ctx: click.Context, job: str, image: str | None, line: str | None, keep: bool, name: str | None) -> None:
    """A shell beside the artifacts of JOB, also when the job is over. They are mounted at /mnt; where jobs are plain processes,
    they are the shell's working directory."""
    words = words_after_dashes(ctx) or ()
    ctx.exit(open_debug(client_of(ctx), job, image=image, line=line, words=words, keep=keep, name=name))


def open_debug(
    client: Client,
    job: str,
    *,
    image: str | None,
    line: str | None,
    words: tuple[str, ...] = (),
    keep: bool,
    name: str | None,
) -> int:
    from windlass.cli.terminal import converse

    command = words or (_split(line) if line else SHELL)
    with client.debug(job, image=image, keep=keep, name=name, command=command) as terminal:
        if sys.stdin.isatty() and not (line or words):
            note(whereabouts(client.job(job)))
        return converse(terminal, is_raw=True) or 0


def _split(line: str) -> tuple[str, ...]:
    import shlex

    try:
        return tuple(shlex.split(line))
    except ValueError as exc:
        raise click.BadParameter(f"cannot be split into words: {str(exc).lower()}", param_hint="--exec") from None


def whereabouts(job: Manifest) -> str:
    """Only a container can have a volume mounted; beside a plain process one is in it."""
    where = "is at /mnt" if job["spec"].get("image") else "is this directory: the job is a plain process"
    return f"the volume of {name_of(job)} {where}; `exit` leaves"
