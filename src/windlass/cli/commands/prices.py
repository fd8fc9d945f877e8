"""`windlass prices`: what is charged for an hour of each thing, everywhere and in some pools, and what tiers pay of it."""

from typing import Any, Final

import click

from windlass.cli.command import Command, client_of
from windlass.cli.commands.tenants import TIERS
from windlass.cli.output import output_option, say, show_document, show_table
from windlass.cli.parameters import Money, Pair
from windlass.cli.render import money as render
from windlass.client.documents import Document

_THINGS: Final = {
    "core_hour": "coreHour",
    "gigabyte_hour": "gigabyteHour",
    "gpu_hour": "gpuHour",
    "worker_hour": "workerHour",
    "stored_gigabyte_hour": "storedGigabyteHour",
}


@click.group()
def prices() -> None:
    """What an hour of each thing costs: everywhere, in some pools, and what tiers pay of it."""


@prices.command("list", cls=Command)
@output_option("table", "json", "yaml")
@click.pass_context
def list_prices(ctx: click.Context, form: str) -> None:
    """The list, and the pools that have prices of their own."""
    _show(client_of(ctx).prices(), form)


@prices.command("set", cls=Command)
@click.option("--core-hour", type=Money(), metavar="AMOUNT", help="A core for an hour, such as 0.05.")
@click.option("--gigabyte-hour", type=Money(), metavar="AMOUNT", help="A GB of memory for an hour.")
@click.option("--gpu-hour", type=Money(), metavar="AMOUNT", help="A GPU for an hour.")
@click.option("--worker-hour", type=Money(), metavar="AMOUNT", help="A worker of one tenant's own pool for an hour.")
@click.option("--stored-gigabyte-hour", type=Money(), metavar="AMOUNT", help="A GB of a job's volume for an hour.")
@click.option("--pool", metavar="NAME", help="Of this pool only.")
@click.option("--reset", is_flag=True, help="With --pool: it has no prices of its own any more.")
@click.option(
    "--tier", "tiers", type=Pair(), multiple=True, metavar="TIER=PERCENT", help="Paid of it; may be repeated."
)
@output_option("table", "json", "yaml")
@click.pass_context
def set_prices(
    ctx: click.Context,
    /,
    pool: str | None,
    reset: bool,
    tiers: tuple[tuple[str, str], ...],
    form: str,
    **things: int | None,
) -> None:
    """Change what is named and leave the rest, for what is placed from now on. For admins.

    \b
      windlass prices set --core-hour 0.04 --stored-gigabyte-hour 0.0002
      windlass prices set --pool night --core-hour 0.02
      windlass prices set --tier enterprise=80
    """
    named = {_THINGS[name]: value for name, value in things.items() if value is not None}
    if reset and (pool is None or named):
        raise click.UsageError("--reset goes with --pool, and with no price")
    if not (named or reset or tiers):
        raise click.UsageError("nothing to change; name a price, --tier, or --pool with --reset")
    percents = {tier: _percent(tier, percent) for tier, percent in tiers}
    client = client_of(ctx)
    known = client.prices()
    _show(client.set_prices(_changed(known, named, pool, is_reset=reset) | _paid(known, percents)), form)


def _changed(known: Document, named: dict[str, int], pool: str | None, *, is_reset: bool) -> dict[str, Any]:
    every, pools = dict(known["every"]), dict(known["pools"])
    if pool is None:
        every |= named
    elif is_reset:
        pools.pop(pool, None)
    elif named:
        pools[pool] = {**pools.get(pool, every), **named}
    return {"every": every, "pools": pools}


def _paid(known: Document, percents: dict[str, int]) -> dict[str, Any]:
    return {"tiers": {**known["tiers"], **percents}}


def _percent(tier: str, text: str) -> int:
    if tier not in TIERS:
        raise click.BadParameter(f"{tier!r} is no tier; there are {', '.join(TIERS)}", param_hint="--tier")
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is not a whole number of percent", param_hint="--tier")
    return int(text)


def _show(found: Document, form: str) -> None:
    if show_document(found, form):
        return
    show_table(render.PRICES, render.price_rows(found), form)
    for tier, percent in sorted(found["tiers"].items(), key=lambda one: TIERS.index(one[0])):
        say(f"tier {tier} pays {percent} %")
