"""The executor's socket: requests and answers as lines of JSON, ends of runs pushed to whoever subscribed. Standard library only.

{"id": 7, "op": "start", "owner": "…", "run": "…"}  →  {"id": 7, "ok": {…}}  or  {"id": 7, "no": "conflict", "why": "…"}
                                                       {"event": "over", "seen": {…}}
"""

import contextlib
import json
import os
import socket
import traceback
from collections.abc import Callable

from windlass.adapters.runtime.cgroups import Cgroups
from windlass.adapters.runtime.process import journal, records, sockets, visit
from windlass.adapters.runtime.process.keeper import CREATED, EXITED, RUNNING, Keeper, Run
from windlass.adapters.runtime.process.loop import Loop
from windlass.adapters.runtime.process.records import Record

PROTOCOL = 3
"""2: a start brings variables that are in no order. 3: an order may name a slice."""
_LINE_MAX = 4 << 20
_WAITING_MAX = 32 << 20
_CHUNK = 1 << 18
_LOOK_SECONDS = 5.0
_UNNEEDED_SECONDS_MAX = 60.0


class Refused(Exception):
    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Peer:
    """One connection: a server, or for a moment a second one that is taking over."""

    def __init__(self, loop: Loop, peer: socket.socket, on_line: Callable[["Peer", bytes], None]) -> None:
        self.owner = ""
        self.is_open = True
        self._loop = loop
        self._peer = peer
        self._on_line = on_line
        self._heard = bytearray()
        self._waiting = bytearray()
        peer.setblocking(False)
        loop.watch(peer.fileno(), self._hear)

    def tell(self, record: Record) -> None:
        if not self.is_open:
            return
        self._waiting += json.dumps(record).encode() + b"\n"
        if len(self._waiting) > _WAITING_MAX:  # it does not read: it will ask anew when it is back
            self.close()
        else:
            self._flush()

    def hand_over(self) -> tuple[socket.socket, bytes]:
        """The connection becomes somebody else's, with what was already read from it."""
        self._loop.forget(self._peer.fileno())
        self.is_open = False
        self._peer.setblocking(True)
        self._peer.sendall(self._waiting)
        return self._peer, bytes(self._heard)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._loop.forget(self._peer.fileno())
            self._peer.close()

    def _hear(self) -> None:
        try:
            data = self._peer.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(self._heard) + len(data) > _LINE_MAX:
            self.close()
            return
        self._heard += data
        while self.is_open and (end := self._heard.find(b"\n")) >= 0:
            line = bytes(self._heard[:end])
            del self._heard[: end + 1]
            self._on_line(self, line)

    def _flush(self) -> None:
        try:
            sent = self._peer.send(self._waiting)
            del self._waiting[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._loop.watch(self._peer.fileno(), self._hear, self._flush if self._waiting else None)


class Doors:
    def __init__(self, root: str, loop: Loop, listener: socket.socket, *, files_soft: int) -> None:
        key = "{0.st_dev:x}-{0.st_ino:x}".format(os.stat(root))
        self._cgroups, self._no_limits = Cgroups.find(key)
        self.is_quitting = False
        self._root = root
        self._loop = loop
        self._listener = listener
        self._files_soft = files_soft
        self._peers: set[Peer] = set()
        self._unneeded = 0
        self._keeper = Keeper(
            root, loop, self._cgroups, on_exit=lambda run: self._push(run.observed(), run.owner), files_soft=files_soft
        )
        self._operations: dict[str, Callable[[Peer, Record], None]] = {
            "hello": self._hello,
            "create": self._create,
            "start": self._start,
            "observe": self._observe,
            "list": self._list,
            "users": self._users,
            "stop": self._stop,
            "remove": self._remove,
            "execute": self._execute,
            "slices": self._slices,
            "end-slice": self._end_slice,
            "quit": self._quit,
        }

    def serve(self) -> None:
        self._keeper.load()
        self._loop.watch(self._listener.fileno(), self._accept)
        self._loop.later(_LOOK_SECONDS, self._look_around)
        while not self.is_quitting:
            self._loop.turn()
            self._keeper.start_due()

    def _look_around(self) -> None:
        """All we know is on disk, so nothing is lost by ending when nobody needs us: no run, and no server for a while."""
        self._loop.later(_LOOK_SECONDS, self._look_around)
        is_needed = not self._keeper.is_idle or any(peer.is_open for peer in self._peers)
        self._unneeded = 0 if is_needed else self._unneeded + 1
        if self._unneeded * _LOOK_SECONDS > _UNNEEDED_SECONDS_MAX:
            self._end()
        elif not os.path.exists(f"{self._root}/{sockets.EXECUTOR}"):
            if os.path.isdir(f"{self._root}/runs"):  # removed by mistake: nobody could reach us, nor take our place
                self._listen_anew()
            elif self._keeper.is_idle:  # the whole directory is gone
                self._end()

    def _listen_anew(self) -> None:
        self._loop.forget(self._listener.fileno())
        self._listener.close()
        self._listener = sockets.listen(self._root, sockets.EXECUTOR)
        self._loop.watch(self._listener.fileno(), self._accept)

    def _end(self) -> None:
        if self._cgroups and self._keeper.is_idle:
            self._cgroups.remove()
        self.is_quitting = True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # gone again, or no descriptor left: it will come back
            peer, _ = self._listener.accept()
            if sockets.is_own_user(peer):
                self._peers = {known for known in self._peers if known.is_open} | {Peer(self._loop, peer, self._obey)}
            else:
                peer.close()

    def _obey(self, peer: Peer, line: bytes) -> None:
        try:
            request = json.loads(line)
            operation = self._operations[request["op"]]
        except (ValueError, KeyError, TypeError):
            peer.close()
            return
        try:
            operation(peer, request)
        except Refused as refused:
            peer.tell({"id": request.get("id"), "no": refused.kind, "why": str(refused)})
        except OSError as error:
            peer.tell({"id": request.get("id"), "no": "unavailable", "why": str(error)})
        except Exception as error:  # a fault of ours: in the log, and not a way to bring us down
            traceback.print_exc()
            peer.tell({"id": request.get("id"), "no": "unavailable", "why": f"internal: {error!r}"})

    def _push(self, seen: Record, owner: str) -> None:
        for peer in self._peers:
            if peer.owner == owner:
                peer.tell({"event": "over", "seen": seen})

    # --- operations

    def _hello(self, peer: Peer, request: Record) -> None:
        """Who is calling; its runs' ends are pushed to it from now on."""
        peer.owner = records.text(request, "owner")
        _answer(peer, request, {"protocol": PROTOCOL, "pid": os.getpid(), "no_limits": self._no_limits})

    def _create(self, peer: Peer, request: Record) -> None:
        order = records.table(request, "order")
        name = records.text(order, "run")
        if not records.ID.fullmatch(name):
            raise Refused("invalid", f"{name!r} is not a run's id")
        known = self._keeper.runs.get(name)
        if known is not None and known.owner != records.text(order, "owner"):
            raise Refused("conflict", f"run {name} belongs to another installation")
        if known is None:
            self._keeper.create(order)
        _answer(peer, request, {})

    def _start(self, peer: Peer, request: Record) -> None:
        run = self._known(request)

        def told(run: Run) -> None:
            if problem := run.exit.get("problem"):
                peer.tell({"id": request.get("id"), "no": "unavailable", "why": problem})
            elif run.phase == EXITED and run.exit.get("error") and not run.exit.get("is_vanished"):
                peer.tell({"id": request.get("id"), "no": "start-failed", "why": run.exit["error"]})
            else:
                _answer(peer, request, run.observed())

        self._keeper.start(run, told, handed=records.table(request, "handed"))

    def _observe(self, peer: Peer, request: Record) -> None:
        run = self._find(request)
        _answer(peer, request, run.observed() if run else {"run": request.get("run"), "phase": "absent"})

    def _list(self, peer: Peer, request: Record) -> None:
        owner = records.text(request, "owner")
        _answer(peer, request, {"seen": [r.observed() for r in self._keeper.runs.values() if r.owner == owner]})

    def _users(self, peer: Peer, request: Record) -> None:
        """The runs that have a volume, also those that are over: they may be looked into."""
        volume = records.text(request, "volume")
        _answer(peer, request, {"runs": [r.run for r in self._keeper.runs.values() if r.volume == volume]})

    def _stop(self, peer: Peer, request: Record) -> None:
        run = self._find(request)
        if run is None or (run.phase == CREATED and not run.is_starting):
            _answer(peer, request, {})
            return
        self._keeper.stop(run, records.number(request, "grace_ms"), lambda run: _answer(peer, request, run.observed()))

    def _remove(self, peer: Peer, request: Record) -> None:
        run = self._find(request)
        if run is None:
            _answer(peer, request, {})
            return

        def told(run: Run) -> None:
            self._push({"run": run.run, "phase": "absent"}, run.owner)
            _answer(peer, request, {})

        self._keeper.remove(run, told)

    def _execute(self, peer: Peer, request: Record) -> None:
        """A command beside a run, or in a directory. From here on the connection is the session's."""
        order, run = records.table(request, "order"), None
        if records.text(request, "run"):
            run = self._known(request)
            if run.phase != RUNNING:
                raise Refused("conflict", f"run {run.run} is not running")
            its = (journal.read(records.run_path(self._root, run.run)) or {}).get("order", {})
            order |= {"directory": its.get("directory"), "environment": its.get("environment")}
        group = self._cgroups.group(run.run, slice_name=run.slice) if self._cgroups and run else None
        _answer(peer, request, {})
        connection, early = peer.hand_over()
        with connection:
            self._keeper.visit(run, lambda: visit.keep(connection, early, order, group, files_soft=self._files_soft))

    def _slices(self, peer: Peer, request: Record) -> None:
        _answer(peer, request, {"slices": list(self._cgroups.slices()) if self._cgroups else []})

    def _end_slice(self, peer: Peer, request: Record) -> None:
        """While something runs in it, it stays, and that is said."""
        name = records.text(request, "slice")
        if not records.ID.fullmatch(name):
            raise Refused("invalid", f"{name!r} is not a slice's name")
        if self._cgroups:
            self._cgroups.end_slice(name)
        _answer(peer, request, {})

    def _quit(self, peer: Peer, request: Record) -> None:
        """With `retire` a newer executor takes over: the shims do not notice."""
        if not request.get("retire") and not self._keeper.is_idle:
            raise Refused("conflict", "there are runs left")
        _answer(peer, request, {})
        self._end()

    def _known(self, request: Record) -> Run:
        run = self._find(request)
        if run is None:
            raise Refused("not-found", f"there is no run {records.text(request, 'run')}")
        return run

    def _find(self, request: Record) -> Run | None:
        """Another installation's run looks absent."""
        run = self._keeper.runs.get(records.text(request, "run"))
        return run if run is not None and run.owner == records.text(request, "owner") else None


def _answer(peer: Peer, request: Record, ok: Record) -> None:
    peer.tell({"id": request.get("id"), "ok": ok})
