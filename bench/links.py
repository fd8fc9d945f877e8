"""A limited link: a small proxy before a registry, through which so many bytes a second pass, however many connections."""

import asyncio
import threading
import time
from types import TracebackType
from typing import Self

_CHUNK = 16 << 10


class LimitedLink:
    """Listens on a port of its own; `bytes_per_second` may be changed while it runs, 0 is no limit."""

    def __init__(self, target_port: int, bytes_per_second: int = 0) -> None:
        self.bytes_per_second = bytes_per_second
        self.passed_bytes = 0
        self._target_port = target_port
        self._free_at = 0.0
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._started.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        await asyncio.gather(
            self._pass(reader, far_writer, is_limited=False), self._pass(far_reader, writer, is_limited=True)
        )

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_limited: bool) -> None:
        try:
            while chunk := await reader.read(_CHUNK):
                if is_limited:
                    self.passed_bytes += len(chunk)
                    await self._pay(len(chunk))
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def _pay(self, count: int) -> None:
        if not self.bytes_per_second:
            return
        self._free_at = max(time.monotonic(), self._free_at) + count / self.bytes_per_second
        await asyncio.sleep(self._free_at - time.monotonic())
