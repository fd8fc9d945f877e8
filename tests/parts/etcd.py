"""An etcd of one member on loopback: the store of a fleet."""

import base64
import http.client
import json
from pathlib import Path
from typing import Any

from tests.parts import present
from tests.parts.failures import PartFailed
from tests.parts.ports import free_port
from tests.parts.process import ServerProcess


class Etcd(ServerProcess):
    """`etcd.endpoint` is the client address. Writes reach the disk unless `fsync=False`, which is right for most tests."""

    name = "etcd"

    def __init__(self, directory: Path | None = None, *, fsync: bool = False, arguments: tuple[str, ...] = ()) -> None:
        super().__init__(directory)
        self.port = free_port()
        self._peer_port = free_port()
        self._fsync = fsync
        self._arguments = arguments

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        peer = f"http://127.0.0.1:{self._peer_port}"
        return [
            present.program("etcd"),
            "--name=test",
            f"--data-dir={self.directory / 'data'}",
            f"--listen-client-urls={self.endpoint}",
            f"--advertise-client-urls={self.endpoint}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=test={peer}",
            "--logger=zap",
            "--log-outputs=stderr",
            "--log-level=warn",
            # A member alone has nobody to wait for.
            "--heartbeat-interval=20",
            "--election-timeout=100",
            *([] if self._fsync else ["--unsafe-no-fsync"]),
            *self._arguments,
        ]

    def is_ready(self) -> bool:
        try:
            return bool(json.loads(self._http("GET", "/health")).get("health") == "true")
        except (OSError, ValueError, http.client.HTTPException, PartFailed):
            return False

    def put(self, key: str, value: str) -> int:
        """Write; gives the revision."""
        return int(self.call("kv/put", key=_packed(key), value=_packed(value))["header"]["revision"])

    def get(self, key: str) -> str | None:
        rows = self.call("kv/range", key=_packed(key)).get("kvs", [])
        return base64.b64decode(rows[0].get("value", "")).decode() if rows else None

    def keys(self, prefix: str = "") -> list[str]:
        """Every key under the prefix, in order."""
        end = _after(prefix.encode())
        first = prefix.encode() or b"\0"
        query = {
            "key": base64.b64encode(first).decode(),
            "range_end": base64.b64encode(end).decode(),
            "keys_only": True,
        }
        return [base64.b64decode(row["key"]).decode() for row in self.call("kv/range", **query).get("kvs", [])]

    def call(self, path: str, **body: Any) -> Any:
        """One request of etcd's JSON gateway, `kv/range` and the like."""
        return json.loads(self._http("POST", f"/v3/{path}", json.dumps(body).encode()))

    def _http(self, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body=body)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise PartFailed(f"etcd answered {response.status}: {content.decode(errors='replace')}")
        return content


def _packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _after(prefix: bytes) -> bytes:
    """The first key that does not begin with the prefix; a zero byte means there is none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else b"\0"
