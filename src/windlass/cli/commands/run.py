"""`windlass run`: a command on a node as if it were here: its output, its exit code, Ctrl-C."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import click

from windlass.cli.command import CommandWithWords, client_of, refuse_words, words_after_dashes
from windlass.cli.follow import follow_to_end, unserved
from windlass.cli.output import is_terminal, note, say
from windlass.cli.parameters import Duration, GivenPath, Money, Pair, SecretPair, not_empty, read_env_file
from windlass.cli.render.values import is_over, name_of
from windlass.cli.submission import ARTIFACTS, manifest, submit
from windlass.client.client import Client
from windlass.client.documents import Document, Manifest

Pairs = tuple[tuple[str, Any], ...]


@click.command(cls=CommandWithWords, options_metavar="[OPTIONS]")
@click.argument("words", metavar="[IMAGE] [-- COMMAND...]", nargs=-1)
@click.option("--name", callback=not_empty, help="A name of your choice; else the server makes one up.")
@click.option("--cpu", metavar="CORES", help="Cores, such as 2, 0.5 or 500m.  [default: 1]")
@click.option("--memory", metavar="SIZE", help="Memory, such as 512Mi or 4Gi.  [default: 512Mi]")
@click.option("--gpu", type=click.IntRange(0), metavar="N", help="Accelerators.  [default: 0]")
@click.option("-e", "--env", type=Pair(from_environment=True), multiple=True, help="A variable; KEY alone takes yours.")
@click.option("--env-file", type=click.Path(path_type=Path), multiple=True, help="A file of KEY=VALUE lines.")
@click.option("--secret", type=SecretPair(), multiple=True, help="A variable that is a secret's value.")
@click.option("--secret-file", type=SecretPair(), multiple=True, help="A file in $WINDLASS_SECRETS that is one.")
@click.option("-w", "--workdir", metavar="DIR", help="Where the command starts.")
@click.option("--project-dir", type=GivenPath(), metavar="DIR", help="Upload DIR to /artifacts first.")
@click.option("--timeout", type=Duration(), metavar="TIME", help="End it after this long, such as 90s or 2h.")
@click.option("--expected", type=Duration(), metavar="TIME", help="How long it will take, as far as you know.")
@click.option("--sla", type=click.Choice(["5m", "15m", "1h", "4h", "24h"]), help="Start it within this time.")
@click.option(
    "--max-cost", type=Money(is_some=True), metavar="AMOUNT", help="Stop it when it has cost this much, such as 0.50."
)
@click.option("--retries", type=click.IntRange(0, 100), metavar="N", help="Further attempts after a failure.")
@click.option("--priority", type=click.IntRange(-100, 100), metavar="N", help="Order among your own jobs.")
@click.option("--ttl", type=Duration(), metavar="TIME", help="Keep the ended container this long.")
@click.option("--volume-ttl", type=Duration(), metavar="TIME", help="Keep the artifacts this long.  [default: 1h]")
@click.option("-l", "--label", type=Pair(), multiple=True, help="A label to find it by.")
@click.option("--pool", metavar="NAME", help="Only on nodes of this pool.")
@click.option("--node-selector", type=Pair(), multiple=True, help="Only on nodes with this label; may be repeated.")
@click.option("--webhook", metavar="URL", callback=not_empty, help="Tell this address when the job is over.")
@click.option("-d", "--detach", is_flag=True, help="Print the name and return at once.")
@click.option("-i", "--interactive", is_flag=True, help="Give it your standard input.")
@click.option("-t", "--tty", is_flag=True, help="Give it a terminal; -it for a shell.")
@click.option("--rm", "remove", is_flag=True, help="Delete the job and its artifacts when it is over.")
@click.option("-q", "--quiet", is_flag=True, help="Only the job's own output.")
@click.pass_context
def run(ctx: click.Context, /, words: tuple[str, ...], detach: bool, quiet: bool, remove: bool, **options: Any) -> None:
    """Run COMMAND in IMAGE, stream its output and return its exit code.

    \b
      windlass run alpine -- echo hello
      windlass run --project-dir . --cpu 2 --memory 4Gi python:3.12 -- python train.py
      windlass run -it debian -- bash
      cat data | windlass run -i alpine -- sort > sorted
      windlass run -- make test           (no image: where the server runs plain processes)

    Ctrl-C asks whether to cancel the job, leave it running, or keep watching.
    """
    is_interactive = options["interactive"] or options["tty"]
    if is_interactive and detach:
        raise click.UsageError("-i, -t and --detach exclude each other", ctx)
    if options["interactive"] and not options["tty"] and options["retries"]:
        raise click.UsageError("-i and --retries exclude each other: input can be given only once", ctx)
    if remove and detach:
        raise click.UsageError(
            "--rm and --detach exclude each other: nobody waits for the end; --volume-ttl 0s lets its artifacts go then",
            ctx,
        )
    image, command = _split(ctx, words)
    client = client_of(ctx)
    document = _manifest(image, command, **options)
    job = submit(client, document, options["project_dir"], is_quiet=quiet)
    if detach:
        say(name_of(job))
        return
    ctx.exit(_see_through(client, job, is_interactive=is_interactive, is_quiet=quiet, is_removed=remove))


def _see_through(client: Client, job: Manifest, *, is_interactive: bool, is_quiet: bool, is_removed: bool) -> int:
    if is_terminal(err=True) and not is_quiet:
        note(f"{name_of(job)} accepted")
    with _termination_told(name_of(job)) if is_removed else nullcontext():
        if is_interactive:
            from windlass.cli.terminal import attach_when_running

            code = attach_when_running(client, job, is_quiet=is_quiet, is_removed=is_removed)
        else:
            code = follow_to_end(client, job, is_quiet=is_quiet, is_removed=is_removed)
        sys.stdout.flush()
        if is_removed:
            _remove(client, job)
    return code


def _remove(client: Client, job: Manifest) -> None:
    """Unless it was left running: who wants it to go on does not want it deleted."""
    uid = job["metadata"]["uid"]
    if is_over(client.job(uid)):
        client.delete(uid, volume=True)
    else:
        note(unserved(name_of(job)))


@contextmanager
def _termination_told(name: str) -> Iterator[None]:
    """SIGTERM ends us as ever, but not without a word: nobody removes the job then."""

    def tell(number: int, frame: FrameType | None) -> None:
        os.write(2, f"{unserved(name)}\n".encode())
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    previous = signal.signal(signal.SIGTERM, tell)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _split(ctx: click.Context, words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """`IMAGE -- CMD`, `-- CMD`, `IMAGE`."""
    after = words_after_dashes(ctx)
    if after is None:
        refuse_words(ctx, words[:1], words[1:])
    if len(words) > 1:
        raise click.UsageError(f"only the image stands before `--`, and {words[1]!r} follows it", ctx)
    if not words and not after:
        raise click.UsageError("give an image, or a command after `--`", ctx)
    return (words[0] if words else None), after or ()


def _manifest(image: str | None, command: tuple[str, ...], *, project_dir: Path | None, **given: Any) -> Document:
    spec = {
        "image": image,
        "command": list(command) or None,
        "env": _env(**given) or None,
        "secretFiles": dict(given["secret_file"]) or None,
        "workdir": given["workdir"] or (ARTIFACTS if project_dir else None),
        "timeoutSeconds": given["timeout"],
        "expectedSeconds": given["expected"],
        "sla": given["sla"],
        "maxCost": given["max_cost"],
        "retries": given["retries"],
        "priority": given["priority"],
        "ttlSecondsAfterFinished": given["ttl"],
        "pvcTTLSecondsAfterFinished": given["volume_ttl"],
        "pool": given["pool"],
        "nodeSelector": dict(given["node_selector"]) or None,
        "webhook": {"url": given["webhook"]} if given["webhook"] else None,
        "terminal": given["tty"] or None,
        "stdin": (given["interactive"] and not given["tty"]) or None,
    }
    needs = {"cpu": given["cpu"], "memory": given["memory"], "gpu": given["gpu"]}
    return manifest("Job", name=given["name"], labels=given["label"], spec=spec, needs=needs)


def _env(*, env_file: tuple[Path, ...], env: Pairs, secret: Pairs, **_: Any) -> Document:
    """A file gives what `-e` may override. A secret overrides nothing: which of two values a job got must never be a guess."""
    plain: Document = {}
    for path in env_file:
        plain |= read_env_file(path)
    plain |= dict(env)
    both = sorted(plain.keys() & dict(secret).keys())
    if both:
        raise click.UsageError(
            f"{', '.join(both)} is given both as a plain value and with --secret; give one of the two"
        )
    return plain | dict(secret)
