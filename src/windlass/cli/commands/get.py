"""`windlass get`: lists of jobs, nodes, volumes, pools and tenants, for people and for programs."""

import time
from collections.abc import Sequence
from typing import Any

import click

from windlass.cli.command import Command, client_of
from windlass.cli.names import complete_job, plain_name
from windlass.cli.output import note, output_option, say, show_json, show_table, show_yaml
from windlass.cli.render import lists
from windlass.cli.render.fit import Columns
from windlass.cli.render.values import newest
from windlass.client.client import Client
from windlass.client.documents import Manifest
from windlass.core.errors import NotFound

KINDS = ("jobs", "job", "nodes", "node", "volumes", "volume", "tenants", "tenant", "pools", "pool")
ALIASES = {
    "node": "nodes",
    "no": "nodes",
    "volume": "volumes",
    "vol": "volumes",
    "pvc": "volumes",
    "tenant": "tenants",
    "pool": "pools",
    "job": "jobs",
    "eaj": "jobs",
}


class Filters:
    """What `get jobs` was asked to show."""

    def __init__(
        self, state: tuple[str, ...], label: tuple[str, ...], active: bool, limit: int, everything: bool
    ) -> None:
        self.query: dict[str, Any] = {
            "state": [s.upper() for s in state] or None,
            "label": list(label) or None,
            "active": True if active else None,
        }
        self.limit = None if everything else limit


@click.command(cls=Command)
@click.argument("kind", metavar="jobs|nodes|volumes|pools|tenants", shell_complete=lambda *_: list(KINDS))
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_job)
@output_option()
@click.option(
    "--state",
    multiple=True,
    metavar="STATE",
    help="Only jobs in this state; may be repeated. PENDING has SUSPENDED too.",
)
@click.option("-l", "--label", multiple=True, metavar="KEY=VALUE", help="Only jobs with this label; may be repeated.")
@click.option("--active", is_flag=True, help="Only jobs that are not over.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many, newest first.")
@click.option("--all", "everything", is_flag=True, help="All of them, however many.")
@click.option("-w", "--watch", is_flag=True, help="Then a line for every change, until Ctrl-C.")
@click.pass_context
def get(
    ctx: click.Context,
    kind: str,
    names: tuple[str, ...],
    form: str,
    state: tuple[str, ...],
    label: tuple[str, ...],
    active: bool,
    limit: int,
    everything: bool,
    watch: bool,
) -> None:
    """List jobs, nodes, volumes, pools or tenants; or show the named ones.

    \b
      windlass get jobs --state running --label team=vision
      windlass get job NAME -o yaml
      windlass get nodes
    """
    kind = ALIASES.get(kind.lower(), kind.lower())
    client = client_of(ctx)
    if kind == "nodes":
        show_items(kind, client.nodes(), names, form, lists.NODES, lists.node_rows)
    elif kind == "volumes":
        show_items(kind, client.volumes(), names, form, lists.VOLUMES, lambda v: lists.volume_rows(v, time.time()))
    elif kind == "tenants":
        from windlass.cli.commands.tenants import show_tenants

        found = [client.tenant(name) for name in names] if names else list(client.tenants())
        show_tenants(found, form, is_single=len(names) == 1)
    elif kind == "pools":
        from windlass.cli.commands.pools import show_pools

        show_pools([client.pool(name) for name in names] if names else client.pools(), form, is_single=len(names) == 1)
    elif kind != "jobs":
        raise click.BadParameter(
            f"{kind!r} is not a kind; there are jobs, nodes, volumes, pools and tenants", param_hint="KIND"
        )
    elif names:
        names = tuple(map(plain_name, names))
        show_jobs([client.job(name) for name in names], form, is_single=len(names) == 1)
    else:
        list_jobs(client, Filters(state, label, active, limit, everything), form)
    if watch and kind == "jobs":
        from windlass.cli.commands.watch import print_changes

        print_changes(client, names, form)


def list_jobs(client: Client, filters: Filters, form: str, **query: Any) -> None:
    limit = filters.limit
    found = list(client.jobs(limit=None if limit is None else limit + 1, **filters.query, **query))
    show_jobs(found[:limit], form)
    if limit is not None and len(found) > limit and form in {"table", "wide"}:
        note(f"{newest(limit)}; --all shows every one")
    if not found and form in {"table", "wide"}:
        note(
            f"no jobs yet; `{client.first_command()}` makes one"
            if not any(filters.query.values())
            else "no job matches"
        )


def show_jobs(jobs: Sequence[Manifest], form: str, *, is_single: bool = False) -> None:
    if form in {"json", "yaml"}:
        document = jobs[0] if is_single else {"items": jobs}
        return show_json(document) if form == "json" else show_yaml(document)
    if form == "name":
        return say("\n".join(f"job/{job['metadata'].get('name')}" for job in jobs)) if jobs else None
    if not jobs:
        return None
    is_wide = form == "wide"
    headings = lists.JOBS_WIDE if is_wide else lists.JOBS
    return show_table(headings, lists.job_rows(jobs, time.time(), is_wide=is_wide), form)


def show_items(kind: str, items: Sequence[Any], names: Sequence[str], form: str, headings: Columns, rows: Any) -> None:
    wanted = set(names)
    for name in names:
        if not any(name in (item.get("name"), item.get("job")) for item in items):
            raise NotFound(f"no {kind.removesuffix('s')} {name!r}", hint=f"`windlass get {kind}` lists them")
    items = [item for item in items if not wanted or item.get("name") in wanted or item.get("job") in wanted]
    if form == "json":
        show_json({"items": items})
    elif form == "yaml":
        show_yaml({"items": items})
    elif form == "name":
        for item in items:
            say(item["name"])
    elif items:
        show_table(headings, rows(items), form)
    else:
        note("none")
