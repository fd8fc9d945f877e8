"""Log bytes to lines, and lines to those that are not held yet: tables of what engines were seen to send, and any cut of it."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.adapters.runtime.cursor import Cursor
from windlass.adapters.runtime.docker.frames import Frames
from windlass.adapters.runtime.docker.lines import PIECE, FramedLines, RawLines
from windlass.adapters.runtime.docker.logs import since
from windlass.adapters.runtime.stamps import normal_timestamp
from windlass.ports.runtime import LogLine, LogPosition, Stream

OUT, ERR = Stream.STDOUT, Stream.STDERR


def at(nanos: int) -> str:
    return f"2026-11-15T20:58:25.{nanos:09d}Z"


def frame(stream: Stream, nanos: int, text: bytes) -> bytes:
    payload = at(nanos).encode() + b" " + text
    return struct.pack(">B3xI", 2 if stream is ERR else 1, len(payload)) + payload


def read(data: bytes, *, infers_newline: bool = True) -> list[LogLine]:
    return FramedLines(infers_newline=infers_newline).feed(data)


def shown(lines: list[LogLine]) -> list[tuple[Stream, bytes, bool]]:
    return [(line.stream, line.text, line.is_partial) for line in lines]


@given(
    frames=st.lists(st.tuples(st.sampled_from(list(Stream)), st.binary(max_size=40)), max_size=12),
    cuts=st.lists(st.integers(0, 600), max_size=12),
)
def test_frames_are_whole_however_the_bytes_arrive(frames: list[tuple[Stream, bytes]], cuts: list[int]) -> None:
    sent = b"".join(struct.pack(">B3xI", 2 if s is ERR else 1, len(data)) + data for s, data in frames)
    edges = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    reader = Frames()
    got = [f for start, end in itertools.pairwise(edges) for f in reader.feed(sent[start:end])]
    assert got == frames


def test_a_line_loses_its_newline_and_keeps_the_rest() -> None:
    data = frame(OUT, 1, b"hi\n") + frame(ERR, 2, b"\xff\x00 x \n") + frame(OUT, 3, b"\n")
    assert shown(read(data)) == [(OUT, b"hi", False), (ERR, b"\xff\x00 x ", False), (OUT, b"", False)]


def test_a_last_line_without_newline_is_partial() -> None:
    assert shown(read(frame(OUT, 1, b"a\n") + frame(OUT, 2, b"end"))) == [(OUT, b"a", False), (OUT, b"end", True)]


@pytest.mark.parametrize("newline", [b"\n", b""], ids=["json-file", "local"])
def test_the_last_piece_of_a_long_line_ends_it(newline: bytes) -> None:
    pieces = [b"x" * PIECE, b"x" * PIECE, b"yz"]
    data = b"".join(frame(OUT, 5, piece) for piece in pieces[:2]) + frame(OUT, 5, pieces[2] + newline)
    data += frame(OUT, 6, b"next\n")
    assert [(len(line.text), line.is_partial) for line in read(data)] == [
        (PIECE, True),
        (PIECE, True),
        (2, False),
        (4, False),
    ]


def test_the_other_stream_between_two_pieces_does_not_disturb_them() -> None:
    data = frame(OUT, 5, b"x" * PIECE) + frame(ERR, 5, b"err\n") + frame(OUT, 5, b"y")
    assert [line.is_partial for line in read(data)] == [True, False, False]


def test_podman_says_itself_where_a_line_ends() -> None:
    data = frame(OUT, 0, b"sh: ") + frame(OUT, 0, b"no") + frame(OUT, 0, b"\n")
    assert shown(read(data, infers_newline=False)) == [(OUT, b"sh: ", True), (OUT, b"no", True), (OUT, b"", False)]


def _terminal(*lines: tuple[int, bytes]) -> bytes:
    return b"".join(at(nanos).encode() + b" " + text for nanos, text in lines)


@given(cut=st.integers(0, 200))
def test_a_terminals_lines_are_split_at_newlines(cut: int) -> None:
    data = _terminal((1, b"$ ls\r\n"), (2, b"a  b\r\n"), (3, b"$ "))
    reader = RawLines()
    lines = reader.feed(data[:cut]) + reader.feed(data[cut:]) + reader.rest()
    assert shown(lines) == [(OUT, b"$ ls\r", False), (OUT, b"a  b\r", False), (OUT, b"$ ", True)]
    assert [line.at for line in lines] == [at(1), at(2), at(3)]


@pytest.mark.parametrize("newline", [b"\n", b""], ids=["json-file", "local"])
def test_a_terminals_long_line_is_cut_where_the_engine_cut_it(newline: bytes) -> None:
    data = _terminal((1, b"x" * PIECE), (1, b"x" * PIECE), (1, b"tail\r" + newline), (2, b"next\r\n"))
    reader = RawLines()
    lines = reader.feed(data) + reader.rest()
    assert [(len(line.text), line.is_partial) for line in lines] == [
        (PIECE, True),
        (PIECE, True),
        (5, False),
        (5, False),
    ]
    assert lines[-1].text == b"next\r"


def test_a_progress_bar_without_newlines_is_not_kept_back() -> None:
    reader = RawLines()
    batches = [reader.feed(_terminal((n, b"\r50%".ljust(PIECE, b".")))) for n in range(5)]
    assert [len(lines) for lines in batches] == [0, 1, 1, 1, 1]
    assert len(reader.rest()) == 1


def test_a_time_that_the_program_wrote_is_not_the_engines() -> None:
    text = at(9).encode() + b" my own log\r\n"
    reader = RawLines()
    assert [line.text for line in reader.feed(_terminal((1, text)))] == [text[:-1]]


LOG = [
    LogLine(at=at(nanos), stream=stream, text=str(number).encode())
    for number, (nanos, stream) in enumerate(
        [(1, OUT), (3, ERR), (2, OUT), (3, OUT), (3, OUT), (5, ERR), (4, ERR), (5, OUT), (5, ERR), (9, OUT)]
    )
]


def _reading(cursor: Cursor, lines: list[LogLine]) -> list[LogLine]:
    cursor.begin()
    return [fresh for line in lines if (fresh := cursor.take(line)) is not None]


def _position(lines: list[LogLine]) -> LogPosition:
    last_at = lines[-1].at if lines else ""
    counts = {stream.value: sum(1 for n in lines if n.at == last_at and n.stream is stream) for stream in Stream}
    return LogPosition(last_at=last_at, lines_at_last=counts if lines else {})


def test_times_never_run_backwards() -> None:
    times = [line.at for line in _reading(Cursor(LogPosition()), LOG)]
    assert times == sorted(times)
    assert times[2] == at(3)


@pytest.mark.parametrize("held", range(len(LOG) + 1))
def test_a_position_lets_exactly_the_rest_through(held: int) -> None:
    everything = _reading(Cursor(LogPosition()), LOG)
    assert _reading(Cursor(_position(everything[:held])), LOG) == everything[held:]


@given(
    log=st.lists(st.tuples(st.integers(0, 6), st.sampled_from(list(Stream))), max_size=30),
    readings=st.lists(st.integers(0, 30), max_size=5),
)
def test_any_number_of_broken_readings_gives_each_line_once(log: list[tuple[int, Stream]], readings: list[int]) -> None:
    lines = [LogLine(at=at(nanos), stream=stream, text=b"%d" % n) for n, (nanos, stream) in enumerate(log)]
    cursor = Cursor(LogPosition())
    got = [line for size in [*readings, len(lines)] for line in _reading(cursor, lines[:size])]
    assert [line.text for line in got] == [line.text for line in lines]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        (at(5), at(5)),
        ("2026-11-15T21:09:42Z", "2026-11-15T21:09:42.000000000Z"),
        ("2026-11-15T21:09:42.5Z", "2026-11-15T21:09:42.500000000Z"),
        ("2026-11-15T23:09:42.123456789+02:00", "2026-11-15T21:09:42.123456789Z"),
        ("nonsense", "nonsense"),
    ],
)
def test_times_are_written_one_way(text: str, normal: str) -> None:
    assert normal_timestamp(text) == normal


def test_a_reading_begins_an_hour_early() -> None:
    assert since("1970-01-01T02:00:00.500000000Z") == "3600"
    assert since("1970-01-01T00:00:10.000000000Z") == "0"
