"""`windlass cancel`, `delete`, `cleanup`."""

from collections.abc import Sequence
from datetime import datetime

import click

from windlass.cli.command import Command, client_of
from windlass.cli.each import each
from windlass.cli.names import job_argument
from windlass.cli.output import say, show_table
from windlass.cli.render.fit import columns
from windlass.client.client import Client
from windlass.client.documents import Cleanup
from windlass.client.problems import UNREACHABLE
from windlass.core.errors import WindlassError

CLEANED = columns(("VOLUME", "", "WHY"), ("WHY", 20), ("VOLUME", 20), ("WHY", 12))


@click.command(cls=Command)
@job_argument("jobs", nargs=-1)
@click.pass_context
def cancel(ctx: click.Context, jobs: tuple[str, ...]) -> None:
    """Stop JOBs. A running one gets SIGTERM, and SIGKILL after its grace period."""
    cancel_all(ctx, jobs)


def cancel_all(ctx: click.Context, jobs: tuple[str, ...]) -> None:
    client = client_of(ctx)

    def one(job: str) -> str:
        state = client.cancel(job)["status"].get("state", "")
        return "cancelled" if state == "CANCELLED" else "is being cancelled"

    each(ctx, "job", jobs, one, sent=_last_in_line_first(client, jobs))


def _last_in_line_first(client: Client, jobs: Sequence[str]) -> Sequence[str]:
    """Those that wait, the last of them first, then those that run: else the room of one would start the next, to be stopped."""
    if len(jobs) < 2:
        return jobs
    places = {job: (_place(client, job), -at) for at, job in enumerate(jobs)}
    return sorted(jobs, key=lambda job: places[job])


def _place(client: Client, job: str) -> tuple[int, int, float]:
    """The lower, the later its turn; one that is not there is told last."""
    try:
        found = client.job(job)
    except WindlassError as exc:
        if exc.code == UNREACHABLE:
            raise
        return 2, 0, 0.0
    created = datetime.fromisoformat(found["metadata"]["creationTimestamp"]).timestamp()
    has_place = found["status"].get("state", "") != "PENDING"
    return int(has_place), int(found["spec"].get("priority", 0)), -created


@click.command(cls=Command)
@job_argument("jobs", nargs=-1)
@click.pass_context
def release(ctx: click.Context, jobs: tuple[str, ...]) -> None:
    """Let JOBs run that were submitted with `suspend: true`."""
    client = client_of(ctx)

    def one(job: str) -> str:
        client.release(job)
        return "released"

    each(ctx, "job", jobs, one)


@click.command(cls=Command)
@job_argument("jobs", nargs=-1)
@click.option("--volume", is_flag=True, help="The artifacts volume too; otherwise it stays until its TTL.")
@click.pass_context
def delete(ctx: click.Context, jobs: tuple[str, ...], volume: bool) -> None:
    """Remove JOBs; one that is alive is cancelled first."""
    delete_all(ctx, jobs, with_volume=volume)


def delete_all(ctx: click.Context, jobs: tuple[str, ...], *, with_volume: bool) -> None:
    client = client_of(ctx)

    def one(job: str) -> str:
        told = client.delete(job, volume=with_volume)
        done = "deleted" if told is None or told.get("isGone", True) else "is being deleted"
        return f"{done}, its volume too" if with_volume else f"{done}; its volume stays until its TTL"

    each(ctx, "job", jobs, one, sent=_last_in_line_first(client, jobs))


@click.command(cls=Command)
@click.option("-v", "--verbose", is_flag=True, help="Say of each volume why it went or stayed.")
@click.pass_context
def cleanup(ctx: click.Context, verbose: bool) -> None:
    """Delete the volumes of finished jobs whose TTL has passed."""
    show_cleanup(client_of(ctx).cleanup(), is_verbose=verbose)


def show_cleanup(done: Cleanup, *, is_verbose: bool) -> None:
    if is_verbose and done.get("items"):
        show_table(CLEANED, [(i["name"], i["action"], i["why"]) for i in done["items"]])
    say(f"{done['deleted']} deleted, {done['skipped']} skipped")
