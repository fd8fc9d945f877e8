"""The verbs of `egpu` whose flags or output differ from those of `windlass`."""

import time

import click

from windlass.cli.command import Command, client_of
from windlass.cli.commands.change import delete_all
from windlass.cli.commands.terminals import open_debug
from windlass.cli.commands.watch import print_changes, watch_one
from windlass.cli.egpu.create import KIND
from windlass.cli.names import job_argument
from windlass.cli.output import note, output_option, say, show_document, show_table
from windlass.cli.render import lists
from windlass.client.documents import Manifest


@click.command(cls=Command)
@job_argument()
@output_option()
@click.pass_context
def get(ctx: click.Context, job: str, form: str) -> None:
    """One job: phase, reason, where its artifacts are."""
    found = client_of(ctx).job(job)
    if not show_document(found, form):
        _show([found], form)


@click.command("list", cls=Command)
@output_option()
@click.pass_context
def list_all(ctx: click.Context, form: str) -> None:
    """All ephemeral accelerated jobs, newest first."""
    client = client_of(ctx)
    found = list(client.jobs(kind=KIND))
    if show_document({"items": found}, form):
        return
    if found:
        _show(found, form)
    else:
        note(f"no jobs yet; `{client.command('create NAME --project-dir DIR', program='egpu')}` makes one")


@click.command(cls=Command)
@job_argument(required=False)
@click.pass_context
def watch(ctx: click.Context, job: str | None) -> None:
    """What happens to JOB until it is over; without one, every change of every job."""
    client = client_of(ctx)
    if job is None:
        print_changes(client, (), "table", kind=KIND)
    else:
        watch_one(client, client.job(job))


@click.command(cls=Command)
@job_argument()
@click.option("--image", help="The image of the shell; else the job's own.")
@click.option("--exec", "line", metavar="COMMAND", help="Run this instead of a shell.")
@click.option("--keep", is_flag=True, help="Do not remove the debug container afterwards.")
@click.option("--pod-name", help="The name of the debug container.")
@click.pass_context
def debug(ctx: click.Context, job: str, image: str | None, line: str | None, keep: bool, pod_name: str | None) -> None:
    """A shell with the volume of JOB at /mnt, or in it where jobs are plain processes; also when the job is over."""
    ctx.exit(open_debug(client_of(ctx), job, image=image, line=line, keep=keep, name=pod_name))


@click.command(cls=Command)
@job_argument("jobs", nargs=-1)
@click.option("--delete-pvc", is_flag=True, help="The volume too; otherwise it stays until its TTL.")
@click.pass_context
def delete(ctx: click.Context, jobs: tuple[str, ...], delete_pvc: bool) -> None:
    """Remove JOBs; one that is alive is cancelled first."""
    delete_all(ctx, jobs, with_volume=delete_pvc)


def _show(jobs: list[Manifest], form: str) -> None:
    if form == "name":
        say("\n".join(job["metadata"].get("name", "") for job in jobs))
        return
    is_wide = form == "wide"
    headings = lists.EPHEMERAL_WIDE if is_wide else lists.EPHEMERAL
    show_table(headings, lists.ephemeral_rows(jobs, time.time(), is_wide=is_wide), form)
