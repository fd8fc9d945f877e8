"""Streams that outlive their connection: after a break we ask again from the last event seen, so nothing is lost or doubled."""

from binascii import a2b_base64
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from windlass.client import problems, sse
from windlass.client.transport import Query, Stream, Transport
from windlass.core.errors import Unavailable

if TYPE_CHECKING:
    from windlass.client.documents import LogLine

END, ERROR = "end", "error"
T = TypeVar("T")


class EventStream:
    """Iterate once. `last_id` is the resume point; `close` (from any thread) ends the iteration.

    It ends with an event `end`, or with the answer itself where that `is_over_at_eof`; any other end is a break.
    """

    def __init__(
        self, transport: Transport, path: str, query: Query, *, last_id: str = "", is_over_at_eof: bool = False
    ) -> None:
        self._transport = transport
        self._path = path
        self._query = dict(query)
        self._is_over_at_eof = is_over_at_eof
        self._open: Stream | None = None
        self._backoff = transport.new_backoff()
        self._is_closed = False
        self.last_id = last_id
        self.breaks = 0
        """How often the connection was made anew; shown to the curious, used by tests."""

    def __iter__(self) -> Iterator[sse.Event]:
        self._backoff = self._transport.new_backoff()
        while not self._is_closed:
            failure: Exception | None = None
            try:
                for event in self._connected():
                    self._backoff = self._transport.new_backoff()
                    yield event
                    if event.name == END:
                        return
                if self._is_over_at_eof:
                    return
            except (OSError, ValueError, _SentAway) as exc:
                # ValueError: the socket was closed under the reader by `close`.
                failure = exc
            if self._is_closed:
                return
            self.breaks += 1
            if not self._backoff.again():
                raise Unavailable("the stream breaks off again and again", code="stream-broken") from failure

    def close(self) -> None:
        self._is_closed = True
        if self._open is not None:
            with suppress(OSError):
                self._open.close()

    def _connected(self) -> Iterator[sse.Event]:
        query, headers = self._query, {"Accept": "text/event-stream"}
        if self.last_id:
            headers["Last-Event-ID"] = self.last_id
            query = {k: v for k, v in query.items() if k != "tail"}  # the tail was counted from the end of that day
        with self._transport.stream(self._path, query=query, headers=headers) as stream:
            self._open = stream
            self._backoff.connected()
            for event in sse.parse(stream.lines()):
                if event.name == ERROR:
                    raise _said(event)
                if _is_seen(event.id, self.last_id):
                    continue
                yield event
                self.last_id = event.id or self.last_id


class _SentAway(Exception):
    """The server ended the stream for a reason that passes; it said so."""


class Followed(Generic[T]):
    """The data of a stream's events, decoded. After the iteration `end` holds what the last event said, if it said so."""

    def __init__(self, events: EventStream) -> None:
        self.events = events
        self.end: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[T]:
        for event in self.events:
            if event.name == END:
                self.end = msgspec.json.decode(event.data, type=dict[str, Any])
            elif event.data:
                yield cast(T, msgspec.json.decode(event.data))

    def close(self) -> None:
        self.events.close()


def bytes_of_line(line: "LogLine") -> bytes:
    """What the job wrote, byte for byte, without the end of the line."""
    if (raw := line.get("base64")) is not None:
        return a2b_base64(raw)
    return line["text"].encode()


def _said(event: sse.Event) -> Exception:
    error = problems.to_error(msgspec.json.decode(event.data, type=problems.Problem))
    return _SentAway(error.message) if isinstance(error, Unavailable) else error


def _is_seen(event_id: str, last_id: str) -> bool:
    """Ids are offsets or revisions and only grow: a server that repeats some after a resume does no harm."""
    return event_id.isdigit() and last_id.isdigit() and int(event_id) <= int(last_id)
