"""Your terminal joined to one in a container: keys go there unread, bytes come back as they are, sizes follow the window.

Ctrl-P Ctrl-Q leaves without ending anything, as people know it from Docker. A job with input and no terminal is a part of a
pipe: its input ends with ours, and its two streams stay two.
"""

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from windlass.cli import exits
from windlass.cli.announce import Announcer
from windlass.cli.ending import Ending
from windlass.cli.follow import follow_to_end, tell_end, tell_left, until
from windlass.cli.interrupts import Detached, Interrupts
from windlass.cli.output import can_redraw, note
from windlass.cli.render.values import is_over, name_of
from windlass.client.client import Client
from windlass.client.documents import Manifest
from windlass.core.errors import Conflict, Unavailable, WindlassError

if TYPE_CHECKING:
    from windlass.client.terminal import Terminal

LEAVE = b"\x10\x11"
CHUNK = 1 << 16
NOT_RUNNING = "not-running"
"""The code with which a terminal is refused."""
SIDE_MAX = 1000
"""Rows and columns that a server takes."""
BROKEN_SECONDS = 10.0
"""Within which an end that took the connection along is heard of."""
STANDING = frozenset({"RUNNING"})
BY_ITSELF = frozenset({"Completed", "ExitCode", "Error", "", None})
"""Reasons of an end that nobody else brought about; `Error` is Kubernetes' word."""


def attach_when_running(client: Client, job: Manifest, *, is_quiet: bool = False, is_removed: bool = False) -> int:
    """Wait until there is something to attach to; a job that takes no input, or ended before, is shown as its log."""
    uid = job["metadata"]["uid"]
    if not _is_terminal(job) and not _takes_input(job):
        if not is_over(job):
            note(f"{name_of(job)} takes no input; what it prints follows")
        return follow_to_end(client, job, is_quiet=is_quiet, is_removed=is_removed)
    with Announcer(client, uid, is_shown=can_redraw(err=True)) as announcer:
        cancel = Interrupts(name_of(job), lambda: client.another().cancel(uid), asking=announcer.still)
        try:
            with cancel.handled():
                job = until(client, uid, STANDING)
        except Detached:
            announcer.hush()
            return _leave(job)
    if is_over(job):
        return follow_to_end(client, job, is_quiet=is_quiet, is_removed=is_removed)
    if _is_terminal(job):
        return _attach(client, job, is_quiet=is_quiet)
    return _pipe(client, job, is_quiet=is_quiet, is_removed=is_removed)


def _is_terminal(job: Manifest) -> bool:
    return bool(job["spec"].get("terminal"))


def _takes_input(job: Manifest) -> bool:
    return bool(job["spec"].get("stdin"))


def converse(terminal: "Terminal", *, is_raw: bool, has_input: bool = True) -> int | None:
    """Until the other side ends; its exit code, or None when the user left by Ctrl-P Ctrl-Q.

    Without input the other side sees an end of file at once, and nothing is taken from our own stdin.
    """
    has_left = threading.Event()
    stop_reading, wake = os.pipe()
    source = _stdin() if has_input else None
    keys = threading.Thread(target=_send_keys, args=(terminal, source, stop_reading, has_left), daemon=True)
    try:
        with _raw_mode(source) if is_raw else nullcontext(), _sizes_follow(terminal):
            if source is not None:
                keys.start()
            else:
                terminal.end_input()
            for piece in terminal.output():
                sink: Any = sys.stderr.buffer if piece.is_stderr else sys.stdout.buffer
                sink.write(piece.data)
                sink.flush()
    except Exception:
        if not has_left.is_set():
            raise
    finally:
        os.write(wake, b"x")
        if keys.ident is not None:
            keys.join(timeout=1)
        os.close(stop_reading)
        os.close(wake)
    if has_left.is_set():
        return None
    return exits.NO_EXIT_CODE if terminal.exit_code is None else terminal.exit_code


def _attach(client: Client, job: Manifest, *, is_quiet: bool) -> int:
    """A container that ended just before we came leaves a terminal that stays silent for ever; so it is given up at the end."""
    name, uid, terminal, ending = name_of(job), job["metadata"]["uid"], None, Ending(client, job)
    try:
        with client.attach(uid) as terminal, ending.listened_for(terminal.give_up):
            code = converse(terminal, is_raw=True)
            ended = ending.wait() if code is not None and not job["spec"].get("retries") else None
    except Conflict as exc:
        return _after_its_end(client, uid, exc, is_shown=terminal is not None and terminal.has_spoken)
    except Unavailable as exc:
        exc.hint = f"the job lives on; `windlass attach {name}` comes back to it"
        raise
    if terminal.is_given_up:
        return follow_to_end(client, client.job(uid))
    if code is None:
        return _leave(job)
    return code if ended is None else tell_end(ended, is_quiet=is_quiet or _is_by_itself(ended))


def _is_by_itself(job: Manifest) -> bool:
    """As a shell ends: its terminal has shown all there is to say."""
    return job["status"].get("state") in {"SUCCEEDED", "FAILED"} and job["status"].get("reason") in BY_ITSELF


def _pipe(client: Client, job: Manifest, *, is_quiet: bool, is_removed: bool) -> int:
    """Ctrl-C cancels without a question: the answer could not be told from the input."""
    name, uid, terminal, ending = name_of(job), job["metadata"]["uid"], None, Ending(client, job)
    interrupts = Interrupts(name, lambda: client.another().cancel(uid), can_ask=False)
    try:
        with client.attach(uid) as terminal, interrupts.handled(), ending.listened_for():
            try:
                code = converse(terminal, is_raw=False)
            except Unavailable:
                # A job that ends with much of its input still on the way may take the connection along before its last word.
                ended = ending.wait(BROKEN_SECONDS)
                if ended is None:
                    raise
                if terminal.has_spoken:
                    note(f"the connection broke off as {name} ended; its log has all that it printed")
                    return tell_end(ended, is_quiet=is_quiet)
                return follow_to_end(client, ended, is_quiet=is_quiet, is_removed=is_removed)
            ended = ending.wait() if code is not None and not job["spec"].get("retries") else None
    except BrokenPipeError:
        tell_left(client, uid, name, is_removed=is_removed)
        raise
    except Conflict as exc:
        return _after_its_end(client, uid, exc, is_shown=terminal is not None and terminal.has_spoken)
    except Unavailable as exc:
        exc.hint = f"the job's input has ended here; `windlass logs -f {name}` shows how it goes on"
        raise
    if code is None:
        return _leave(job)
    if job["spec"].get("retries"):
        return code
    return tell_end(ended or until(client, uid), is_quiet=is_quiet)


def _after_its_end(client: Client, uid: str, refusal: Conflict, *, is_shown: bool) -> int:
    """A quick job ends between our looking and our coming: then its log says what its terminal would have."""
    job = client.job(uid)
    if refusal.code != NOT_RUNNING and not is_over(job):
        raise refusal
    if not is_shown:
        return follow_to_end(client, job)
    return exits.of_job(job["status"].get("state", ""), job["status"].get("exitCode"))


def _leave(job: Manifest) -> int:
    note(f"left {name_of(job)} running; `windlass attach {name_of(job)}` comes back to it")
    return exits.OK


def _stdin() -> int | None:
    """None when there is none to read: closed, or not a real file."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, ValueError, OSError):
        return None


def _send_keys(terminal: "Terminal", source: int, stop: int, has_left: threading.Event) -> None:
    """A way that breaks is told with the output."""
    with suppress(WindlassError):
        _send_until_told(terminal, source, stop, has_left)


def _send_until_told(terminal: "Terminal", source: int, stop: int, has_left: threading.Event) -> None:
    is_typed, before = os.isatty(source), b""
    while True:
        ready, _, _ = select.select([source, stop], [], [])
        if stop in ready:
            return
        keys = os.read(source, CHUNK)
        if not keys:
            terminal.end_input()
            return
        if is_typed and LEAVE in before + keys:
            has_left.set()
            terminal.close()
            return
        before = keys[-1:]
        terminal.send(keys)


@contextmanager
def _raw_mode(source: int | None) -> Iterator[None]:
    if source is None or not os.isatty(source):
        yield
        return
    saved = termios.tcgetattr(source)
    tty.setraw(source)
    try:
        yield
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, saved)


@contextmanager
def _sizes_follow(terminal: "Terminal") -> Iterator[None]:
    if not sys.stdout.isatty():
        yield
        return

    def tell(*_: object) -> None:
        size = os.get_terminal_size(sys.stdout.fileno())
        if size.lines and size.columns:  # one that a program made may have none
            terminal.resize(min(size.lines, SIDE_MAX), min(size.columns, SIDE_MAX))

    previous = signal.signal(signal.SIGWINCH, tell)
    try:
        tell()
        yield
    finally:
        signal.signal(signal.SIGWINCH, previous)
