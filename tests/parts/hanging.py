"""A server that takes every connection and never says a word: a registry that hangs."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Hanging:
    """`asked` is set once somebody waits for an answer."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self.asked = threading.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed: it is over
            while True:
                one, _ = self._listener.accept()
                self._open.append(one)
                self.asked.set()
