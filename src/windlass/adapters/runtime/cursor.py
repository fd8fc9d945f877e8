"""Where a reader of a log stands: of any reading of it, what it does not hold yet. Pure; for engines that stamp their lines."""

from typing import Final

from windlass.ports.runtime import LogLine, LogPosition, Stream

RECENT: Final = 32


class Cursor:
    """Lets through what the reader does not hold, over any number of readings of the same log."""

    def __init__(self, after: LogPosition) -> None:
        self.last_at = after.last_at
        self._held = {Stream(name): count for name, count in after.lines_at_last.items()}
        self.begin()

    def begin(self) -> None:
        """A new reading, from before `last_at`."""
        self._high = ""
        self._seen: dict[Stream, int] = {}
        self._recent: list[LogLine] = []

    def fresh(self, lines: list[LogLine]) -> list[LogLine]:
        self._recent = (self._recent + lines[-RECENT:])[-RECENT:]
        return [fresh for line in lines if (fresh := self.take(line)) is not None]

    def follows(self, tail: list[LogLine]) -> list[LogLine] | None:
        """What of the log's `tail` comes after this reading; None when the tail does not say. It does if the last lines that
        were read stand in it, at one place only: with their times they hardly ever stand at two."""
        if len(self._recent) < RECENT or self._recent[0] == self._recent[-1]:  # a flood of one line is everywhere alike
            return None
        last = self._recent[-1]
        ends = [
            n + 1
            for n, line in enumerate(tail)
            if line == last and tail[max(0, n + 1 - RECENT) : n + 1] == self._recent
        ]
        return tail[ends[0] :] if len(ends) == 1 else None

    def take(self, line: LogLine) -> LogLine | None:
        at = self._high = max(line.at, self._high)
        if at < self.last_at:
            return None
        if at > self.last_at:
            self.last_at, self._held, self._seen = at, {}, {}
        stream = line.stream
        self._seen[stream] = self._seen.get(stream, 0) + 1
        if self._seen[stream] <= self._held.get(stream, 0):
            return None
        self._held[stream] = self._seen[stream]
        return line if at is line.at else LogLine(at=at, stream=stream, text=line.text, is_partial=line.is_partial)
