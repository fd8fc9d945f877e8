"""From an engine's log bytes to lines. Pure; `logs` does the reading, and `runtime.cursor` keeps what was read before.

Three facts shape it, all seen on real engines:
- Docker cuts a line at 16 KiB; all pieces carry the first one's time. Its `local` log driver forgets the newline after the
  last piece, so the newline is inferred there.
- The two streams are stamped before they queue for the log file, so times across streams run backwards now and then, and a
  stepped wall clock does the same within one. A line's `at` is therefore the highest time so far, in the log's own order:
  it never decreases, is the same at every reading, and a position in it is a position in the log.
- With a terminal there is one stream without frames, and a piece's time stands in the middle of the bytes.
"""

import re
from typing import Final, Protocol

from windlass.adapters.runtime.docker.frames import Frames
from windlass.adapters.runtime.stamps import normal_timestamp
from windlass.ports.runtime import LogLine, Stream

PIECE: Final = 16_384
STAMP: Final = 31
"""A time and the space after it."""
_PIECE_TIME: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ")


class Splitter(Protocol):
    def feed(self, data: bytes) -> list[LogLine]: ...

    def rest(self) -> list[LogLine]:
        """What the end of the log leaves: a last line without its newline."""
        ...


class FramedLines:
    """Without a terminal: a frame is a line or a piece of one."""

    def __init__(self, *, infers_newline: bool) -> None:
        self._frames = Frames()
        self._infers_newline = infers_newline
        self._open: dict[Stream, str] = {}
        """The time of the unfinished line of each stream."""

    def feed(self, data: bytes) -> list[LogLine]:
        return [self._line(stream, payload) for stream, payload in self._frames.feed(data)]

    def rest(self) -> list[LogLine]:
        return []

    def _line(self, stream: Stream, payload: bytes) -> LogLine:
        stamp, _, text = payload.partition(b" ")
        at = normal_timestamp(stamp.decode("ascii", "replace"))
        if text.endswith(b"\n"):
            self._open.pop(stream, None)
            return LogLine(at=at, stream=stream, text=text[:-1])
        if self._infers_newline and len(text) < PIECE and self._open.get(stream) == at:
            del self._open[stream]
            return LogLine(at=at, stream=stream, text=text)
        self._open[stream] = at
        return LogLine(at=at, stream=stream, text=text, is_partial=True)


class RawLines:
    """With a terminal (on Docker): everything is stdout, one line after the other, each after its time."""

    def __init__(self) -> None:
        self._pending = b""
        self._is_cut = False
        """The line at hand has lost a piece already."""

    def feed(self, data: bytes) -> list[LogLine]:
        *whole, self._pending = (self._pending + data).split(b"\n")
        lines = [line for raw in whole for line in self._line(raw, is_partial=False)]
        # A progress bar may go on for hours without a newline: what is surely a piece goes out.
        pieces, self._pending = self._pieces(self._pending)
        return lines + pieces

    def rest(self) -> list[LogLine]:
        raw, self._pending = self._pending, b""
        return self._line(raw, is_partial=True) if raw else []

    def _line(self, raw: bytes, *, is_partial: bool) -> list[LogLine]:
        lines, raw = self._pieces(raw)
        # The last piece of a cut line may lack its newline; then the next line's time ends it.
        if self._is_cut and (found := _PIECE_TIME.search(raw, STAMP)):
            lines.append(_stamped(raw[: found.start()], is_partial=False))
            self._is_cut = False
            return lines + self._line(raw[found.start() :], is_partial=is_partial)
        self._is_cut = False
        return [*lines, _stamped(raw, is_partial=is_partial)]

    def _pieces(self, raw: bytes) -> tuple[list[LogLine], bytes]:
        """Whole pieces: 16 KiB after which stands another time."""
        lines, at = [], 0
        while _PIECE_TIME.match(raw, at + STAMP + PIECE):
            lines.append(_stamped(raw[at : at + STAMP + PIECE], is_partial=True))
            at += STAMP + PIECE
            self._is_cut = True
        return lines, raw[at:]


def _stamped(raw: bytes, *, is_partial: bool) -> LogLine:
    stamp, _, text = raw.partition(b" ")
    at = normal_timestamp(stamp.decode("ascii", "replace"))
    return LogLine(at=at, stream=Stream.STDOUT, text=text, is_partial=is_partial)
