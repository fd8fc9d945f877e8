"""Answers that never arrive: a proxy drops them after the server has committed; the client repeats; one job each comes of it."""

import http.client
import json
import random
import socket
import socketserver
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Self
from urllib.parse import urlsplit

from tests.chaos.clients import post
from tests.e2e.server import WindlassServer
from tests.parts.waiting import wait_for

JOBS = 1000
KILLS = 3
BUSY = (429, 503)
DEADLINE_SECONDS = 120
CLIENTS = 16


class LossyProxy(socketserver.ThreadingTCPServer):
    """Passes one request on; drops the answer as often as it is told."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, beyond: WindlassServer, *, lost: float, seed: int) -> None:
        self.beyond = beyond
        self.lost = lost
        self.chance = random.Random(seed)
        self.dropped = 0
        self.unanswered = 0
        super().__init__(("127.0.0.1", 0), _Passing)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """The server is down, or died within an answer: one more that never arrives."""
        self.unanswered += 1


class _Passing(socketserver.BaseRequestHandler):
    server: LossyProxy

    def handle(self) -> None:
        target = urlsplit(self.server.beyond.url)  # another one after each death
        address = (target.hostname or "", target.port or 80)
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


def test_a_thousand_lost_answers_make_no_second_job_also_over_a_server_that_dies() -> None:
    with WindlassServer() as server, LossyProxy(server, lost=0.5, seed=3) as proxy:
        with ThreadPoolExecutor(CLIENTS) as pool:
            asked = [pool.submit(submit_through, server, proxy, f"key-{n}") for n in range(JOBS)]
            for number in range(1, KILLS + 1):
                wanted = number * JOBS // (KILLS + 1)
                wait_for(lambda wanted=wanted: proxy.dropped >= wanted, DEADLINE_SECONDS, "answers to be lost")
                server.kill()
                server.start()
            uids = [one.result() for one in asked]
        assert len(set(uids)) == JOBS
        assert proxy.dropped > JOBS / 3
        assert proxy.unanswered > 0, "no request met a server that was dying or dead"
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
            if status not in BUSY:
                break
        except (OSError, http.client.HTTPException):
            time.sleep(0.01)  # lost, or the server is down; the fact awaited is its next answer
        finally:
            connection.close()
    assert status == 201, answer
    assert directly(server, body, key) == (201, answer)
    return str(json.loads(answer)["metadata"]["uid"])


def directly(server: WindlassServer, body: bytes, key: str) -> tuple[int, bytes]:
    while True:
        try:
            status, answer = post(server, "/api/v1/jobs", body, {"Idempotency-Key": key})
            if status not in BUSY:
                return status, answer
        except (OSError, http.client.HTTPException, ValueError):  # its address may be half written
            time.sleep(0.05)  # the server is down; the fact awaited is its next answer
