"""`windlass events`: what happened to jobs, nodes, pools and budgets, as recorded; followed, or written out for `simulate`."""

from collections.abc import Iterator, Sequence

import click
import msgspec
from click.core import ParameterSource

from windlass.cli.command import Command, client_of
from windlass.cli.names import complete_job
from windlass.cli.output import is_coloured, note, output_option, say, width
from windlass.cli.parameters import not_empty
from windlass.cli.plain import clean_json
from windlass.cli.render import table
from windlass.cli.render.fit import columns
from windlass.cli.render.values import STATE_COLOUR, clock_time, first_line
from windlass.client.client import Client
from windlass.client.documents import Happening

_COLOURS = {
    "Succeeded": STATE_COLOUR["SUCCEEDED"],
    "Failed": STATE_COLOUR["FAILED"],
    "TimedOut": STATE_COLOUR["TIMED_OUT"],
    "Running": STATE_COLOUR["RUNNING"],
    "NodeLost": STATE_COLOUR["LOST"],
    "WorkerFailing": STATE_COLOUR["FAILED"],
    "WorkerFailed": STATE_COLOUR["FAILED"],
    "BudgetThreshold": STATE_COLOUR["FAILED"],
}
_COLUMNS = columns(
    ("AT", "KIND", "TENANT", "WHAT", "DETAIL"), ("DETAIL", 24), ("WHAT", 16), "TENANT", ("DETAIL", 8), ("WHAT", 8)
)
_LEAST_WIDTHS = (8, 15, 8, 24, 0)
"""Of time, kind, tenant, what and the rest: as wide as they usually get, so that what is followed stays in its columns."""


@click.command(cls=Command)
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option("--job", metavar="JOB", shell_complete=complete_job, callback=not_empty, help="Of one job only.")
@click.option("--last", type=click.IntRange(1, 1000), default=50, show_default=True, help="The newest so many.")
@click.option("--all", "is_all", is_flag=True, help="From the first one on that is still kept.")
@click.option("--everyone", is_flag=True, help="Of every tenant; for admins. Others' jobs come without their names.")
@output_option("table", "wide", "json")
@click.pass_context
def events(
    ctx: click.Context, follow: bool, job: str | None, last: int, is_all: bool, everyone: bool, form: str
) -> None:
    """What happened to your jobs and your budget, oldest first; for an admin, also to nodes, workers and pools.

    With -o json every event is a document on a line of its own: `windlass simulate` replays such a file.
    """
    is_last_given = ctx.get_parameter_source("last") is ParameterSource.COMMANDLINE
    if is_all and is_last_given:
        raise click.UsageError("--all shows everything that is kept, --last the newest so many: give one of them")
    client, widths = client_of(ctx), list(_LEAST_WIDTHS)
    room, is_empty = None if form == "wide" else width(), not follow
    for events in _happened(client, job or "", last, is_all=is_all, follow=follow, everyone=everyone):
        rows = [_row(event) for event in events] if form != "json" else []
        is_empty = is_empty and not events
        table.widen(widths, rows)
        for row in rows:
            say(table.stream_line(_COLUMNS, row, widths, is_coloured=is_coloured(), width=room))
        if form == "json":
            for event in events:
                say(clean_json(msgspec.json.encode(event).decode()))
    if is_empty and form != "json":
        note("nothing yet")


def _happened(
    client: Client, job: str, last: int, *, is_all: bool, follow: bool, everyone: bool
) -> Iterator[Sequence[Happening]]:
    """As they come: pages of the past, then one by one."""
    page = client.recorded(job=job, last=None if is_all else last, everyone=everyone)
    yield page["items"]
    while is_all and page["next"] is not None:
        page = client.recorded(job=job, after=page["next"], everyone=everyone)
        yield page["items"]
    if follow:
        # What came while the page was read is told again by the stream: it begins after the last event that was shown.
        seen = page["items"][-1]["revision"] if page["items"] else page["revision"]
        for event in client.follow_recorded(job=job, after=seen, everyone=everyone):
            yield (event,)


def _row(event: Happening) -> table.Row:
    """Who or what it happened to in one column, whatever it is; where in the next."""
    subject = event.get("name") or event.get("job") or event.get("node")
    what = subject or event.get("pool") or event.get("tenant") or "-"
    where = (
        f"on {event['node']}" if event.get("node") and event.get("job") else event.get("pool", "") if subject else ""
    )
    why = ": ".join(part for part in (event.get("reason"), first_line(event.get("message"))) if part)
    kind = event.get("kind", "")
    return (
        clock_time(event.get("at")),
        table.Cell(kind, _COLOURS.get(kind)),
        event.get("tenant", "-"),
        what,
        " ".join(part for part in (where, why) if part),
    )
