"""Logs in files: no line lost or doubled over a crash, followed live, bounded."""

from pathlib import Path

import anyio
import pytest

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


async def test_a_log_past_its_limit_says_so_and_stops(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path, bytes_max=1000)
    await write(logs, *(line(n % 60, b"y" * 50) for n in range(100)), line(5, b"late"))
    seen = await texts(logs)
    assert b"limit" in seen[-1]
    assert b"late" not in seen
    assert len(seen) < 20


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
