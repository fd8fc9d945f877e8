"""Runs a job with a webhook, listens for it, and prints what it was told. Standard library only."""

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Listener(BaseHTTPRequestHandler):
    told: list[tuple[str, Any]] = []  # noqa: RUF012 - shared on purpose: one listener, one delivery

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.told.append((self.headers["Windlass-Event"], json.loads(body)))
        self.send_response(204)  # anything but a 2xx, and it is told again later
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet: only what was told is printed."""


def main(command: list[str]) -> int:
    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        server.timeout = 60
        hook = f"http://127.0.0.1:{server.server_port}/over"
        subprocess.run(
            ["windlass", "run", "--detach", "--webhook", hook, *command], check=True, stdout=subprocess.DEVNULL
        )
        server.handle_request()  # waits for the one delivery
    if not Listener.told:
        print("nothing was told; does the server run with WINDLASS_FETCH_NETWORKS=127.0.0.0/8 ?")
        return 1
    event, job = Listener.told[0]
    print(f"{event}: {job['status']['state']}, exit code {job['status']['exitCode']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
