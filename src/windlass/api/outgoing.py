"""Answers on their way out, in as few pieces as they can be.

One that is at hand whole, as a submit's is, takes one message and one write, where head and body are two of each. The server
offers that as an extension of ASGI, in a request's scope; whoever is not offered it, or has only half an answer yet, sends the two
messages as ever.
"""

import asyncio
from typing import Any, Final, cast

from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

WHOLE_ANSWER: Final = "windlass.answer"
"""The extension, and the type of its message: `status`, `headers` (a length among them) and `body`."""
OFFER: Final[dict[str, dict[object, object]]] = {WHOLE_ANSWER: {}}
_CLOSE: Final = b"connection: close\r\n"
_HELD_BYTES_MAX: Final = 64 * 1024


class Outgoing:
    """A transport that holds what is written until the end of the loop's turn: the head and the body of an answer leave as one
    packet, by one call, and whoever reads them wakes once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._held_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > _HELD_BYTES_MAX:
            self._flush()

    def write_whole(self, data: bytes) -> None:
        """What nothing is to be joined with; behind what is held, if anything is."""
        if self._held:
            self._held.append(data)
            self._flush()
        elif not self._transport.is_closing():
            self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        if held and not self._transport.is_closing():
            self._transport.write(b"".join(held))


class WholeCycle(RequestResponseCycle):
    """A request and its answer, as uvicorn keeps them."""

    async def send(self, message: Any) -> None:
        if message["type"] != WHOLE_ANSWER:
            return await super().send(message)
        if self.response_started:
            raise RuntimeError("an answer has begun already")
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if not self.disconnected:
            self._answer(message)
        return None

    def _answer(self, message: Message) -> None:
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        cast(Outgoing, self.transport).write_whole(head_of(message, is_last=not self.keep_alive) + message["body"])
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def head_of(message: Message, *, is_last: bool) -> bytes:
    headers: list[tuple[bytes, bytes]] = message["headers"]
    lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    # A line break in a value would begin a header of somebody else's making.
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
        raise RuntimeError("a header holds a line break")
    return b"%b%b%b\r\n" % (STATUS_LINE[message["status"]], lines, _CLOSE if is_last else b"")
