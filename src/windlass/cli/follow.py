"""A job from its acceptance to its end, on this terminal: its output, why it waits, Ctrl-C, and its exit code at last."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

from windlass.cli import exits
from windlass.cli.announce import Announcer
from windlass.cli.interrupts import Detached, Interrupts
from windlass.cli.output import LogWriter, can_redraw, is_coloured, note
from windlass.cli.plain import clean, clean_lines
from windlass.cli.render.table import pill
from windlass.cli.render.values import STATE_COLOUR, detail, is_over, name_of, ran, state_of
from windlass.cli.unseen import unseen_told
from windlass.client.client import BEGINNING, Client
from windlass.client.documents import Manifest
from windlass.core.errors import NotFound, WindlassError
from windlass.core.model.run import TAKEN_DOWN

LOGLESS = frozenset({"log-absent", "log-unreadable"})
"""Codes that speak of the log alone: how the job ended is known all the same."""


def follow_to_end(client: Client, job: Manifest, *, is_quiet: bool = False, is_removed: bool = False) -> int:
    """Prints everything the job prints; the exit code is the job's. `is_removed`: for `tell_left`."""
    name, uid = name_of(job), job["metadata"]["uid"]
    is_shown = can_redraw(err=True) and not is_quiet
    with Announcer(client, uid, is_shown=is_shown) as announcer:
        interrupts = Interrupts(name, lambda: client.another().cancel(uid), asking=announcer.still)
        try:
            with interrupts.handled(), unseen_told(client, uid, still=announcer.still):
                ended = _print_until_over(client, job, announcer, interrupts)
        except BrokenPipeError:
            announcer.hush()
            tell_left(client, uid, name, is_removed=is_removed)
            raise
        except Detached:
            announcer.hush()
            note(f"detached; `{client.command(f'logs -f {name}')}` comes back to it")
            return exits.OK
    return tell_end(ended, is_quiet=is_quiet, is_shown=is_shown)


def tell_end(job: Manifest, *, is_quiet: bool, is_shown: bool = False) -> int:
    """A bad end is said, a good one to people; the exit code is the job's."""
    state, code = job["status"].get("state", ""), job["status"].get("exitCode")
    if not is_quiet and (is_shown or exits.of_job(state, 1) != exits.OK):
        note(summary(job, time.time()))
    return exits.of_job(state, code)


def until(client: Client, uid: str, states: frozenset[str] = frozenset()) -> Manifest:
    """The job, when it is over, or in one of these states."""
    job = client.job(uid)
    if is_over(job) or job["status"].get("state") in states:
        return job
    for _ in client.follow_happenings(uid):
        job = client.job(uid)
        if is_over(job) or job["status"].get("state") in states:
            break
    return job


def tell_left(client: Client, uid: str, name: str, *, is_removed: bool = False) -> None:
    """Whoever read our output has gone, as `head` does. The job has not; nor will it go, where it was to be removed."""
    client = client.another()
    with suppress(WindlassError):
        if is_over(client.job(uid)):
            if is_removed:
                client.delete(uid, volume=True)
        elif is_removed:
            note(unserved(name))
        else:
            note(f"left {name} running: its output is read no more; `{client.command(f'cancel {name}')}` ends it")


def unserved(name: str) -> str:
    """Of one that was to be removed at its end, for which nobody waits any more."""
    return f"left {name} running, and --rm will not be served; `windlass delete --volume {name}` ends and removes it"


def summary(job: Manifest, now: float) -> str:
    """`hello FAILED after 3.1s: exit code 3`"""
    state = state_of(job)
    shown = pill(state, STATE_COLOUR.get(state), is_coloured=is_coloured(err=True))
    took = f" after {ran(job, now)}" if job["status"].get("startedAt") else ""
    why = clean(detail(job))
    return f"{name_of(job)} {shown}{took}{': ' + why if why else ''}"


@contextmanager
def deletion_told() -> Iterator[None]:
    """For a job that was there a moment ago: not to find it any more is a fact about it, not about what was typed."""
    try:
        yield
    except NotFound as exc:
        if exc.code in {"no-such-attempt", *LOGLESS}:
            raise
        raise NotFound("the job was deleted by somebody else", code="deleted", hint="its output ends here") from exc


def _print_until_over(client: Client, job: Manifest, announcer: Announcer, interrupts: Interrupts) -> Manifest:
    """The server's stream goes on over retries and ends with the job."""
    uid, writer = job["metadata"]["uid"], LogWriter()
    with deletion_told():
        lines = client.logs(uid, follow=True, after=BEGINNING)
        try:
            for line in lines:
                announcer.hush()
                writer.write(line)
                if interrupts.is_impatient:
                    lines.close()
                    where = client.command(f"logs {name_of(job)}")
                    note(f"the rest of what it printed is left out here; `{where}` has it")
                    return until(client, uid)
        except WindlassError as exc:
            if exc.code not in LOGLESS:
                raise
            announcer.hush()
            note(clean_lines(exc.message))
            return until(client, uid)
        end = lines.end or {}
        if end.get("reason") == TAKEN_DOWN:  # with the server: there is nobody to ask for more
            job["status"] |= cast(Any, end)
            return job
        return client.job(uid)
