"""What the tests of the runtime contract do again and again: make a run, read it, move files, all within a deadline."""

import io
import tarfile
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import pytest

from tests.contracts.runtime_behaviours import Harness, Step, Trait, an_assignment
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import RunId, VolumeId
from windlass.ports.runtime import LogLine, LogPosition, Phase, Runtime, StartFailed, Stream, Terminal

DEADLINE_SECONDS = 180


def need(harness: Harness, trait: Trait) -> None:
    if trait not in harness.traits:
        pytest.skip(f"not on this runtime: {trait.value}")


async def created(harness: Harness, name: str, *steps: Step, **changes: Any) -> Assignment:
    assignment = an_assignment(harness, name, *steps, **changes)
    await harness.runtime.ensure_volume(assignment.volume, labels={})
    await harness.runtime.create(assignment)
    return assignment


async def started(harness: Harness, name: str, *steps: Step, **changes: Any) -> Assignment:
    assignment = await created(harness, name, *steps, **changes)
    await start_now(harness, assignment.run)
    return assignment


async def start_now(harness: Harness, run: RunId) -> None:
    """Start it and come back when it runs, or ran; on runtimes that take their time too."""
    await harness.runtime.start(run)
    await until_it_ran(harness.runtime, run)


async def until_it_ran(runtime: Runtime, run: RunId) -> None:
    with anyio.fail_after(DEADLINE_SECONDS):
        while not runtime.traits.starts_at_once:
            seen = await runtime.observe(run)
            if seen.phase is not Phase.CREATED or seen.error:
                return
            await anyio.sleep(0.05)


async def try_start(runtime: Runtime, run: RunId) -> str:
    try:
        await runtime.start(run)
    except StartFailed as failed:
        return failed.message
    return ""


async def soon(awaitable: Any) -> Any:
    with anyio.fail_after(DEADLINE_SECONDS):
        return await awaitable


async def until_it_says(runtime: Runtime, run: RunId, text: bytes) -> None:
    """Come back when the run has said so."""
    with anyio.fail_after(DEADLINE_SECONDS):
        async for line in runtime.logs(run, after=LogPosition()):
            if line.text.removesuffix(b"\r") == text:  # which a terminal puts before a newline
                return
    pytest.fail(f"{run} ended without saying {text!r}")


async def all_lines(runtime: Runtime, run: RunId, *, after: LogPosition | None = None) -> list[LogLine]:
    with anyio.fail_after(DEADLINE_SECONDS):
        return [line async for line in runtime.logs(run, after=after or LogPosition())]


def position_after(lines: list[LogLine]) -> LogPosition:
    """What an agent computes from its own file."""
    if not lines:
        return LogPosition()
    last_at = lines[-1].at
    counts: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for line in lines:
        sizes[line.stream] = sizes.get(line.stream, 0) + len(line.text) + (not line.is_partial)
        if line.at == last_at:
            counts[line.stream] = counts.get(line.stream, 0) + 1
    return LogPosition(last_at=last_at, lines_at_last=counts, bytes_of=sizes)


def joined(lines: list[LogLine]) -> bytes:
    return b"".join(line.text + (b"" if line.is_partial else b"\n") for line in lines)


async def all_said(terminal: Terminal) -> dict[Stream, bytes]:
    said = {Stream.STDOUT: b"", Stream.STDERR: b""}
    async for stream, data in terminal.output():
        said[stream] += data
    return said


async def give_all(terminal: Terminal, data: bytes) -> None:
    """In pieces, and then an end."""
    for start in range(0, len(data), 50_000):
        await terminal.send(data[start : start + 50_000])
    await terminal.close_input()


async def a_volume(harness: Harness, name: str) -> VolumeId:
    volume = VolumeId(f"v-{name}")
    await harness.runtime.ensure_volume(volume, labels={"purpose": name})
    return volume


async def put_files(harness: Harness, volume: VolumeId, path: str, files: Mapping[str, bytes]) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    await soon(harness.runtime.put_archive(volume, path, _chunks(out.getvalue())))


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]


async def get_files(harness: Harness, volume: VolumeId, path: str) -> dict[str, bytes]:
    """Regular files by name."""
    with anyio.fail_after(DEADLINE_SECONDS):
        data = b"".join([chunk async for chunk in harness.runtime.get_archive(volume, path)])
    files = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None:
                files[member.name.removeprefix("./")] = content.read()
    return files


async def read_file(harness: Harness, volume: VolumeId, path: str) -> bytes:
    return (await get_files(harness, volume, path))[path.rpartition("/")[2]]
