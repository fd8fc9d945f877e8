"""`windlass describe`: everything about one job, or one tenant, on one page."""

import time

import click

from windlass.cli.command import Command, client_of
from windlass.cli.names import complete_job, plain_name
from windlass.cli.output import is_coloured, say, width
from windlass.cli.render.page import job_page
from windlass.client.client import Client
from windlass.client.documents import LogLine
from windlass.core.errors import WindlassError

TAIL = 15


@click.command(cls=Command)
@click.argument("words", metavar="[job|tenant|pool] NAME", nargs=-1, required=True, shell_complete=complete_job)
@click.option("--tail", type=click.IntRange(0), default=TAIL, show_default=True, help="Lines of output at the end.")
@click.pass_context
def describe(ctx: click.Context, words: tuple[str, ...], tail: int) -> None:
    """State and reason, runs, events, spec and the end of the output of a job; limits and use of a tenant."""
    if len(words) > 1 and words[0] in {"tenant", "tenants"}:
        from windlass.cli.commands.tenants import describe_tenant

        client = client_of(ctx)
        for name in words[1:]:
            describe_tenant(client.tenant(name))
        return
    if len(words) > 1 and words[0] in {"pool", "pools"}:
        from windlass.cli.commands.pools import describe_pool

        client = client_of(ctx)
        for name in words[1:]:
            pool = client.pool(name)
            describe_pool(pool, client.pool_metrics(name) if pool["spec"]["kind"] == "dynamic" else {})
        return
    names = words[1:] if len(words) > 1 and words[0] in {"job", "jobs", "eaj"} else words
    client = client_of(ctx)
    for name in names:
        job = client.job(plain_name(name))
        page = job_page(
            job,
            client.happenings(job["metadata"]["uid"]),
            _tail(client, job["metadata"]["uid"], tail),
            now=time.time(),
            is_coloured=is_coloured(),
            width=width(),
        )
        say("\n".join(page))


def _tail(client: Client, uid: str, count: int) -> list[LogLine]:
    """A job that has no log yet is described all the same."""
    if not count:
        return []
    try:
        return list(client.logs(uid, tail=count))
    except WindlassError:
        return []
