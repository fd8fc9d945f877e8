"""`windlass cp`, `download`, `copy-file`: bytes into and out of a job's volume."""

import re
import sys
from pathlib import Path

import click
from msgspec import Struct

from windlass.cli.command import Command, client_of
from windlass.cli.names import JobName, job_argument, plain_name
from windlass.cli.output import can_redraw, note, say
from windlass.cli.progress import transfer
from windlass.cli.render.values import bytes_of, name_of
from windlass.client.client import Client
from windlass.client.unpack import Unpacked

ARTIFACTS = "/artifacts"
INPUT = f"{ARTIFACTS}/input.jpg"
CHUNK = 1 << 18
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Remote(Struct, frozen=True):
    """The path is relative to /artifacts."""

    job: str
    path: str


@click.command(cls=Command)
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.pass_context
def cp(ctx: click.Context, source: str, target: str) -> None:
    """Copy files to or from a job; one side is JOB:/PATH, and DST may be - for stdout.

    \b
      windlass cp train:/artifacts/model.bin .
      windlass cp ./data train:/data         (only before the job starts: create it with suspend: true)
    """
    client, here, there = client_of(ctx), remote(source), remote(target)
    if (here is None) == (there is None):
        raise click.UsageError("one of SRC and DST is JOB:/PATH, the other a file or directory here", ctx)
    if there is not None:
        _upload(client, Path(source), there)
    elif here is not None:
        _fetch(client, here, target)


@click.command(cls=Command)
@job_argument()
@click.argument("path", required=False, default="")
@click.option("-d", "--dir", "directory", type=click.Path(path_type=Path), metavar="DIR", help="Where to put it.")
@click.pass_context
def download(ctx: click.Context, job: str, path: str, directory: Path | None) -> None:
    """Fetch the artifacts of JOB: all of them into ./artifacts-JOB, or one PATH into the current directory."""
    client = client_of(ctx)
    target = directory or (Path() if path else Path(f"artifacts-{_name(client, job)}"))
    done = fetch(client, Remote(job, path), target)
    say(f"{_files(done)} → {_shown(target, done)}")


@click.command("copy-file", cls=Command)
@click.argument("job", type=JobName(), metavar="JOB")
@click.argument("url")
@click.option("--target-path", default=INPUT, show_default=True, help="A relative one lies under /artifacts/.")
@click.pass_context
def copy_file(ctx: click.Context, job: str, url: str, target_path: str) -> None:
    """Let the server fetch URL into the volume of JOB, also before that job exists."""
    copied = client_of(ctx).copy_file(job, url, target_path)
    say(f"{copied['path']} in {copied['volume']}: {bytes_of(copied['size'])}, {copied['digest']}")


def remote(text: str) -> Remote | None:
    """A colon before the first slash, but that of `job/NAME`, makes it a job's; `./a:b` names a file here. `a:/x` is
    `a:/artifacts/x`."""
    job, colon, path = plain_name(text).partition(":")
    if not colon or not job or "/" in job:
        return None
    return Remote(job, path.removeprefix(ARTIFACTS).lstrip("/"))


def fetch(client: Client, source: Remote, directory: Path, *, top: str | None = None) -> Unpacked:
    from windlass.client.unpack import unpack

    with client.download(source.job, source.path) as stream:
        with transfer("fetching", stream.length, is_drawn=can_redraw(err=True)) as told:
            done = unpack(stream, directory, top=top, on_read=told)
    if done.skipped:
        note(f"left out, being links or special files: {', '.join(done.skipped[:5])}")
    return done


def _name(client: Client, job: str) -> str:
    """People know a job by its name, also where it was asked for by its uid."""
    return name_of(client.job(job)) if _UID.fullmatch(job) else job


def _upload(client: Client, source: Path, target: Remote) -> None:
    from windlass.client.pack import Project, SingleFile

    body: Project | SingleFile
    if source.is_dir():
        body, path = Project(source), target.path
    else:
        body = SingleFile(source)
        path = target.path + source.name if not target.path or target.path.endswith("/") else target.path
    with transfer("checking", body.length, is_drawn=can_redraw(err=True)) as told:
        digest = body.digest(told)
    with transfer("uploading", body.length, is_drawn=can_redraw(err=True)) as told:
        body.on_sent = told
        stored = client.upload(target.job, body, path=path, digest=digest)
    say(f"{bytes_of(stored['size'])} → {target.job}:{ARTIFACTS}/{path}")


def _fetch(client: Client, source: Remote, target: str) -> None:
    """As `cp -r` would: into a directory that exists, else under the new name."""
    if target == "-":
        _to_stdout(client, source)
        return
    place = Path(target)
    is_renamed = bool(source.path.rstrip("/")) and not place.is_dir()
    done = fetch(client, source, place.parent if is_renamed else place, top=place.name if is_renamed else None)
    say(f"{_files(done)} → {_shown(place.parent if is_renamed else place, done)}")


def _to_stdout(client: Client, source: Remote) -> None:
    with client.download(source.job, source.path, form="file") as stream:
        while chunk := stream.read(CHUNK):
            sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def _files(done: Unpacked) -> str:
    return f"{len(done.files)} {'file' if len(done.files) == 1 else 'files'}, {bytes_of(done.size)}"


def _shown(directory: Path, done: Unpacked) -> str:
    """The file itself when there is one, else the directory they are in."""
    return str(directory / done.files[0]) if len(done.files) == 1 else f"{directory}/"
