"""Answers that never arrive: a proxy drops them after the server has committed; the client repeats; one job each comes of it."""

import http.client
import json
import random
import socket
import socketserver
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Self
from urllib.parse import urlsplit

from tests.chaos.clients import post
from tests.e2e.server import WindlassServer

JOBS = 1000
CLIENTS = 16


class LossyProxy(socketserver.ThreadingTCPServer):
    """Passes one request on; drops the answer as often as it is told."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, target: str, *, lost: float, seed: int) -> None:
        self.target = urlsplit(target)
        self.lost = lost
        self.chance = random.Random(seed)
        self.dropped = 0
        super().__init__(("127.0.0.1", 0), _Passing)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Passing(socketserver.BaseRequestHandler):
    server: LossyProxy

    def handle(self) -> None:
        address = (self.server.target.hostname or "", self.server.target.port or 80)
        with socket.create_connection(address, timeout=240) as beyond:
            beyond.sendall(whole_message(self.request))
            answer = whole_message(beyond)  # the server has committed: only now is the answer lost
        if self.server.chance.random() < self.server.lost:
            self.server.dropped += 1
        else:
            self.request.sendall(answer)


def whole_message(connection: socket.socket) -> bytes:
    """Head and body may arrive in any number of pieces; half a request passed on would only wait for the rest."""
    seen = b""
    while b"\r\n\r\n" not in seen:
        seen += some_of(connection)
    head, _, body = seen.partition(b"\r\n\r\n")
    while len(body) < length_of_body(head):
        body += some_of(connection)
    return head + b"\r\n\r\n" + body


def some_of(connection: socket.socket) -> bytes:
    piece = connection.recv(65536)
    if not piece:
        raise ConnectionError("the other side closed within a message")
    return piece


def length_of_body(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


def test_a_thousand_lost_answers_make_no_second_job() -> None:
    with WindlassServer() as server, LossyProxy(server.url, lost=0.5, seed=3) as proxy:
        with ThreadPoolExecutor(CLIENTS) as pool:
            uids = list(pool.map(lambda n: submit_through(server, proxy, f"key-{n}"), range(JOBS)))
        assert len(set(uids)) == JOBS
        assert proxy.dropped > JOBS / 3
        listed = [manifest["metadata"]["uid"] for manifest in server.client().jobs()]
        assert sorted(listed) == sorted(uids)


def submit_through(server: WindlassServer, proxy: LossyProxy, key: str) -> str:
    """Repeat until an answer comes; then once more, directly: it must be the same to the byte."""
    spec = {"command": ["true"], "suspend": True, "resources": {"cpu": "10m", "memory": "8Mi"}}
    body = json.dumps({"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {}, "spec": spec}).encode()
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json", "Idempotency-Key": key}
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", proxy.server_address[1], timeout=240)
        try:
            connection.request("POST", "/api/v1/jobs", body, {**headers, "Connection": "close"})
            response = connection.getresponse()
            status, answer = response.status, response.read()
            break
        except (OSError, http.client.HTTPException):
            continue
        finally:
            connection.close()
    assert status == 201, answer
    assert post(server, "/api/v1/jobs", body, {"Idempotency-Key": key}) == (201, answer)
    return str(json.loads(answer)["metadata"]["uid"])
