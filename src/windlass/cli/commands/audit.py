"""`windlass audit`: who did what. For admins."""

import re
import time
from datetime import UTC, datetime
from typing import Any, Final

import click

from windlass.cli.command import Command, client_of
from windlass.cli.output import note, output_option, say, show_json, show_table
from windlass.cli.render import tenants as render
from windlass.cli.render.values import newest
from windlass.client.client import Client

_AGO: Final = re.compile(r"(\d{1,9})(s|m|h|d)", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Moment(click.ParamType[str]):
    """RFC 3339, a day, or how long ago: `90m`, `2d`."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if ago := _AGO.fullmatch(text):
            moment = datetime.fromtimestamp(time.time() - int(ago[1]) * _SECONDS[ago[2]], UTC)
            return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is not a moment; expected 90m, 2d, 2026-11-15 or 2026-11-15T12:00:00Z", param, ctx)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat(timespec="milliseconds")


@click.command(cls=Command)
@click.option("--since", type=Moment(), help="From then on: 90m, 2d, a day, or RFC 3339.")
@click.option("--until", type=Moment(), help="Before then.")
@click.option("--tenant", help="What it did, and what was done to its things.")
@click.option("--subject", help="Who.")
@click.option("--verb", help="submit, cancel, delete, issue, …")
@click.option("--kind", help="Job, Volume, Tenant, Token, …")
@click.option("--name", help="Of what was changed.")
@click.option("--uid", help="Of what was changed.")
@click.option("--request", help="The id that an answer carried.")
@click.option("--token-id", "token", help="Done with this token.")
@click.option("--refused", "outcome", flag_value="refused", help="Only what was refused.")
@click.option("--done", "outcome", flag_value="done", help="Only what was done.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The newest so many.")
@click.option("--export", "is_export", is_flag=True, help="All of it as JSON lines, oldest first.")
@click.option("-f", "--follow", is_flag=True, help="With --export: go on with what comes, until Ctrl-C.")
@output_option("table", "wide", "json")
@click.pass_context
def audit(ctx: click.Context, /, limit: int, is_export: bool, follow: bool, form: str, **filters: Any) -> None:
    """Who did what, when, from where; newest first.

    \b
      windlass audit --since 1h --tenant vision
      windlass audit --refused
      windlass audit --export --since 2026-11-01 > november.jsonl
    """
    client = client_of(ctx)
    if is_export or follow:
        _export(client, filters, follow=follow)
        return
    found = list(client.audit(limit=limit, **filters))
    if form == "json":
        show_json({"items": found})
    elif found:
        show_table(render.AUDIT, render.audit_rows(found), form)
        if len(found) == limit:
            note(f"{newest(limit)}; --export has all")
    else:
        note("nothing")


def _export(client: Client, filters: dict[str, Any], *, follow: bool) -> None:
    with client.export_audit(**filters, follow=follow) as lines:
        for line in lines:
            say(line.decode())
