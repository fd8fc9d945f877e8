"""`windlass fairness` and `queues`: who deserved what and got what; who waits, and for what."""

import click

from windlass.cli.command import Command, client_of
from windlass.cli.output import note, output_option, show_document, show_table
from windlass.cli.parameters import Duration
from windlass.cli.render import queues as rendered
from windlass.cli.render.values import clock_time

_WINDOW_MAX = 3600


@click.command(cls=Command)
@click.option(
    "--window", type=Duration(), metavar="TIME", help="Only so far back, up to 1h.  [default: since the start]"
)
@click.option("--tenant", metavar="NAME", help="Another tenant's; for admins.")
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def fairness(ctx: click.Context, window: int | None, tenant: str | None, form: str) -> None:
    """What each tenant deserved by its weight, what it received, and how far it is behind.

    Deserved is a tenant's part of all that was served while it had jobs waiting. A bar to the left is behind, to the right ahead.

    \b
      windlass fairness
      windlass fairness --window 15m
    """
    if window is not None and not 1 <= window <= _WINDOW_MAX:
        raise click.BadParameter("expected a time of up to 1h", ctx, param_hint="--window")
    found = client_of(ctx).fairness(window=window, tenant=tenant)
    if show_document(found, form):
        return
    if found["items"]:
        show_table(rendered.FAIRNESS, rendered.fairness_rows(found["items"]), form)
        note(f"since {clock_time(found['since'])}")
    else:
        note("nobody has been served yet")


@click.command(cls=Command)
@click.option("--tenant", metavar="NAME", help="Another tenant's; for admins.")
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def queues(ctx: click.Context, tenant: str | None, form: str) -> None:
    """How many jobs wait, by tenant and by what they ask for; who is next, who waits longest, and for what."""
    found = client_of(ctx).queues(tenant=tenant)
    if show_document(found, form):
        return
    if found["items"]:
        show_table(rendered.QUEUES, rendered.queue_rows(found["items"]), form)
    else:
        note("nobody waits")
