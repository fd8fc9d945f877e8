"""The load: keep-alive clients in a process of their own, speaking just enough HTTP/1.1 to be cheaper than what they measure.

`python -m bench.load URL PATH CLIENTS REQUESTS [PER_SECOND]` reads {"headers": …, "body": …} from stdin and prints what it
measured. With a rate, requests leave by the clock, and a late one counts from when it should have left.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from statistics import quantiles
from urllib.parse import urlsplit

import uvloop

MARK = "#########"
"""In a body: where the number of the request goes, so that no two are alike."""


class Load:
    def __init__(self, url: str, path: str, headers: dict[str, str], body: bytes, per_second: float = 0) -> None:
        self._gap = 1 / per_second if per_second else 0.0
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        lines = [f"POST {path} HTTP/1.1", f"Host: {self._host}:{self._port}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._pieces = ("\r\n".join(lines).encode() + b"\r\n\r\n" + body).split(MARK.encode())
        self.latencies: list[float] = []
        self.statuses: dict[int, int] = {}

    async def run(self, clients: int, requests: int) -> float:
        left = iter(range(requests))
        connections = [await asyncio.open_connection(self._host, self._port) for _ in range(clients)]
        self._started = started = time.perf_counter()
        await asyncio.gather(*(self._client(reader, writer, left) for reader, writer in connections))
        return time.perf_counter() - started

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: Iterator[int]) -> None:
        for number in left:
            began = await self._turn(number)
            writer.write((b"%0*d" % (len(MARK), number)).join(self._pieces))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            self.latencies.append(time.perf_counter() - began)
            status = int(head[9:12])
            self.statuses[status] = self.statuses.get(status, 0) + 1
        writer.close()

    async def _turn(self, number: int) -> float:
        """When this request leaves, or should have left."""
        if not self._gap:
            return time.perf_counter()
        due = self._started + number * self._gap
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        return due


def main() -> None:
    url, path, clients, requests = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    told = json.load(sys.stdin)
    per_second = float(sys.argv[5]) if len(sys.argv) > 5 else 0.0
    load = Load(url, path, told["headers"], told["body"].encode(), per_second)
    seconds = uvloop.run(load.run(clients, requests))
    cuts = quantiles(load.latencies, n=100)
    print(json.dumps({"per_second": requests / seconds, "p50": cuts[49], "p99": cuts[98], "statuses": load.statuses}))


if __name__ == "__main__":
    main()
