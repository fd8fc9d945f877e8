"""`windlass plan -f`: what the manifests of a file would do, without doing it: node, start, price, and whom they would delay."""

import time
from collections.abc import Iterator

import click

from windlass.cli import exits
from windlass.cli.command import Command, client_of
from windlass.cli.commands.apply import files_option, read_documents
from windlass.cli.commands.why import started
from windlass.cli.output import output_option, say, show_document, show_table
from windlass.cli.render import table
from windlass.cli.render.fit import columns
from windlass.cli.render.values import money, span
from windlass.client.documents import Plan, Planned

PLANNED = columns(
    ("NAME", "START", "EXPECTED", "PRICE", "PER HOUR", "DETAIL"),
    ("DETAIL", 20),
    ("NAME", 16),
    "PER HOUR",
    ("DETAIL", 12),
    "EXPECTED",
    ("NAME", 8),
)


@click.command(cls=Command)
@files_option
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def plan(ctx: click.Context, files: tuple[str, ...], form: str) -> None:
    """What the jobs of FILE would do if they were submitted now, in this order.

    The server tries them on its own scheduler and takes everything back. The exit code is 4 when one would be refused.
    """
    found = client_of(ctx).plan([document for file in files for document in read_documents(file)])
    if not show_document(found, form):
        show_table(PLANNED, [_row(one) for one in found["items"]], form)
        for line in _delays(found):
            say(line)
    ctx.exit(exits.OK if all(one["accepted"] for one in found["items"]) else exits.REFUSED)


def _row(one: Planned) -> table.Row:
    refusal = one["refusal"]
    if refusal is not None:
        faults = "; ".join(f"{fault['field']}: {fault['message']}" for fault in refusal["faults"])
        detail = f"{refusal['code']}: {faults or refusal['detail']}"
        return one["name"] or "-", table.Cell("refused", "red"), "-", "-", "-", detail
    growing, start = one["growing"], one["start"]
    words = f"when {growing} has grown" if growing is not None and start is None else started(start, time.time())
    when = table.Cell(words, "green" if one["startsNow"] else "yellow")
    return (
        one["name"],
        when,
        span(one["expectedSeconds"]),
        money(one["price"]),
        money(one["pricePerHour"]),
        "at the burst price" if one["inBurst"] else "",
    )


def _delays(found: Plan) -> Iterator[str]:
    delays = found["delays"]
    if not delays["own"] and not delays["others"]:
        yield "delays nobody" + ("" if found["complete"] else ", as far as it was looked ahead")
        return
    for one in delays["own"]:
        yield f"delays {table.clean(one['name'])} by {span(one['seconds'])}"
    if delays["others"]:
        most = span(delays["othersSeconds"])
        yield f"delays {delays['others']} job{'s' * (delays['others'] != 1)} of other tenants, by {most} at most"
