"""Output without an end: its head and its tail stay, the disk gets the middle back, and every line that is told was printed."""

import os
from pathlib import Path

import anyio
import pytest

from tests.process.nodes import DEADLINE_SECONDS, Node, eventually, finish, launch
from windlass.adapters.runtime.process import trim
from windlass.adapters.runtime.process.follow import Inotify, follow
from windlass.adapters.runtime.process.trim import Trimmer
from windlass.core.model.ids import RunId
from windlass.ports.logs import ENTRY_BYTES, KEPT_HEAD_BYTES, KEPT_TAIL_BYTES
from windlass.ports.runtime import LogLine, LogPosition, Stream

pytestmark = pytest.mark.anyio
MIB = 1 << 20
LINE = len(b"line 0000000 of what a run prints\n")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Trimmer:
    monkeypatch.setattr(trim, "HEAD_BYTES", 2 * MIB)
    monkeypatch.setattr(trim, "TAIL_BYTES", 3 * MIB)
    return Trimmer(head=2 * MIB, tail=3 * MIB)


def _written(path: Path, count: int) -> list[bytes]:
    lines = [b"line %07d of what a run prints" % n for n in range(count)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return lines


def _ended(directory: Path) -> None:
    """As a run is that nobody looks after any more: to a follower, it is over."""
    (directory / "stderr").touch()


async def _all(directory: Path, after: LogPosition | None = None) -> list[LogLine]:
    inotify = Inotify()
    try:
        with anyio.fail_after(DEADLINE_SECONDS):
            return [line async for line in follow(str(directory), inotify, after=after or LogPosition())]
    finally:
        inotify.close()


async def test_what_fits_is_never_touched(tmp_path: Path, small: Trimmer) -> None:
    lines = _written(tmp_path / "stdout", 150_000)
    assert (tmp_path / "stdout").stat().st_size < 5 * MIB
    small.look([str(tmp_path)])
    _ended(tmp_path)
    assert [line.text for line in await _all(tmp_path)] == lines


async def test_the_middle_goes_and_head_and_tail_are_whole_lines(tmp_path: Path, small: Trimmer) -> None:
    path = tmp_path / "stdout"
    lines = _written(path, 1_000_000)
    size, blocks = path.stat().st_size, path.stat().st_blocks
    small.look([str(tmp_path)])
    assert path.stat().st_size == size, "every byte keeps its place"
    assert path.stat().st_blocks * 512 < 7 * MIB < blocks * 512
    _ended(tmp_path)
    seen = await _all(tmp_path)
    [gap] = [at for at, line in enumerate(seen) if line.left_out]
    assert [line.text for line in seen[:gap]] == lines[:gap]
    after = len(seen) - gap - 1
    assert [line.text for line in seen[gap + 1 :]] == lines[-after:]
    assert gap * LINE > 2 * MIB - LINE
    assert after * LINE > 3 * MIB - LINE
    assert seen[gap].left_out == size - (len(seen) - 1) * LINE


async def test_a_follower_resumes_before_in_and_after_the_gap_and_doubles_nothing(
    tmp_path: Path, small: Trimmer
) -> None:
    _written(tmp_path / "stdout", 400_000)
    small.look([str(tmp_path)])
    _ended(tmp_path)
    seen = await _all(tmp_path)
    [gap] = [at for at, line in enumerate(seen) if line.left_out]
    held = 0
    for at, line in enumerate(seen):
        if at in (0, 1, gap - 1, gap, gap + 1, len(seen) - 1):
            rest = await _all(tmp_path, LogPosition(bytes_of={"stdout": held}))
            assert [(one.text, one.left_out) for one in rest] == [(one.text, one.left_out) for one in seen[at:]]
        held += line.left_out or len(line.text) + 1


async def test_of_a_flood_of_short_lines_only_what_is_kept_is_given_once_it_is_over(tmp_path: Path) -> None:
    size = 8 * MIB  # four million lines, each far shorter than what it takes in a log
    (tmp_path / "stdout").write_bytes(b"y\n" * (size // 2))
    _ended(tmp_path)
    seen = await _all(tmp_path)
    [gap] = [at for at, line in enumerate(seen) if line.left_out]
    entry = ENTRY_BYTES + 2
    assert KEPT_HEAD_BYTES <= gap * entry < KEPT_HEAD_BYTES + 16 * MIB
    assert KEPT_TAIL_BYTES <= (len(seen) - gap) * entry < KEPT_TAIL_BYTES + 16 * MIB
    assert seen[gap].left_out + 2 * (len(seen) - 1) == size


async def test_a_file_may_be_one_endless_line(tmp_path: Path, small: Trimmer) -> None:
    (tmp_path / "stdout").write_bytes(b"x" * (9 * MIB))
    small.look([str(tmp_path)])
    _ended(tmp_path)
    seen = await _all(tmp_path)
    assert sum(line.left_out or len(line.text) for line in seen) == 9 * MIB
    assert not any(b"\0" in line.text for line in seen)


async def test_a_run_that_never_stops_printing_leaves_the_disk_alone(node: Node) -> None:
    """For real, with the real bounds: the executor looks after it, whoever is there to read or not."""
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "yes", "a line of the kind that fills disks, over and over again, without an end")
        [path] = (node.directory / "runs").glob("*/stdout")
        written = trim.HEAD_BYTES + trim.TAIL_BYTES
        await eventually(lambda: path.stat().st_size > 4 * written)
        await eventually(lambda: path.stat().st_blocks * 512 < path.stat().st_size // 2)
        await runtime.stop(RunId("r-1"), grace_ms=0)
        await finish(runtime, "r-1")
        assert path.stat().st_blocks * 512 <= written + 4 * MIB
        fd = os.open(path, os.O_RDONLY)
        try:
            assert trim.hole_in(fd, 0, path.stat().st_size) is not None
        finally:
            os.close(fd)
        lines, left_out = 0, 0
        with anyio.fail_after(DEADLINE_SECONDS):
            async for line in runtime.logs(RunId("r-1"), after=LogPosition()):
                lines += line.stream is Stream.STDOUT and not line.left_out
                left_out += line.left_out
        assert left_out > 2 * written
        assert lines > 900_000, (
            "as many as are kept of a log: its head and its tail, with what a line takes beside its text"
        )
