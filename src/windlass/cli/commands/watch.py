"""`windlass watch`: changes as they happen. On a terminal the list is redrawn in place; elsewhere every change is a line."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec

from windlass.cli.command import Command, client_of
from windlass.cli.follow import summary
from windlass.cli.names import job_argument
from windlass.cli.output import can_redraw, is_coloured, note, say, width
from windlass.cli.plain import clean, clean_json
from windlass.cli.render import lists, table
from windlass.cli.render.values import clock_time, first_line, state_of
from windlass.cli.unseen import unseen_told
from windlass.client.client import Client
from windlass.client.documents import Happening, Manifest

ROWS_MAX = 100
REFRESHES_PER_SECOND = 4


@click.command(cls=Command)
@job_argument(required=False)
@click.pass_context
def watch(ctx: click.Context, job: str | None) -> None:
    """See all jobs change, until Ctrl-C; or what happens to one JOB, until it is over."""
    client = client_of(ctx)
    if job is not None:
        watch_one(client, client.job(job))
    elif can_redraw():
        _watch_screen(client)
    else:
        print_changes(client, (), "table")


def watch_one(client: Client, job: Manifest) -> None:
    """What happens is told from the first on, and ends with the job: all of it, also of one that is over."""
    uid = job["metadata"]["uid"]
    with unseen_told(client, uid):
        for event in client.follow_happenings(uid):
            say(_happening_line(event))
    note(summary(client.job(uid), time.time()))


def print_changes(client: Client, names: Iterable[str], form: str, *, kind: str | None = None) -> None:
    """A line, or a JSON document, per change from now on. It ends by Ctrl-C only."""
    wanted, widths = set(names), list[int]()
    for job in _changed(client):
        if (wanted and job["metadata"].get("name") not in wanted) or (kind and job["kind"] != kind):
            continue
        if form in {"json", "yaml"}:
            say(clean_json(msgspec.json.encode(job).decode()))
        elif form == "name":
            say(f"job/{job['metadata'].get('name')}")
        else:
            is_wide = form == "wide"
            row = lists.job_row(job, time.time(), is_wide=is_wide)
            room = None if is_wide else width()
            say(table.stream_line(lists.JOBS, row, widths, is_coloured=is_coloured(), width=room))


def _changed(client: Client) -> Iterator[Manifest]:
    """Each change once, also those that were missed while nobody listened: then the list is read again and compared."""
    page = client.page(limit=ROWS_MAX)
    seen = {job["metadata"]["uid"]: _mark(job) for job in page["items"]}
    for change in client.changes(after=page["revision"]):
        for job in [change] if change else reversed(client.page(limit=ROWS_MAX)["items"]):
            if seen.get(job["metadata"]["uid"]) != _mark(job):
                seen[job["metadata"]["uid"]] = _mark(job)
                yield job


def _mark(job: Manifest) -> tuple[object, ...]:
    return state_of(job), job["status"].get("attempt"), job["status"].get("progress"), job["status"].get("finishedAt")


def _watch_screen(client: Client) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    jobs: dict[str, Manifest] = {}

    def read_anew() -> int:
        page = client.page(limit=ROWS_MAX)
        jobs.clear()
        jobs.update({job["metadata"]["uid"]: job for job in reversed(page["items"])})
        return page["revision"]

    def draw() -> Any:
        newest = [*jobs.values()][::-1][: max(1, console.height - 2)]
        rows = lists.job_rows(newest, time.time())
        return Text("\n").join(
            Text.from_ansi(line)
            for line in table.lines(lists.JOBS, rows, is_coloured=is_coloured(), width=console.width)
        )

    with Live(get_renderable=draw, console=console, screen=True, refresh_per_second=REFRESHES_PER_SECOND):
        for job in client.changes(after=read_anew()):
            if job is None:
                read_anew()
            else:
                jobs[job["metadata"]["uid"]] = job


def _happening_line(event: Happening) -> str:
    why = ": ".join(part for part in (event.get("reason"), first_line(event.get("message"))) if part)
    where = f" on {event['node']}" if event.get("node") else ""
    return clean(f"{clock_time(event.get('at'))}  {event.get('kind', ''):<10}{where}{'  ' + why if why else ''}")
