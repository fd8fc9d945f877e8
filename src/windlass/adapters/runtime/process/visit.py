"""An exec or debug session: a fork of the executor with one command for one viewer, ended with it. Standard library only."""

import os
import signal
import socket
from typing import NoReturn

from windlass.adapters.runtime.cgroups import Group
from windlass.adapters.runtime.process import frames, launch
from windlass.adapters.runtime.process.family import Family
from windlass.adapters.runtime.process.loop import Loop
from windlass.adapters.runtime.process.records import Record
from windlass.adapters.runtime.process.relay import Relay
from windlass.adapters.runtime.process.shim import SIGNALS


def keep(peer: socket.socket, early: bytes, order: Record, group: Group | None, *, files_soft: int) -> NoReturn:
    """The life of an exec or debug session, in the forked child: one viewer, ended with it."""

    def live() -> None:
        launch.shed((peer.fileno(),), name="windlass-exec", files_soft=files_soft)
        if group is None:
            launch.yield_priority()
        _Session(order, group).live(peer, early)

    launch.live_and_end(live)


class _Session:
    def __init__(self, order: Record, group: Group | None) -> None:
        self._order = order
        self._group = group
        self._loop = Loop()
        self._family = Family(self._loop)

    def live(self, peer: socket.socket, early: bytes) -> None:
        self._loop.watch_signals(SIGNALS, self._on_signals)
        try:
            relay = self._spawn()
        except launch.CannotStart as error:
            peer.setblocking(True)
            peer.sendall(frames.encode(frames.STDERR, f"{error}\n".encode()))
            peer.sendall(frames.encode(frames.EXITED, frames.CODE.pack(error.exit_code)))
            return
        relay.join(peer)
        relay.hear(early)
        self._family.outlive()
        relay.finish(self._family.exit_code)
        relay.flush()

    def _spawn(self) -> Relay:
        with launch.inside(self._group, None):
            if self._order.get("terminal"):
                self._family.pid, master = launch.spawn_on_terminal(self._order)
                sources, sink = {frames.STDOUT: master}, master
            else:
                given, sink = os.pipe2(os.O_CLOEXEC)
                out, stdout = os.pipe2(os.O_CLOEXEC)
                err, stderr = os.pipe2(os.O_CLOEXEC)
                self._family.pid = launch.spawn(self._order, (given, stdout, stderr))
                for fd in (given, stdout, stderr):
                    os.close(fd)
                sources = {frames.STDOUT: out, frames.STDERR: err}
        is_terminal = bool(self._order.get("terminal"))
        return Relay(self._loop, sources=sources, sink=sink, is_terminal=is_terminal, on_alone=self._family.kill)

    def _on_signals(self, numbers: bytes) -> None:
        if signal.SIGTERM in numbers:
            self._family.kill()
