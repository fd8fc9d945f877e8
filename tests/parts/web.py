"""A small web server of the test's own: files of a directory, or a place that remembers what was posted to it."""

import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self


class _Served:
    def __init__(self, handler: Any) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's word
        return


class FileServer(_Served):
    def __init__(self, directory: Path) -> None:
        super().__init__(partial(_Quiet, directory=str(directory)))


class Listener(_Served):
    """Takes POSTs. `refuse_first` answers 500 that many times before it hears."""

    def __init__(self, *, refuse_first: int = 0) -> None:
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.refused = 0
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if listener.refused < refuse_first:
                    listener.refused += 1
                    self.send_response(500)
                else:
                    listener.heard.append((dict(self.headers), body))
                    self.send_response(204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                return

        super().__init__(Handler)
