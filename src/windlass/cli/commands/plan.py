"""`windlass plan -f`: what the manifests of a file would do, without doing it: node, start, price, and whom they would delay."""

import time
from collections.abc import Callable, Iterator, Sequence

import click

from windlass.cli import exits
from windlass.cli.command import Command, client_of
from windlass.cli.commands.why import started
from windlass.cli.failures import show
from windlass.cli.manifests import Found, by_manifest, counted, files_option, in_files, read_manifests
from windlass.cli.output import output_option, say, show_document, show_table
from windlass.cli.plain import clean
from windlass.cli.render import table
from windlass.cli.render.fit import columns
from windlass.cli.render.values import money, span
from windlass.client.documents import Document, Plan, Planned
from windlass.core.errors import Fault, WindlassError

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

    The server tries them on its own scheduler and takes everything back. One that is there already is left alone, as `apply`
    does, and those with faults are refused for themselves. The exit code is 4 when one would be refused. A plan takes 100
    documents at most.
    """
    manifests = read_manifests(files)
    found = _ask(client_of(ctx).plan, manifests)
    for item, manifest in zip(found["items"], manifests, strict=True):
        item["file"], item["document"] = manifest.file, manifest.number
    if not show_document(found, form):
        show_table(PLANNED, [_row(one) for one in found["items"]], form)
        for line in _delays(found):
            say(line)
        for item, manifest in zip(found["items"], manifests, strict=True):
            _show_refusal(item, manifest)
    ctx.exit(exits.OK if all(one["accepted"] for one in found["items"]) else exits.REFUSED)


def _ask(plan: Callable[[list[Document]], Plan], manifests: Sequence[Found]) -> Plan:
    """Of those without faults; the server takes all or none, and `apply` sends each by itself."""
    refused: dict[int, Planned] = {}
    while True:
        sent = [at for at in range(len(manifests)) if at not in refused]
        try:
            found = plan([manifests[at].document for at in sent]) if sent else _nothing()
        except WindlassError as exc:
            faulty = by_manifest(exc, len(sent))
            if not faulty:
                raise in_files(exc, [manifests[at] for at in sent]) from None
            refused |= {sent[at]: _refused(manifests[sent[at]], exc.code, faults) for at, faults in faulty.items()}
        else:
            planned = refused | dict(zip(sent, found["items"], strict=True))
            found["items"] = [planned[at] for at in range(len(manifests))]
            return found


def _nothing() -> Plan:
    """What the server would say of no manifest at all, for which it cannot be asked."""
    return {"items": [], "delays": {"own": [], "others": 0, "othersSeconds": 0}, "complete": True}


def _refused(manifest: Found, code: str, faults: Sequence[Fault]) -> Planned:
    return {
        "name": manifest.name,
        "accepted": False,
        "unchanged": False,
        "suspended": False,
        "refusal": {
            "code": code,
            "detail": f"the manifest has {counted(faults)}",
            "hint": None,
            "faults": [{"field": fault.field, "message": fault.message} for fault in faults],
        },
        "start": None,
        "startsNow": False,
        "growing": None,
        "turn": None,
        "expectedSeconds": 0,
        "price": 0,
        "pricePerHour": 0,
        "inBurst": False,
        "stoppedForCost": False,
    }


def _show_refusal(one: Planned, manifest: Found) -> None:
    refusal = one["refusal"]
    if refusal is None:
        return
    faults = [Fault(fault["field"], fault["message"]) for fault in refusal["faults"]]
    message = f"{manifest.where}: {refusal['detail']}"
    show(WindlassError(message, code=refusal["code"], hint=refusal["hint"], faults=faults))


def _row(one: Planned) -> table.Row:
    refusal = one["refusal"]
    if refusal is not None:
        return (
            one["name"] or "-",
            table.Cell("refused", "red"),
            "-",
            "-",
            "-",
            f"{refusal['code']}: {refusal['detail']}",
        )
    if one.get("unchanged"):
        return one["name"], "unchanged", "-", "-", "-", "is there already"
    if one.get("suspended"):
        return one["name"], "when it is released", span(one["expectedSeconds"]), "-", "-", ""
    growing, start = one["growing"], one["start"]
    words = f"when {growing} has grown" if growing is not None and start is None else started(start, time.time())
    has_price = growing is not None or (start is not None and not start["noEarlierThan"])
    return (
        one["name"],
        table.Cell(words, "green" if one["startsNow"] else "yellow"),
        span(one["expectedSeconds"]),
        money(one["price"]) if has_price else "-",
        money(one["pricePerHour"]) if has_price else "-",
        ", ".join(_details(one)),
    )


def _details(one: Planned) -> Iterator[str]:
    if one.get("stoppedForCost"):
        yield "then stopped by its maxCost"
    if one["inBurst"]:
        yield "at the burst price"


def _delays(found: Plan) -> Iterator[str]:
    delays = found["delays"]
    if not delays["own"] and not delays["others"]:
        yield "delays nobody" + ("" if found["complete"] else ", as far as it was looked ahead")
        return
    for one in delays["own"]:
        yield f"delays {clean(one['name'])} by {span(one['seconds'])}"
    if delays["others"]:
        most = span(delays["othersSeconds"])
        yield f"delays {delays['others']} job{'s' * (delays['others'] != 1)} of other tenants, by {most} at most"
