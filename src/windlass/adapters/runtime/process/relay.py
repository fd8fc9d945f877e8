"""Carries an interactive session: between the workload's pipes or pseudo-terminal and whoever is connected. Standard library only.

A run's terminal outlives its viewers: it goes to the log, a new viewer first sees its tail, one who cannot keep up is cut off.
A run with input and no terminal waits for its viewers instead, as a pipe does, for the first one too; its input ends when the last
of them has ended it or gone.
An exec or debug session has one viewer and waits for it too; it ends with it.
"""

import contextlib
import errno
import fcntl
import os
import socket
import struct
import termios
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from windlass.adapters.runtime.process import frames
from windlass.adapters.runtime.process.loop import Loop

_CHUNK = 65_536
_BUFFER_MAX = 1 << 20
_FLUSH_SECONDS = 2.0
_PATIENCE_SECONDS = 600.0
"""For viewers that are waited for: what a pipe's reader takes in its own time is not cut off at the end."""
_FIRST_VIEWER_SECONDS = 60.0
"""How long output waits for the first of these: after that nobody may come any more."""
_END_OF_FILE = b"\x04"


class _Viewer:
    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.decoder = frames.Decoder()
        self.waiting = bytearray()
        self.has_ended_input = False


class Relay:
    def __init__(
        self,
        loop: Loop,
        *,
        sources: dict[int, int],
        sink: int,
        logs: Mapping[int, int] = MappingProxyType({}),
        is_terminal: bool,
        on_alone: Callable[[], None] | None = None,
    ) -> None:
        """`sources` are descriptors by frame kind, and so are `logs`, where their bytes are written too. With `on_alone` (the
        last viewer has gone), a slow one is waited for."""
        self._loop = loop
        self._sources = {fd: kind for kind, fd in sources.items()}
        self._sink = sink
        self._logs = logs
        self._is_terminal = is_terminal
        self._on_alone = on_alone
        self._viewers: list[_Viewer] = []
        self._input = bytearray()
        self._is_input_closing = False
        self._unheard: int | None = None if on_alone is None else 0
        """Bytes of output before the first viewer, as long as that is waited for."""
        for fd in {*self._sources, sink}:
            os.set_blocking(fd, False)
        self._watch_sources()

    def join(self, peer: socket.socket, seen: Mapping[int, bytes] = MappingProxyType({})) -> None:
        """A viewer; `seen`, by frame kind, is shown to it first."""
        peer.setblocking(False)
        viewer = _Viewer(peer)
        self._viewers.append(viewer)
        self._watch_viewer(viewer)
        self._go_on()
        for kind, data in seen.items():
            for start in range(0, len(data), _CHUNK):
                self._tell(viewer, frames.encode(kind, data[start : start + _CHUNK]))

    def hear(self, data: bytes) -> None:
        """Bytes of the first viewer that were read before it joined."""
        if data and self._viewers:
            self._obey(self._viewers[0], data)

    def end_input(self) -> None:
        """What was given of it until now is all."""
        self._is_input_closing = True
        if self._sink >= 0:
            self._feed()

    def drain(self) -> None:
        """The workload is over: pass on what it still had to say."""
        for fd in tuple(self._sources):
            while fd in self._sources and self._pass_on(fd):
                pass
            self._end_source(fd)

    def finish(self, exit_code: int) -> None:
        """And how it ended."""
        self.drain()
        for viewer in tuple(self._viewers):
            self._tell(viewer, frames.encode(frames.EXITED, frames.CODE.pack(exit_code)))

    def flush(self) -> None:
        """Wait for the viewers to have it all, for a while."""
        seconds = _FLUSH_SECONDS if self._on_alone is None else _PATIENCE_SECONDS
        deadline = time.monotonic() + seconds
        self._loop.later(seconds, lambda: None)
        while any(viewer.waiting for viewer in self._viewers) and time.monotonic() < deadline:
            self._loop.turn()

    # --- from the workload

    def _go_on(self) -> None:
        """Output no longer waits for the first viewer."""
        self._unheard = None
        self._watch_sources()

    def _count_unheard(self, size: int) -> None:
        if self._unheard is None:
            return
        was, self._unheard = self._unheard, self._unheard + size
        if was <= _BUFFER_MAX < self._unheard:
            self._loop.later(_FIRST_VIEWER_SECONDS, self._go_on)
            self._watch_sources()

    def _watch_sources(self) -> None:
        is_full = self._on_alone is not None and any(len(viewer.waiting) > _BUFFER_MAX for viewer in self._viewers)
        is_full = is_full or (self._unheard is not None and self._unheard > _BUFFER_MAX)
        for fd in self._sources:
            if is_full and fd != self._sink:
                self._loop.forget(fd)
            else:
                self._watch(fd, is_paused=is_full)

    def _watch(self, fd: int, *, is_paused: bool = False) -> None:
        reads = fd in self._sources and not is_paused
        writes = fd == self._sink and bool(self._input)
        if not reads and not writes:
            self._loop.forget(fd)
            return
        self._loop.watch(fd, (lambda: self._on_source(fd)) if reads else None, self._feed if writes else None)

    def _on_source(self, fd: int) -> None:
        self._pass_on(fd)

    def _pass_on(self, fd: int) -> bool:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: nobody holds the other side of the pseudo-terminal any more
                raise
            data = b""
        if not data:
            self._end_source(fd)
            return False
        kind = self._sources[fd]
        if kind in self._logs:
            with contextlib.suppress(OSError):  # a full disk must not stop the terminal
                os.write(self._logs[kind], data)
        self._count_unheard(len(data))
        for viewer in tuple(self._viewers):
            self._tell(viewer, frames.encode(kind, data))
        return True

    def _end_source(self, fd: int) -> None:
        if self._sources.pop(fd, None) is None:
            return
        self._loop.forget(fd)
        if fd != self._sink:
            os.close(fd)

    # --- to the workload

    def _feed(self) -> None:
        try:
            sent = os.write(self._sink, self._input)
            del self._input[:sent]
        except BlockingIOError:
            pass
        except OSError:  # it no longer listens
            self._input.clear()
        if not self._input and self._is_input_closing:
            self._close_sink()
        elif self._sink >= 0:
            self._watch(self._sink)
        self._watch_viewers()

    def _close_sink(self) -> None:
        if self._sink >= 0 and not self._is_terminal:
            self._loop.forget(self._sink)
            os.close(self._sink)
            self._sink = -1

    # --- viewers

    def _watch_viewers(self) -> None:
        for viewer in self._viewers:
            self._watch_viewer(viewer)

    def _watch_viewer(self, viewer: _Viewer) -> None:
        is_full = len(self._input) > _BUFFER_MAX
        self._loop.watch(
            viewer.peer.fileno(),
            None if is_full else (lambda: self._hear(viewer)),
            (lambda: self._flush(viewer)) if viewer.waiting else None,
        )

    def _hear(self, viewer: _Viewer) -> None:
        try:
            data = viewer.peer.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._obey(viewer, data)
        else:
            self._drop(viewer)

    def _obey(self, viewer: _Viewer, data: bytes) -> None:
        try:
            orders = viewer.decoder.feed(data)
        except frames.Corrupt:
            self._drop(viewer)
            return
        for kind, body in orders:
            if kind == frames.DATA and self._sink >= 0:
                self._input += body
            elif kind == frames.CLOSE_INPUT and self._is_terminal:
                self._input += _END_OF_FILE
            elif kind == frames.CLOSE_INPUT:
                viewer.has_ended_input = True
                self._is_input_closing = self._is_input_ended
            elif kind == frames.RESIZE and self._is_terminal and len(body) == frames.SIZE.size:
                rows, columns = frames.SIZE.unpack(body)
                with contextlib.suppress(OSError):
                    fcntl.ioctl(self._sink, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if self._sink >= 0:
            self._feed()

    @property
    def _is_input_ended(self) -> bool:
        """By all who could give any."""
        return all(viewer.has_ended_input for viewer in self._viewers)

    def _tell(self, viewer: _Viewer, data: bytes) -> None:
        viewer.waiting += data
        if len(viewer.waiting) > _BUFFER_MAX and self._on_alone is None:
            self._drop(viewer)
            return
        self._flush(viewer)

    def _flush(self, viewer: _Viewer) -> None:
        try:
            sent = viewer.peer.send(viewer.waiting)
            del viewer.waiting[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(viewer)
            return
        self._watch_viewer(viewer)
        self._watch_sources()

    def _drop(self, viewer: _Viewer) -> None:
        if viewer not in self._viewers:
            return
        self._viewers.remove(viewer)
        self._loop.forget(viewer.peer.fileno())
        viewer.peer.close()
        self._watch_sources()
        if not self._viewers and self._on_alone is not None:
            self._on_alone()
        elif self._on_alone is not None and self._is_input_ended:
            self.end_input()
