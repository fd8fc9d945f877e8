"""Carries an interactive session: between the workload's pipes or pseudo-terminal and whoever is connected. Standard library only.

A run's terminal outlives its viewers: it goes to the log, a new viewer first sees its tail, one who cannot keep up is cut off.
An exec or debug session has one viewer and waits for it instead; it ends with it.
"""

import contextlib
import errno
import fcntl
import os
import socket
import struct
import termios
import time
from collections.abc import Callable

from windlass.adapters.runtime.process import frames
from windlass.adapters.runtime.process.loop import Loop

_CHUNK = 65_536
_BUFFER_MAX = 1 << 20
_FLUSH_SECONDS = 2.0
_END_OF_FILE = b"\x04"


class _Viewer:
    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.decoder = frames.Decoder()
        self.waiting = bytearray()


class Relay:
    def __init__(
        self,
        loop: Loop,
        *,
        sources: dict[int, int],
        sink: int,
        log: int = -1,
        is_terminal: bool,
        on_alone: Callable[[], None] | None = None,
    ) -> None:
        """`sources` are descriptors by frame kind. With `on_alone` (the last viewer has gone), a slow one is waited for."""
        self._loop = loop
        self._sources = {fd: kind for kind, fd in sources.items()}
        self._sink = sink
        self._log = log
        self._is_terminal = is_terminal
        self._on_alone = on_alone
        self._viewers: list[_Viewer] = []
        self._input = bytearray()
        self._is_input_closing = False
        for fd in {*self._sources, sink}:
            os.set_blocking(fd, False)
        self._watch_sources()

    def join(self, peer: socket.socket, seen: bytes = b"") -> None:
        """A viewer; `seen` is shown to it first."""
        peer.setblocking(False)
        viewer = _Viewer(peer)
        self._viewers.append(viewer)
        self._loop.watch(peer.fileno(), lambda: self._hear(viewer))
        if seen:
            self._tell(viewer, frames.encode(frames.STDOUT, seen))

    def hear(self, data: bytes) -> None:
        """Bytes of the first viewer that were read before it joined."""
        if data and self._viewers:
            self._obey(self._viewers[0], data)

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
        deadline = time.monotonic() + _FLUSH_SECONDS
        self._loop.later(_FLUSH_SECONDS, lambda: None)
        while any(viewer.waiting for viewer in self._viewers) and time.monotonic() < deadline:
            self._loop.turn()

    # --- from the workload

    def _watch_sources(self) -> None:
        is_full = self._on_alone is not None and any(len(viewer.waiting) > _BUFFER_MAX for viewer in self._viewers)
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
        if self._log >= 0:
            with contextlib.suppress(OSError):  # a full disk must not stop the terminal
                os.write(self._log, data)
        for viewer in tuple(self._viewers):
            self._tell(viewer, frames.encode(self._sources[fd], data))
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
        is_full = len(self._input) > _BUFFER_MAX
        for viewer in self._viewers:
            self._watch_viewer(viewer, is_paused=is_full)

    def _watch_viewer(self, viewer: _Viewer, *, is_paused: bool = False) -> None:
        self._loop.watch(
            viewer.peer.fileno(),
            None if is_paused else (lambda: self._hear(viewer)),
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
            elif kind == frames.CLOSE_INPUT:
                self._is_input_closing = not self._is_terminal
                self._input += _END_OF_FILE if self._is_terminal else b""
            elif kind == frames.RESIZE and self._is_terminal and len(body) == frames.SIZE.size:
                rows, columns = frames.SIZE.unpack(body)
                with contextlib.suppress(OSError):
                    fcntl.ioctl(self._sink, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if self._sink >= 0:
            self._feed()

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
