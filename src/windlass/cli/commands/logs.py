"""`windlass logs`: stdout to stdout, stderr to stderr."""

from contextlib import nullcontext

import click

from windlass.cli.command import Command, client_of
from windlass.cli.follow import deletion_told
from windlass.cli.names import job_argument
from windlass.cli.output import LogWriter
from windlass.cli.unseen import unseen_told


@click.command(cls=Command)
@job_argument()
@click.option("-f", "--follow", is_flag=True, help="Go on until the job is over.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Of this attempt; the newest unless given.")
@click.option("--stream", type=click.Choice(["stdout", "stderr"]), help="Only this stream.")
@click.option("--timestamps", is_flag=True, help="Begin each line with the time it was written.")
@click.pass_context
def logs(
    ctx: click.Context,
    job: str,
    follow: bool,
    tail: int | None,
    attempt: int | None,
    stream: str | None,
    timestamps: bool,
) -> None:
    """What JOB printed, also after it is over."""
    writer = LogWriter(has_timestamps=timestamps, is_live=follow)
    client = client_of(ctx)
    client.check_log_options(stream=stream, has_times=timestamps)
    uid = client.job(job)["metadata"]["uid"] if follow else job  # a name may be given anew while we follow
    try:
        with deletion_told() if follow else nullcontext(), unseen_told(client, uid) if follow else nullcontext():
            for line in client.logs(uid, follow=follow, tail=tail, attempt=attempt, stream=stream):
                writer.write(line)
            if follow:
                client.job(uid)
    finally:
        writer.flush()
