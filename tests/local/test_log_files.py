"""Logs in files: no line lost or doubled over a crash, followed live, bounded."""

from pathlib import Path

import anyio
import pytest

from tests.store.small_disk import filled, small_disk
from windlass.adapters.logs.files import FileLogs
from windlass.core.errors import NotFound
from windlass.core.model.ids import RunId
from windlass.ports.runtime import LogLine, Stream

pytestmark = pytest.mark.anyio
RUN = RunId("r-1")


def line(n: int, text: bytes = b"", *, stream: Stream = Stream.STDOUT, partial: bool = False) -> LogLine:
    return LogLine(
        at=f"2026-11-15T00:00:{n:02d}.000000000Z", stream=stream, text=text or b"line %d" % n, is_partial=partial
    )


async def texts(logs: FileLogs, **options: object) -> list[bytes]:
    return [entry.text async for entry in logs.read(RUN, **options)]  # type: ignore[arg-type]


async def write(logs: FileLogs, *lines: LogLine, seal: bool = True) -> None:
    async with logs.writer(RUN) as writer:
        await writer.append(lines)
        if seal:
            await writer.seal()


async def test_what_was_written_is_read_with_its_stream_and_time(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path)
    await write(logs, line(1), line(2, b"no \xff utf-8", stream=Stream.STDERR), line(3, b"half", partial=True))
    entries = [entry async for entry in logs.read(RUN)]
    assert [(entry.stream, entry.text, entry.is_partial) for entry in entries] == [
        ("stdout", b"line 1", False),
        ("stderr", b"no \xff utf-8", False),
        ("stdout", b"half", True),
    ]
    assert entries[1].at == "2026-11-15T00:00:02.000000000Z"


async def test_a_reader_resumes_after_what_it_has(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path)
    await write(logs, *(line(n) for n in range(10)))
    entries = [entry async for entry in logs.read(RUN)]
    for n, entry in enumerate(entries):
        assert await texts(logs, after=entry.offset) == [later.text for later in entries[n + 1 :]]


async def test_a_reader_does_not_run_after_a_writer_that_goes_on(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path)
    await write(logs, line(0), line(1), seal=False)
    read = []
    async for entry in logs.read(RUN):
        read.append(entry.text)
        await write(logs, line(len(read) + 1), seal=False)
    assert read == [b"line 0", b"line 1"]


async def test_every_torn_end_is_repaired_to_whole_entries(tmp_path: Path) -> None:
    """A crash may cut the file anywhere: what is left says exactly where to go on."""
    whole = [
        line(1),
        line(2, stream=Stream.STDERR),
        line(2, b"twin", stream=Stream.STDERR),
        line(3, b"x", partial=True),
    ]
    logs = FileLogs(tmp_path / "whole")
    await write(logs, *whole)
    data = (tmp_path / "whole" / f"{RUN}.log").read_bytes()
    for cut in range(len(data) + 1):
        directory = tmp_path / f"cut{cut}"
        torn = FileLogs(directory)
        (directory / f"{RUN}.log").write_bytes(data[:cut])
        async with torn.writer(RUN) as writer:
            held = data[:cut].count(b"\n")
            assert sum(writer.position.bytes_of.values()) == sum(
                len(one.text) + (not one.is_partial) for one in whole[:held]
            )
            assert writer.position.last_at == (whole[held - 1].at if held else "")
            await writer.append(whole[held:])
            await writer.seal()
        assert (directory / f"{RUN}.log").read_bytes() == data


async def test_a_full_disk_is_an_error_and_with_room_again_no_line_is_lost_or_doubled(tmp_path: Path) -> None:
    """The disk takes the first part of a write and answers with its length: that too is an error."""
    lines = [line(n, b"%d" % n * 2000) for n in range(60)]
    with small_disk(tmp_path / "disk", 256 << 10) as disk:
        logs = FileLogs(disk / "logs")
        async with logs.writer(RUN) as writer:
            await writer.append(lines[:10])
            with filled(disk):
                with pytest.raises(OSError, match=r"No space left|could not be written whole"):
                    await writer.append(lines[10:])
        async with logs.writer(RUN) as writer:  # as the next keeper does: it goes on from what is whole
            held = len([entry async for entry in logs.read(RUN)])
            assert held >= 10
            await writer.append(lines[held:])
            await writer.seal()
        assert await texts(logs) == [one.text for one in lines]


async def test_a_follower_sees_lines_as_they_come_and_ends_with_the_log(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path)
    seen: list[bytes] = []
    arrived = anyio.Event()

    async def follow() -> None:
        async for entry in logs.read(RUN, follow=True):
            seen.append(entry.text)
            arrived.set()

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            async with logs.writer(RUN) as writer:
                await writer.append([line(1)])
                await arrived.wait()
                assert seen == [b"line 1"]
                await writer.append([line(2)])
                await writer.seal()
    assert seen == [b"line 1", b"line 2"]


async def test_the_tail_is_the_last_lines(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path)
    await write(logs, *(line(n % 60, b"%d " % n + b"x" * 700) for n in range(1000)))
    assert [text.split()[0] for text in await texts(logs, tail=3)] == [b"997", b"998", b"999"]
    assert await texts(logs, tail=0) == []
    assert len(await texts(logs, tail=5000)) == 1000


async def test_a_log_past_its_limit_keeps_its_head_and_its_tail_and_says_what_is_missing(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path, bytes_max=4000)
    printed = [b"%03d " % n + b"y" * 46 for n in range(300)]
    await write(logs, *(line(n % 60, text) for n, text in enumerate(printed)), line(5, b"late"))
    entries = [entry async for entry in logs.read(RUN)]
    [gap] = [at for at, entry in enumerate(entries) if b"windlass" in entry.text]
    head, tail = entries[:gap], entries[gap + 1 :]
    assert [entry.text for entry in head] == printed[: len(head)]
    assert [entry.text for entry in tail] == [*printed[-len(tail) + 1 :], b"late"]
    missing = len(printed) - len(head) - (len(tail) - 1)
    assert entries[gap].text == b"[windlass: %.1f KiB of its output left out here]" % (missing * 51 / 1024)
    assert entries[gap].stream == "stderr"
    assert len(head) > 10
    assert len(tail) > 10
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5000


async def test_below_its_limit_nothing_is_left_out_however_it_is_written(tmp_path: Path) -> None:
    """Into the second part and back after every line: the same as at once."""
    printed = [b"%03d " % n + b"y" * 46 for n in range(40)]
    for at_once in (1, 3, 40):
        for run in range(0, 40, at_once):
            logs = FileLogs(tmp_path / str(at_once), bytes_max=4000)
            async with logs.writer(RUN) as writer:
                assert writer.position.bytes_of.get("stdout", 0) == run * 51
                await writer.append([line(n, printed[n]) for n in range(run, min(run + at_once, 40))])
        assert await texts(logs) == printed
        for tail in range(42):
            assert await texts(logs, tail=tail) == (printed[-tail:] if tail else [])


async def test_a_crash_in_any_part_is_repaired_to_whole_entries(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path, bytes_max=2000)
    await write(logs, *(line(n % 60, b"y" * 50) for n in range(100)), seal=False)
    newest = sorted(tmp_path.glob("*.log.*"))[-1]
    whole = newest.read_bytes()
    for cut in range(len(whole)):
        newest.write_bytes(whole[:cut])
        async with FileLogs(tmp_path, bytes_max=2000).writer(RUN) as writer:
            held = writer.position.bytes_of["stdout"]
        assert held % 51 == 0
        entries = [entry async for entry in logs.read(RUN)]
        assert sum(len(entry.text) + 1 for entry in entries if b"windlass" not in entry.text) <= held <= 100 * 51
        newest.write_bytes(whole)


async def test_a_reader_that_was_overtaken_goes_on_with_what_is_there(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path, bytes_max=2000)
    await write(logs, *(line(n % 60, b"%03d" % n + b"y" * 47) for n in range(20)), seal=False)
    seen = [entry async for entry in logs.read(RUN)]
    await write(logs, *(line(n % 60, b"%03d" % n + b"y" * 47) for n in range(20, 100)))
    rest = [entry async for entry in logs.read(RUN, after=seen[-1].offset)]
    assert b"left out" in rest[0].text
    assert rest[-1].text.startswith(b"099")
    assert await texts(logs, after=rest[0].offset) == [entry.text for entry in rest[1:]]


async def test_what_the_runtime_left_out_is_told_and_counted(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path)
    gone = LogLine(at=line(2).at, stream=Stream.STDOUT, text=b"", left_out=3 << 30)
    await write(logs, line(1), gone, line(3))
    assert await texts(logs) == [b"line 1", b"[windlass: 3.0 GiB of its output left out here]", b"line 3"]
    async with FileLogs(tmp_path).writer(RUN) as writer:
        assert writer.position.bytes_of == {"stdout": (3 << 30) + 14}


async def test_an_entry_longer_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path)
    await write(logs, line(1, b"z" * 2_000_000), line(2))
    assert [len(text) for text in await texts(logs)] == [2_000_000, 6]


async def test_a_log_that_never_was_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await texts(FileLogs(tmp_path))


async def test_a_failures_message_gets_the_end_of_the_log(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path)
    async with logs.writer(RUN) as writer:
        await writer.append([line(n % 60, b"line %d" % n) for n in range(100)])
        assert (await writer.tail(lines=2, characters=500)) == "line 98\nline 99"
        assert len(await writer.tail(lines=50, characters=100)) == 100
