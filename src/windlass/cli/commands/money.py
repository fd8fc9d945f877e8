"""`windlass cost` and `savings`: where the money went, and where it could stay."""

from datetime import date
from typing import Any

import click

from windlass.cli.command import Command, client_of
from windlass.cli.output import note, output_option, say, show_document, show_table
from windlass.cli.parameters import Money, Number
from windlass.cli.render import money
from windlass.cli.render.values import money as amount

BY = ("day", "tenant", "pool", "job")


@click.command(cls=Command)
@click.option("--by", multiple=True, type=click.Choice(BY), help="One line for each; may be repeated. [default: day]")
@click.option("--since", metavar="DATE", help="First day (UTC), such as 2026-11-01.  [default: 30 days back]")
@click.option("--until", metavar="DATE", help="Last day (UTC).  [default: today]")
@click.option("--tenant", metavar="NAME", help="Another tenant's; for admins.")
@click.option("--all", "wants_all", is_flag=True, help="Every tenant's; for admins.")
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def cost(
    ctx: click.Context,
    by: tuple[str, ...],
    since: str | None,
    until: str | None,
    tenant: str | None,
    wants_all: bool,
    form: str,
) -> None:
    """What runs and stored volumes cost, with what is there now counted until now.

    \b
      windlass cost
      windlass cost --by pool --by day --since 2026-11-01
      windlass cost --by tenant --all
    """
    _check_whose(tenant, wants_all=wants_all)
    _check_days(since, until)
    found = client_of(ctx).costs(by=list(by) or ["day"], since=since, until=until, tenant=tenant, all=wants_all)
    if show_document(found, form):
        return
    if not found["items"]:
        note(f"nothing was charged from {found['since']} to {found['until']}")
        return
    shown = money.cost_columns(found["by"], has_stored=money.has_stored(found))
    show_table(shown, money.cost_rows(found), form)
    say(f"total {amount(found['total'])}, {found['since']} to {found['until']}")


@click.command(cls=Command)
@click.option("--days", type=click.IntRange(1, 366), default=30, show_default=True, help="How far back to look.")
@click.option("--tenant", metavar="NAME", help="Another tenant's; for admins.")
@click.option("--all", "wants_all", is_flag=True, help="Every tenant's; for admins.")
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def savings(ctx: click.Context, days: int, tenant: str | None, wants_all: bool, form: str) -> None:
    """Idle runs, needs that were never used, cheaper pools: from what really ran, with the evidence."""
    _check_whose(tenant, wants_all=wants_all)
    found = client_of(ctx).savings(days=days, tenant=tenant, all=wants_all)
    if show_document(found, form):
        return
    if found["items"]:
        show_table(money.SAVINGS, money.savings_rows(found), form)
    if found.get("stored"):
        say(f"stored volumes cost {amount(found['stored'])}; a shorter --volume-ttl costs less")
    runs = f"{found['runs']} run{'s' * (found['runs'] != 1)}"
    note(f"{runs} since {found['since']}, {found['measured']} of them measured by their nodes")


@click.command(cls=Command)
@click.argument("tenant")
@click.option("--open", "wants_open", is_flag=True, help="Open a session now.")
@click.option("--end", "wants_end", is_flag=True, help="End the open one before its time.")
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def burst(ctx: click.Context, tenant: str, wants_open: bool, wants_end: bool, form: str) -> None:
    """Burst sessions of a tenant: beyond its quota for a while, at a price."""
    if wants_open and wants_end:
        raise click.UsageError("--open or --end, not both")
    client = client_of(ctx)
    if wants_open:
        client.open_burst(tenant)
    elif wants_end:
        client.end_burst(tenant)
    found = client.bursts(tenant)
    if show_document(found, form):
        return
    if wants_open or wants_end:
        say(f"burst session of tenant {tenant} {'opened' if wants_open else 'ended'}")
    if found["items"]:
        show_table(money.BURSTS, money.burst_rows(found["items"]), form)
    else:
        note(f"tenant {tenant} has had no burst session lately")


@click.command(cls=Command)
@click.argument("tenant")
@click.option(
    "--per-month",
    type=Money(or_none=True, is_some=True),
    metavar="AMOUNT|none",
    help="For a calendar month (UTC), such as 250; `none` takes it away.",
)
@click.option("--threshold", "thresholds", type=Number(), multiple=True, help="Percent that is told; may be repeated.")
@click.option("--hard-stop/--no-hard-stop", default=None, help="At the whole of it, stop what runs; or only tell.")
@output_option("table", "json", "yaml")
@click.pass_context
def budget(
    ctx: click.Context,
    tenant: str,
    per_month: Any,
    thresholds: tuple[float, ...],
    hard_stop: bool | None,
    form: str,
) -> None:
    """What a tenant has spent of this month's budget, and what it has passed; with options, change it first.

    \b
      windlass tenants budget vision --per-month 250 --hard-stop
    """
    client = client_of(ctx)
    if per_month == "none":
        client.change_tenant(tenant, {"budget": None})
    elif per_month is not None or thresholds or hard_stop is not None:
        client.change_tenant(tenant, {"budget": _budget(per_month, thresholds, hard_stop)})
    found = client.budget(tenant)
    if not show_document(found, form):
        for line in money.budget_lines(found):
            say(line)


def _check_whose(tenant: str | None, *, wants_all: bool) -> None:
    if tenant is not None and wants_all:
        raise click.UsageError("--tenant or --all, not both")


def _check_days(since: str | None, until: str | None) -> None:
    """Of what are days; what is none the server refuses by name."""
    try:
        is_reversed = since is not None and until is not None and date.fromisoformat(since) > date.fromisoformat(until)
    except ValueError:
        return
    if is_reversed:
        raise click.UsageError(f"--since {since} is after --until {until}; expected the first day, then the last")


def _budget(per_month: Any, thresholds: tuple[float, ...], hard_stop: bool | None) -> dict[str, Any]:
    given = {
        "perMonth": per_month,
        "thresholds": [int(one) if one.is_integer() else one for one in thresholds] or None,
        "hardStop": hard_stop,
    }
    return {name: value for name, value in given.items() if value is not None}
