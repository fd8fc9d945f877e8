"""`windlass pools` and `windlass nodes`: where work may run, how it grows, and nodes that shall take no more."""

import time
from collections.abc import Sequence
from typing import Any, Literal

import click

from windlass.cli.command import Command, client_of
from windlass.cli.each import each
from windlass.cli.output import note, output_option, say, show_document, show_manifests, show_table
from windlass.cli.render import pools as render
from windlass.client.client import Client
from windlass.client.documents import Document

_LOOK_SECONDS = 0.5
_NAMED_MAX = 5
"""Tenants named in one line."""


@click.group()
def pools() -> None:
    """Where work may run: static pools, and dynamic ones that grow and shrink. To change them is for admins."""


@pools.command(cls=Command)
@click.argument("name")
@click.option("--cpu", metavar="CORES", required=True, help="Cores of one worker.")
@click.option("--memory", metavar="SIZE", required=True, help="Memory of one worker, such as 2Gi.")
@click.option("--min", "workers_min", type=click.IntRange(0), default=0, show_default=True, help="Workers kept.")
@click.option("--max", "workers_max", type=click.IntRange(0), required=True, help="Workers at most.")
@click.option("--spares", type=click.IntRange(0), help="Idle workers kept warm.")
@click.option("--cooldown-up", metavar="TIME", help="Between two growths.  [default: 60s]")
@click.option("--cooldown-down", metavar="TIME", help="After a change, before workers are given back.  [default: 120s]")
@click.option("--idle", metavar="TIME", help="A worker idle for so long is given back.  [default: 30m]")
@click.option(
    "--tenant", "tenants", metavar="NAME", multiple=True, help="Who may use it, nobody else; may be repeated."
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Its nodes have it; may be repeated.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def create(
    ctx: click.Context,
    /,
    name: str,
    cpu: str,
    memory: str,
    workers_min: int,
    workers_max: int,
    spares: int | None,
    cooldown_up: str | None,
    cooldown_down: str | None,
    idle: str | None,
    tenants: tuple[str, ...],
    labels: tuple[str, ...],
    form: str,
) -> None:
    """Create a dynamic pool of slices of this machine. Triggers, schedules and prices are said in a manifest: windlass apply.

    \b
      windlass pools create burst --cpu 500m --memory 1Gi --max 3
    """
    bounds = {"min": workers_min, "max": workers_max, "worker": {"cpu": cpu, "memory": memory}}
    given = {"spares": spares, "cooldownUp": cooldown_up, "cooldownDown": cooldown_down, "idle": idle}
    spec: dict[str, Any] = {
        "kind": "dynamic",
        "tenants": list(tenants),
        "labels": dict(_pair(label) for label in labels),
        "scaling": bounds | {key: _span(value) for key, value in given.items() if value is not None},
    }
    document = {"apiVersion": "windlass.dev/v1", "kind": "Pool", "metadata": {"name": name}, "spec": spec}
    made = client_of(ctx).create_pool(document)
    if form == "table":
        say(f"pool/{name} created")
    else:
        show_pools([made], form, is_single=True)


@pools.command("list", cls=Command)
@output_option("table", "wide", "json", "yaml", "name")
@click.pass_context
def list_pools(ctx: click.Context, form: str) -> None:
    """The pools you may use."""
    show_pools(client_of(ctx).pools(), form)


@pools.command("show", cls=Command)
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_one(ctx: click.Context, name: str, form: str) -> None:
    """Everything about one pool, and what its autoscaler sees."""
    client = client_of(ctx)
    pool = client.pool(name)
    describe_pool(pool, client.pool_metrics(name) if pool["spec"]["kind"] == "dynamic" else {}, form)


@pools.command("scale", cls=Command)
@click.argument("name")
@click.argument("workers", type=click.IntRange(0))
@click.pass_context
def scale(ctx: click.Context, name: str, workers: int) -> None:
    """To so many workers, by hand and at once. Busy workers stay; the autoscaler goes on from there unless it is paused."""
    step = client_of(ctx).scale_pool(name, workers)
    held = f"; held back: {', '.join(step['held'])}" if step["held"] else ""
    say(f"pool/{name} {step['by']:+d}{held}")


@pools.command("pause", cls=Command)
@click.argument("name")
@click.pass_context
def pause(ctx: click.Context, name: str) -> None:
    """It no longer grows or shrinks by itself."""
    _pause(ctx, name, is_paused=True)


@pools.command("resume", cls=Command)
@click.argument("name")
@click.pass_context
def resume(ctx: click.Context, name: str) -> None:
    """It grows and shrinks by itself again."""
    _pause(ctx, name, is_paused=False)


@pools.command("history", cls=Command)
@click.argument("name")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many, newest first.")
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def history(ctx: click.Context, name: str, limit: int, form: str) -> None:
    """Every change of its size: what was seen, which rule, and what held it back."""
    found = list(client_of(ctx).scaling(name, limit=limit))
    if show_document({"items": found}, form):
        return
    if found:
        show_table(render.HISTORY, render.history_rows(found, time.time()), form)
    else:
        note("none yet")


@pools.command("delete", cls=Command)
@click.argument("names", nargs=-1, required=True)
@click.pass_context
def delete(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Delete pools that have no nodes and no workers. Quotas that name one, beside others, no longer do."""
    client = client_of(ctx)

    def one(name: str) -> str:
        named = client.delete_pool(name).get("leftQuotasOf", [])
        if not named:
            return "deleted"
        who = ", ".join(named[:_NAMED_MAX]) + f" and {len(named) - _NAMED_MAX} more" * (len(named) > _NAMED_MAX)
        return f"deleted; no longer in the quota{'s' * (len(named) != 1)} of {who}"

    each(ctx, "pool", names, one)


@click.group()
def nodes() -> None:
    """Nodes that shall take no new runs, for a while or for good. For admins."""


@nodes.command("cordon", cls=Command)
@click.argument("names", nargs=-1, required=True)
@click.pass_context
def cordon(ctx: click.Context, names: tuple[str, ...]) -> None:
    """No new runs there; what runs goes on."""
    _hold_back(ctx, names, "cordon")


@nodes.command("uncordon", cls=Command)
@click.argument("names", nargs=-1, required=True)
@click.pass_context
def uncordon(ctx: click.Context, names: tuple[str, ...]) -> None:
    """New runs again."""
    _hold_back(ctx, names, "uncordon")


@nodes.command("drain", cls=Command)
@click.argument("names", nargs=-1, required=True)
@click.option("--wait", "waits", is_flag=True, help="Return when the last run there is over.")
@click.pass_context
def drain(ctx: click.Context, names: tuple[str, ...], waits: bool) -> None:
    """No new runs; a worker is given back after its last, any other node is idle then, until it is uncordoned."""
    client = client_of(ctx)

    def one(name: str) -> str:
        client.hold_back(name, "drain")
        while (runs := _runs_on(client, name)) and waits:
            time.sleep(_LOOK_SECONDS)
        return f"draining, {runs} run{'s' * (runs != 1)} left" if runs else "drained"

    each(ctx, "node", names, one)


def show_pools(found: Sequence[Document], form: str, *, is_single: bool = False) -> None:
    if not show_manifests("pool", found, form, is_single=is_single):
        show_table(render.POOLS, render.pool_rows(found, time.time()), form)


def describe_pool(pool: Document, metrics: Document, form: str = "table") -> None:
    if form != "table":
        show_pools([pool], form, is_single=True)
    else:
        say("\n".join(render.pool_lines(pool, metrics, time.time())))


def _pause(ctx: click.Context, name: str, *, is_paused: bool) -> None:
    client_of(ctx).change_pool(name, {"paused": is_paused})
    say(f"pool/{name} {'paused' if is_paused else 'resumed'}")


def _hold_back(ctx: click.Context, names: tuple[str, ...], verb: Literal["cordon", "uncordon"]) -> None:
    client = client_of(ctx)
    each(ctx, "node", names, lambda name: str(client.hold_back(name, verb)["state"]))


def _runs_on(client: Client, name: str) -> int:
    """Nothing where it is not there any more: a worker that was given back."""
    return sum(int(node["runs"]) for node in client.nodes() if node["name"] == name)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--label")
    return key, value


def _span(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value
