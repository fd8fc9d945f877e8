"""The read model's writer in a process of its own: taking commits in costs as much as deciding them, and an interpreter runs one
thread at a time.

It is forked before the server has threads, takes the tables' lock and holds the one connection that writes; the server reads
the same file beside it. It ends when the server's end of the socket closes, however the server ended.
"""

import contextlib
import gc
import os
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct as Layout
from typing import BinaryIO, Final, Never, cast

import apsw
from msgspec import Struct, msgpack

from windlass.adapters.readmodel.lock import take_lock
from windlass.adapters.readmodel.sqlite import SqliteReadTables
from windlass.core.errors import Unavailable, WindlassError
from windlass.core.model.calendar import Day
from windlass.core.model.ids import Millis
from windlass.core.model.views import JobView
from windlass.ports.store import Change

_LENGTH: Final = Layout(">I")
_ANSWER_SECONDS: Final = 60
"""For an answer; one that stands still is as good as lost."""
_END_SECONDS: Final = 10
"""For its end; what it was writing is whole or not there, and comes again from the store."""
_NICE: Final = 5
"""Where there is work for every core, what is accepted goes before what is listed of it."""


class Open(Struct, frozen=True, tag=True):
    path: str


class Apply(Struct, frozen=True, tag=True):
    changes: tuple[Change, ...]
    revision: int
    tells: bool


class Reset(Struct, frozen=True, tag=True):
    changes: tuple[Change, ...]
    revision: int


class ForgetAudit(Struct, frozen=True, tag=True):
    before: Millis


class ForgetScaling(Struct, frozen=True, tag=True):
    before: Millis


class DropCosts(Struct, frozen=True, tag=True):
    before: Day


Order = Open | Apply | Reset | ForgetAudit | ForgetScaling | DropCosts


class Answer(Struct, frozen=True, kw_only=True):
    views: tuple[JobView, ...] = ()
    failure: str = ""
    code: str = ""
    hint: str | None = None


_order = msgpack.Decoder(Order)
_answer = msgpack.Decoder(Answer)


class ScribeLost(Exception):
    """It does not answer any more. Whether it carried out the last order is for the tables to say."""


class Scribe:
    """The server's end. One caller at a time, in a thread: an order waits for its answer."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self._channel = channel
        self._is_closed = False
        channel.settimeout(_ANSWER_SECONDS)
        self._answers = channel.makefile("rb")

    def call(self, order: Order) -> tuple[JobView, ...]:
        try:
            _send(self._channel, msgpack.encode(order))
            said = _receive(self._answers)
        except OSError as error:
            raise ScribeLost(str(error)) from error
        if said is None:
            raise ScribeLost("it ended")
        answer = _answer.decode(said)
        if answer.failure:
            raise Unavailable(answer.failure, code=answer.code, hint=answer.hint)
        return answer.views

    def close(self, *, patience_seconds: int = _END_SECONDS) -> None:
        """Until it is gone. Twice does nothing: its number may be another's by then."""
        if self._is_closed:
            return
        self._is_closed = True
        self._answers.close()
        self._channel.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            pidfd = os.pidfd_open(self.pid)
            try:
                if not _ends(pidfd, patience_seconds):
                    os.kill(self.pid, signal.SIGKILL)
            finally:
                os.close(pidfd)
            os.waitpid(self.pid, 0)


@contextmanager
def forked() -> Iterator[Scribe]:
    """Before there are threads: what they hold at this moment would never be let go in the fork."""
    ours, its = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _be_scribe(its)
    its.close()
    scribe = Scribe(pid, ours)
    try:
        yield scribe
    finally:
        scribe.close()


def _be_scribe(channel: socket.socket) -> Never:
    """Whatever happens, nothing of the server's own way out is walked here."""
    try:
        _stand_apart(channel)
        _obey(channel)
    except BaseException:
        os._exit(1)
    os._exit(0)


def _stand_apart(channel: socket.socket) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # meant for the server, whose end is ours
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for target in range(3):
        os.dup2(nothing, target)
    kept = channel.fileno()
    os.closerange(3, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text("windlass-scribe")
    os.nice(_NICE)
    gc.freeze()


def _obey(channel: socket.socket) -> None:
    orders = channel.makefile("rb")
    tables: SqliteReadTables | None = None
    while (said := _receive(orders)) is not None:
        order = _order.decode(said)
        try:
            if isinstance(order, Open):
                tables = _open(order)
                answer = Answer()
            else:
                answer = Answer(views=_carry_out(order, cast(SqliteReadTables, tables)))
        except WindlassError as error:
            answer = Answer(failure=error.message, code=error.code, hint=error.hint)
        except apsw.Error as error:
            answer = Answer(
                failure=f"the read model cannot be written: {error}",
                code="history-unwritable",
                hint="see that its disk has room and that its file is whole; nothing in the store is lost",
            )
        _send(channel, msgpack.encode(answer))


def _open(order: Open) -> SqliteReadTables:
    """The lock outlasts a killed server by as long as its scribe needs to see that: two never write."""
    take_lock(f"{order.path}-lock")
    return SqliteReadTables(order.path)


def _carry_out(order: Order, tables: SqliteReadTables) -> tuple[JobView, ...]:
    match order:
        case Apply(changes, revision, tells):
            return tables.apply(changes, revision, tells=tells)
        case Reset(changes, revision):
            tables.reset(changes, revision)
        case ForgetAudit(before):
            tables.forget_audit(before)
        case ForgetScaling(before):
            tables.forget_scaling(before)
        case DropCosts(before):
            tables.drop_costs(before)
    return ()


def _send(channel: socket.socket, data: bytes) -> None:
    channel.sendall(_LENGTH.pack(len(data)) + data)


def _receive(stream: BinaryIO) -> bytes | None:
    """None at the end, also at one in the middle of a message."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    length = _LENGTH.unpack(head)[0]
    data = stream.read(length)
    return data if len(data) == length else None


def _ends(pidfd: int, within_seconds: int) -> bool:
    import select

    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(within_seconds * 1000))
