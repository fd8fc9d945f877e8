"""Clients that submit without pause while the server dies: what was acknowledged, by whom, with which answer."""

import http.client
import json
import threading
import time
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from tests.e2e.server import WindlassServer

_CONNECT_SECONDS = 120


class Submitters:
    """`count` threads, each submitting one job after the other, repeating each with its key until it is acknowledged.

    They submit as many as they are allowed, and wait for more: a fast server must not have taken all before its last death.
    """

    def __init__(self, server: WindlassServer, manifest: dict[str, Any], *, count: int) -> None:
        self._server = server
        self._manifest = manifest
        self._left = 0
        self._lock = threading.Condition()
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._submit_for_ever, daemon=True) for _ in range(count)]
        self.acknowledged: dict[str, bytes] = {}
        """Idempotency key → the first answer."""
        self.repeated = 0
        self.failures: list[str] = []

    def __enter__(self) -> "Submitters":
        for thread in self._threads:
            thread.start()
        return self

    def allow(self, jobs: int) -> None:
        with self._lock:
            self._left += jobs
            self._lock.notify_all()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.allow(0)
        for thread in self._threads:
            thread.join(60)

    @property
    def uids(self) -> set[str]:
        return {json.loads(answer)["metadata"]["uid"] for answer in list(self.acknowledged.values())}

    def _submit_for_ever(self) -> None:
        while not self._stopped.is_set() and self._take_one():
            key = str(uuid4())
            body = json.dumps(self._manifest).encode()
            answer = self._until_acknowledged(key, body)
            if answer is not None:
                with self._lock:
                    self.acknowledged[key] = answer

    def _take_one(self) -> bool:
        """False: it is over."""
        with self._lock:
            self._lock.wait_for(lambda: self._left > 0 or self._stopped.is_set())
            self._left -= 1
            return not self._stopped.is_set()

    def _until_acknowledged(self, key: str, body: bytes) -> bytes | None:
        """None only when the test is over: an unanswered request is neither accepted nor refused, so it is repeated."""
        tries = 0
        while True:
            try:
                status, answer = post(self._server, "/api/v1/jobs", body, {"Idempotency-Key": key})
            except (OSError, http.client.HTTPException, ValueError):
                status, answer = 0, b""
            if status == 201:
                self.repeated += tries > 0
                return answer
            if status not in (0, 429, 503):
                self.failures.append(f"{status} {answer!r}")
                return None
            if self._stopped.is_set():
                return None
            tries += 1
            time.sleep(0.05)  # the server is down or busy; the fact awaited is its next answer


def post(server: WindlassServer, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_CONNECT_SECONDS)
    try:
        authorised = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json", **headers}
        connection.request("POST", path, body, authorised)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
