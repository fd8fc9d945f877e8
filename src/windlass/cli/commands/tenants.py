"""`windlass tenants`: who shares this installation, what each may use, and the tokens they come in with. For admins."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from windlass.cli.command import Command, client_of
from windlass.cli.commands.money import budget, burst
from windlass.cli.each import each
from windlass.cli.output import note, output_option, say, show_document, show_manifests, show_table
from windlass.cli.parameters import Money, Number
from windlass.cli.render import tenants as render
from windlass.client.documents import TenantManifest
from windlass.core.errors import Invalid

TIERS = ("free", "standard", "premium", "enterprise")
POLICIES = ("reject", "queue", "burst")
ROLES = ("viewer", "member", "admin")
NONE = "none"


class Limit(click.ParamType[Any]):
    """A quantity, which the server judges, or `none` for no limit."""

    name = "N|none"

    def __init__(self, *, is_count: bool = False) -> None:
        self._is_count = is_count

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value)
        if text == NONE:
            return NONE
        if self._is_count:
            if not text.removeprefix("-").isdecimal():
                self.fail(f"{text!r} is not a whole number; expected one, or none", param, ctx)
            return int(text)
        if not text or text.lstrip("+-")[:1].isalpha():  # nothing, nan, inf, a word
            self.fail(f"{text!r} is not a quantity; expected one such as 2, 500m or 64Gi, or none", param, ctx)
        return text


def quota_options(function: Any) -> Any:
    count = Limit(is_count=True)
    for option in reversed(
        (
            click.option("--cpu", type=Limit(), metavar="N|none", help="Cores at once."),
            click.option("--memory", type=Limit(), metavar="N|none", help="Memory at once, such as 64Gi."),
            click.option("--gpu", type=count, metavar="N|none", help="GPUs at once."),
            click.option("--jobs", type=count, metavar="N|none", help="Jobs holding quota at once."),
            click.option("--workers", type=count, metavar="N|none", help="Nodes its runs may be on at once."),
            click.option("--queued-max", type=click.IntRange(0), help="Jobs waiting at once."),
            click.option("--jobs-per-month", type=count, metavar="N|none", help="Jobs accepted in a calendar month."),
            click.option(
                "--cost-per-day",
                type=Money(or_none=True),
                metavar="AMOUNT|none",
                help="Money in a day (UTC), such as 5.",
            ),
            click.option("--pool", "pools", multiple=True, help="A pool it may use; may be repeated, `any` is any."),
        )
    ):
        function = option(function)
    return function


@click.group()
def tenants() -> None:
    """Who shares this installation, what each may use, and their tokens. For admins."""


tenants.add_command(burst)
tenants.add_command(budget)


@tenants.command(cls=Command)
@click.argument("name")
@click.option("--tier", type=click.Choice(TIERS), help="Gives the weight 1, 2, 3 or 5.  [default: free]")
@click.option("--weight", type=Number(), help="Its share beside others, 0.5 to 10.  [default: its tier's]")
@click.option("--policy", type=click.Choice(POLICIES), help="When the quota is full.  [default: reject]")
@click.option("--rate", type=click.IntRange(1), help="Requests a second; twice as many at once after a pause.")
@click.option("--sla", metavar="TIME", help="Of jobs that name no deadline, such as 15m.")
@click.option("--default-timeout", metavar="TIME", help="Of jobs that name no timeout, such as 2h.")
@quota_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def create(
    ctx: click.Context,
    /,
    name: str,
    tier: str | None,
    weight: float | None,
    policy: str | None,
    rate: int | None,
    sla: str | None,
    default_timeout: str | None,
    form: str,
    **quota: Any,
) -> None:
    """Create a tenant. What is not said is as the server's settings have it: else 4 cores, 8 GiB, 10 jobs.

    \b
      windlass tenants create vision --tier premium --cpu 16 --memory 64Gi --jobs 100
      windlass tenants token vision --role member --ttl 30d
    """
    given = {"tier": tier, "weight": weight, "policy": policy, "quota": _quota(quota)}
    spec = {key: value for key, value in given.items() if value not in (None, {})}
    if rate is not None:
        spec["rate"] = _rate(rate, None)
    spec |= _times(sla, default_timeout)
    document = {"apiVersion": "windlass.dev/v1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}
    made = client_of(ctx).create_tenant(document)
    if form == "table":
        say(f"tenant/{name} created")
    else:
        show_tenants([made], form, is_single=True)


@tenants.command("list", cls=Command)
@output_option("table", "wide", "json", "yaml", "name")
@click.pass_context
def list_tenants(ctx: click.Context, form: str) -> None:
    """All tenants for admins, else your own: what each may use and what it holds."""
    show_tenants(list(client_of(ctx).tenants()), form)


@tenants.command("show", cls=Command)
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_one(ctx: click.Context, name: str, form: str) -> None:
    """Everything about one tenant."""
    describe_tenant(client_of(ctx).tenant(name), form)


@tenants.command("quota", cls=Command)
@click.argument("name")
@quota_options
@click.option("--policy", type=click.Choice(POLICIES), help="When the quota is full.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def set_quota(ctx: click.Context, /, name: str, policy: str | None, form: str, **quota: Any) -> None:
    """Change what is named of a tenant's quota, and leave the rest; without options, show it.

    \b
      windlass tenants quota vision --cpu 32 --jobs none
    """
    changed = _quota(quota)
    spec: dict[str, Any] = ({"quota": changed} if changed else {}) | ({"policy": policy} if policy else {})
    client = client_of(ctx)
    describe_tenant(client.change_tenant(name, spec) if spec else client.tenant(name), form, only="quota")


@tenants.command("weight", cls=Command)
@click.argument("name")
@click.argument("weight", type=Number())
@click.pass_context
def set_weight(ctx: click.Context, name: str, weight: float) -> None:
    """Its share beside others, 0.5 to 10; counts from the next placing on."""
    made = client_of(ctx).change_tenant(name, {"weight": weight})
    say(f"tenant/{name} has weight {made['status']['weight']:g}")


@tenants.command("set", cls=Command)
@click.argument("name")
@click.option("--tier", type=click.Choice(TIERS), help="Gives the weight 1, 2, 3 or 5, if it has none of its own.")
@click.option("--sla", metavar="TIME|none", help="Of jobs that name no deadline, such as 15m.")
@click.option("--default-timeout", metavar="TIME|none", help="Of jobs that name no timeout, such as 2h.")
@click.option("--rate", type=Limit(is_count=True), metavar="N|none", help="Requests a second; none: the server's.")
@click.option("--at-once", type=click.IntRange(1), help="Requests after a pause.  [default: twice the rate]")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def set_tenant(
    ctx: click.Context,
    name: str,
    tier: str | None,
    sla: str | None,
    default_timeout: str | None,
    rate: Any,
    at_once: int | None,
    form: str,
) -> None:
    """Change what is named of a tenant, and leave the rest. Quota, weight, budget and burst have verbs of their own.

    \b
      windlass tenants set vision --sla 15m --default-timeout 2h --rate 50
    """
    if at_once is not None and not isinstance(rate, int):
        raise click.UsageError("--at-once goes with --rate")
    spec: dict[str, Any] = ({"tier": tier} if tier else {}) | _times(sla, default_timeout)
    if rate is not None:
        spec["rate"] = None if rate == NONE else _rate(rate, at_once)
    if not spec:
        raise click.UsageError("nothing to change; name what shall be another")
    describe_tenant(client_of(ctx).change_tenant(name, spec), form)


@tenants.command("delete", cls=Command)
@click.argument("names", nargs=-1, required=True)
@click.pass_context
def delete(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Delete tenants that have no live jobs. Their tokens end; their names are not given again."""
    client = client_of(ctx)

    def one(name: str) -> str:
        client.delete_tenant(name)
        return "deleted"

    each(ctx, "tenant", names, one)


@tenants.command("token", cls=Command)
@click.argument("tenant")
@click.option("--role", type=click.Choice(ROLES), default="member", show_default=True, help="What it may do.")
@click.option("--ttl", default="30d", show_default=True, help="How long it holds: 90m, 12h, 30d.")
@click.option("--subject", help="Whom it is for, as the audit shows it.  [default: the tenant's name]")
@click.option("--file", "file", type=click.Path(path_type=Path), help="Write it there, for your user only.")
@click.pass_context
def issue_token(ctx: click.Context, tenant: str, role: str, ttl: str, subject: str | None, file: Path | None) -> None:
    """Issue a token: printed, or written to a file of mode 0600. It is shown this once.

    \b
      windlass tenants token vision --subject ci --role member --ttl 12h --file ci.token
      WINDLASS_TOKEN=$(windlass tenants token vision) windlass get jobs
    """
    target = _reserved(file) if file is not None else None
    asked: str | int = int(ttl) if ttl.isdecimal() else ttl
    made = client_of(ctx).issue_token(tenant, role=role, ttl=asked, subject=subject)
    if target is None:
        say(made["token"])
        return
    with os.fdopen(target, "w") as out:
        out.write(made["token"] + "\n")
    note(f"token {made['id']} of {made['subject']}, {role} of {tenant}, until {made['expiresAt']}: {file}")


@tenants.command("tokens", cls=Command)
@click.argument("tenant")
@output_option("table", "wide", "json", "yaml", "name")
@click.pass_context
def list_tokens(ctx: click.Context, tenant: str, form: str) -> None:
    """Tokens that were issued or revoked, by id; never the tokens themselves."""
    found = client_of(ctx).tokens(tenant)
    if show_document({"items": found}, form):
        return
    if form == "name":
        for token in found:
            say(token["id"])
    elif found:
        show_table(render.TOKENS, render.token_rows(found, time.time()), form)
    else:
        note("none")


@tenants.command("revoke", cls=Command)
@click.argument("tenant")
@click.argument("tokens", metavar="TOKEN-ID...", nargs=-1, required=True)
@click.option("--unseen", is_flag=True, help="Also ids that this server neither issued nor ever saw.")
@click.pass_context
def revoke(ctx: click.Context, tenant: str, tokens: tuple[str, ...], unseen: bool) -> None:
    """Revoke tokens by id: refused from the next request on, also after a restart."""
    client = client_of(ctx)

    def one(token: str) -> str:
        client.revoke_token(tenant, token, unseen=unseen)
        return "revoked"

    each(ctx, "token", tokens, one)


def show_tenants(found: Sequence[TenantManifest], form: str, *, is_single: bool = False) -> None:
    if not show_manifests("tenant", found, form, is_single=is_single):
        show_table(render.TENANTS, render.tenant_rows(found, time.time()), form)


def describe_tenant(tenant: TenantManifest, form: str = "table", *, only: str = "") -> None:
    if form != "table":
        show_tenants([tenant], form, is_single=True)
        return
    lines = render.tenant_lines(tenant, time.time())
    say("\n".join(line for line in lines if not only or line.startswith((f"{only}.", "name ", "policy "))))


def _quota(options: dict[str, Any]) -> dict[str, Any]:
    """Only what was given: the server leaves the rest, or fills it in."""
    pools = options.pop("pools", ())
    named = {"queued_max": "queuedMax", "jobs_per_month": "jobsPerMonth", "cost_per_day": "costPerDay"}
    given = {
        named.get(name, name): None if value == NONE else value for name, value in options.items() if value is not None
    }
    return given | ({"pools": [] if pools == ("any",) else list(pools)} if pools else {})


def _rate(per_second: int, at_once: int | None) -> dict[str, int]:
    return {"perSecond": per_second, "atOnce": 2 * per_second if at_once is None else at_once}


def _times(sla: str | None, default_timeout: str | None) -> dict[str, Any]:
    """As they were typed: the server has the one validator."""
    given = {"sla": sla, "defaultTimeout": default_timeout}
    return {name: None if text == NONE else _seconds(text) for name, text in given.items() if text is not None}


def _seconds(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _reserved(file: Path) -> int:
    """The file is ours before a token is made: one that could not be written would be lost, and would hold all the same."""
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise Invalid(f"{file} cannot be written: {exc.strerror}", code="token-file", hint="name a new file") from exc
