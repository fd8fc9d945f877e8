"""Following a log over an engine that breaks off wherever it likes: each line once, all of them, in order."""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.adapters.runtime import cursor
from windlass.adapters.runtime.backoff import Backoff
from windlass.adapters.runtime.docker import logs
from windlass.adapters.runtime.docker.containers import Known
from windlass.core.errors import Unavailable
from windlass.core.model.ids import Millis
from windlass.ports.runtime import LogPosition, Stream

Record = tuple[int, Stream]
"""When, in seconds, and where to; the text is its number."""


class BreakingEngine:
    """Answers log requests as Docker does, but each followed one ends after so many records, cleanly or not."""

    def __init__(self, records: list[Record], breaks: list[tuple[int, bool]]) -> None:
        self._records = [(at, stream, str(n)) for n, (at, stream) in enumerate(records)]
        self._breaks = list(breaks)
        self.tails = 0

    @property
    def is_over(self) -> bool:
        return not self._breaks

    async def is_podman(self) -> bool:
        return False

    @asynccontextmanager
    async def stream(self, method: str, path: str, *, params: dict[str, str]) -> AsyncIterator[Any]:
        self.tails += "tail" in params
        yield SimpleNamespace(content=SimpleNamespace(iter_any=lambda: self._answer(params)))

    async def _answer(self, params: dict[str, str]) -> AsyncIterator[bytes]:
        size, is_clean = len(self._records), True
        if params.get("follow") == "true" and self._breaks:
            size, is_clean = self._breaks.pop(0)
        records = [r for r in self._records[:size] if r[0] >= int(params.get("since", "0"))]
        for at, stream, text in records[-int(params["tail"]) :] if "tail" in params else records:
            yield _frame(at, stream, text)
        if not is_clean:
            raise Unavailable("the engine went away")


class NoTime:
    def now(self) -> Millis:
        return Millis(0)

    def wall(self, at: Millis) -> float:
        return 0.0

    async def sleep_until(self, at: Millis) -> None:
        await anyio.lowlevel.checkpoint()


def _frame(at: int, stream: Stream, text: str) -> bytes:
    minutes, seconds = divmod(at, 60)
    payload = f"1970-01-01T{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}.000000000Z {text}\n".encode()
    return struct.pack(">B3xI", 2 if stream is Stream.STDERR else 1, len(payload)) + payload


def _follow_all(engine: BreakingEngine) -> list[int]:
    async def identify() -> Known:
        return Known("c", False)

    async def is_over() -> bool:
        return engine.is_over

    async def main() -> list[int]:
        options: dict[str, Any] = {"after": LogPosition(), "is_over": is_over, "backoff": Backoff(NoTime(), "r")}
        return [int(line.text) async for line in logs.follow(engine, identify, **options)]  # type: ignore[arg-type]

    return anyio.run(main)


@settings(deadline=None, max_examples=300)
@given(
    steps=st.lists(st.tuples(st.integers(-1, 2), st.sampled_from(list(Stream))), max_size=40),
    breaks=st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=5),
    tail=st.integers(1, 8),
    recent=st.integers(1, 3),
)
def test_each_line_comes_once_whatever_breaks(
    steps: list[tuple[int, Stream]], breaks: list[tuple[int, bool]], tail: int, recent: int
) -> None:
    """Times step back now and then, as two streams' do; many lines share one; the tail may be too short to help."""
    records, at = [], 10_000
    for step, stream in steps:
        at += step
        records.append((at, stream))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "TAIL", tail)
        patch.setattr(cursor, "RECENT", recent)
        assert _follow_all(BreakingEngine(records, breaks)) == list(range(len(records)))


def test_a_log_that_ended_well_is_not_read_twice() -> None:
    engine = BreakingEngine([(n, Stream.STDOUT) for n in range(1000)], [(1000, True)])
    assert _follow_all(engine) == list(range(1000))
    assert engine.tails == 1


def test_a_clock_set_back_loses_nothing() -> None:
    before, after = [(5000 + n, Stream.STDOUT) for n in range(300)], [(2500 + n, Stream.STDOUT) for n in range(300)]
    for last in ((420, False), (420, True), (595, True)):
        engine = BreakingEngine(before + after, [(100, False), (350, True), last])
        assert _follow_all(engine) == list(range(600)), last
