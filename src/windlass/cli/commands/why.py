"""`windlass why JOB`: the gate that holds it, every gate with its numbers, who is ahead, when it may start, what would start it."""

import time
from collections.abc import Iterator

import click

from windlass.cli.command import Command, client_of
from windlass.cli.names import job_argument
from windlass.cli.output import output_option, say, show_document, show_table, styled
from windlass.cli.plain import clean
from windlass.cli.render import table
from windlass.cli.render.fit import columns
from windlass.cli.render.values import clock_time, seconds_of, span
from windlass.client.documents import Advice, Estimate, Gate, Why

GATES = columns(("GATE", "", "WHY"), ("WHY", 16))


@click.command(cls=Command)
@job_argument()
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def why(ctx: click.Context, job: str, form: str) -> None:
    """Why JOB waits, and the smallest change that would start it now."""
    found = client_of(ctx).why(job)
    if show_document(found, form):
        return
    says = clean(found["says"])
    state = "" if found["state"] in says else f" is {found['state']}"
    say(f"{styled(found['name'], bold=True)}{state}: {says}")
    if not found["gates"]:
        return
    say("")
    show_table(GATES, [_gate_row(gate) for gate in found["gates"]], form)
    say("")
    for line in _outlook(found, time.time()):
        say(line)


def started(start: Estimate | None, now: float) -> str:
    """When it may start, in words."""
    if start is None:
        return "not as things stand"
    seconds = seconds_of(start["at"]) or now
    when = "at once" if seconds <= now else f"in {span(seconds - now)} ({clock_time(start['at'])})"
    if start["noEarlierThan"]:
        return f"later than {span(max(0.0, seconds - now))} from now"
    if start["growing"]:
        grown = start["growing"]
        return f"as soon as {grown} has grown" if seconds <= now else f"{when} on a worker that {grown} brings"
    return f"{when} on {start['node']}" if start["node"] else when


def _gate_row(gate: Gate) -> table.Row:
    colour = "green" if gate["open"] else "red" if gate["holds"] else "yellow"
    mark = "holds" if gate["holds"] else "open" if gate["open"] else "shut"
    until = f"; opens {clock_time(gate['opensAt'])}" if gate["opensAt"] else ""
    return gate["name"], table.Cell(mark, colour), gate["says"] + until


def _outlook(found: Why, now: float) -> Iterator[str]:
    yield f"start    {started(found['start'], now)}"
    yield f"ahead    {_ahead(found)}"
    for number, advice in enumerate(found["advice"]):
        yield f"{'advice' if number == 0 else '':<9}{_advice(advice)}"
    if not found["advice"]:
        yield "advice   nothing small would start it now"


def _ahead(found: Why) -> str:
    ahead = found["ahead"]
    more = "" if ahead["complete"] else ", perhaps more"
    if not ahead["own"] and not ahead["others"]:
        return f"nobody{more}"
    names = ", ".join(map(clean, ahead["names"]))
    own = f"{ahead['own']} of your own{f' ({names})' if names else ''}" if ahead["own"] else ""
    others = f"{ahead['others']} of other tenants" if ahead["others"] else ""
    return ", ".join(part for part in (own, others) if part) + more


def _advice(advice: Advice) -> str:
    command = f": {advice['command']}" if advice["command"] else ""
    return f"{clean(advice['says'])}{command}{' (an admin can)' if advice['byAdmin'] else ''}"
