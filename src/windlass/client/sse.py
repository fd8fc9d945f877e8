"""Server-sent events out of lines of bytes. Pure: the transport feeds it, `streams` resumes around it."""

from collections.abc import Iterable, Iterator

from msgspec import Struct


class Event(Struct, frozen=True, kw_only=True):
    name: str = "message"
    data: bytes = b""
    id: str = ""
    """Empty when the event carried none; such an event does not move the resume point."""


def parse(lines: Iterable[bytes]) -> Iterator[Event]:
    """Complete events only: one that was cut off by a broken connection is dropped and will come again after the resume."""
    name, event_id, data = "", "", list[bytes]()
    for raw in lines:
        line = raw.rstrip(b"\r\n")
        if not line:
            if data or name:
                yield Event(name=name or "message", data=b"\n".join(data), id=event_id)
            name, event_id, data = "", "", []
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode()
        elif field == b"id":
            event_id = value.decode()
