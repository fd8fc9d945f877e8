"""The floor: the least that a durable submit over HTTP can cost. Starlette, one JSON document, SQLite FULL with group commit.

`python -m bench.floor DATABASE PORT` serves `POST /` until it is ended.
"""

import asyncio
import queue
import sys
import threading

import apsw
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class Writer(threading.Thread):
    """One thread, one connection: whatever has gathered goes into one transaction."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(daemon=True)
        self._db = apsw.Connection(path)
        self._db.pragma("journal_mode", "wal")
        self._db.pragma("synchronous", "full")
        self._db.execute("CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, doc BLOB)")
        self._queue: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._loop = loop

    def put(self, doc: bytes) -> "asyncio.Future[None]":
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((doc, done))
        return done

    def run(self) -> None:
        while True:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            with self._db:
                self._db.executemany("INSERT INTO jobs (doc) VALUES (?)", [(doc,) for doc, _ in batch])
            self._loop.call_soon_threadsafe(_finish, [done for _, done in batch])


def _finish(waiting: "list[asyncio.Future[None]]") -> None:
    for done in waiting:
        done.set_result(None)


def make_app(path: str) -> Starlette:
    writers: list[Writer] = []

    async def submit(request: Request) -> Response:
        if not writers:
            writers.append(Writer(path, asyncio.get_running_loop()))
            writers[0].start()
        document = msgspec.json.decode(await request.body())
        await writers[0].put(msgspec.json.encode(document))
        return Response(msgspec.json.encode(document), 201, media_type="application/json")

    return Starlette(routes=[Route("/", submit, methods=["POST"])])


if __name__ == "__main__":
    uvicorn.run(make_app(sys.argv[1]), port=int(sys.argv[2]), log_level="error", access_log=False)
