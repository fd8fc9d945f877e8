"""The blobs contract, on a directory and in memory; and what a directory must bear besides: kills and full disks (R-21)."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.store.small_disk import filled, small_disk
from windlass.adapters.blobs.directory import DirectoryBlobs
from windlass.core.errors import Invalid, NotFound, TooLarge, Unavailable
from windlass.ports.blobs import Blob, Blobs
from windlass.testing.blobs import MemoryBlobs

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
MANY = 10 << 20

HOSTILE_DIGESTS = [
    "",
    "sha256:",
    "0" * 64,
    "sha256:" + "0" * 63,
    "sha256:" + "0" * 65,
    "sha256:" + "A" * 64,
    "sha256:" + "g" * 64,
    "sha256:" + "0" * 64 + "\n",
    "sha256:" + "０" * 64,
    "sha512:" + "0" * 64,
    "sha256:../../../../etc/passwd",
    "sha256:" + "../" * 21 + "x",
    "sha256:" + "\0" * 64,
    "../sha256:" + "0" * 64,
]


@pytest.fixture(params=["memory", "directory"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    return MemoryBlobs() if request.param == "memory" else await DirectoryBlobs.open(tmp_path / "blobs")


async def put(blobs: Blobs, *chunks: bytes, expected: str | None = None, size_max: int = MANY) -> Blob:
    async with blobs.create(size_max=size_max) as writer:
        for chunk in chunks:
            await writer.write(chunk)
        return await writer.seal(expected=expected)


async def content(blobs: Blobs, digest: str, **options: int) -> bytes:
    return b"".join([chunk async for chunk in blobs.read(digest, **options)])


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


async def test_what_was_sealed_comes_back_equal_under_its_digest(blobs: Blobs) -> None:
    chunks = [random.randbytes(size) for size in (0, 1, 100, 3 << 20, 1_000_003, 7)]
    data = b"".join(chunks)
    blob = await put(blobs, *chunks)
    assert blob == Blob(digest=digest_of(data), size=len(data))
    assert await content(blobs, blob.digest) == data
    assert await blobs.size(blob.digest) == len(data)
    assert await blobs.digests() == (blob.digest,)


async def test_reading_gives_chunks_no_larger_than_asked_for(blobs: Blobs) -> None:
    blob = await put(blobs, bytes(10_000))
    sizes = [len(chunk) async for chunk in blobs.read(blob.digest, chunk_size=999)]
    assert sum(sizes) == 10_000
    assert max(sizes) <= 999


async def test_the_empty_blob_is_a_blob(blobs: Blobs) -> None:
    blob = await put(blobs)
    assert blob == Blob(digest=digest_of(b""), size=0)
    assert await content(blobs, blob.digest) == b""
    assert await blobs.size(blob.digest) == 0


async def test_equal_bytes_sealed_twice_are_one_blob(blobs: Blobs) -> None:
    first = await put(blobs, b"equal")
    assert await put(blobs, b"eq", b"ual") == first
    assert await blobs.digests() == (first.digest,)
    assert await content(blobs, first.digest) == b"equal"


async def test_a_writer_sealed_again_answers_the_same(blobs: Blobs) -> None:
    async with blobs.create(size_max=MANY) as writer:
        await writer.write(b"once")
        assert await writer.seal() == await writer.seal()


async def test_the_expected_digest_is_checked(blobs: Blobs) -> None:
    with pytest.raises(Invalid) as mismatch:
        await put(blobs, b"right", expected=digest_of(b"wrong"))
    assert mismatch.value.code == "digest-mismatch"
    assert await blobs.digests() == ()
    assert (await put(blobs, b"right", expected=digest_of(b"right"))).size == 5


async def test_what_was_not_sealed_is_gone(blobs: Blobs) -> None:
    async with blobs.create(size_max=MANY) as writer:
        await writer.write(b"never mind")
    assert await blobs.digests() == ()
    assert await blobs.size(digest_of(b"never mind")) is None


async def test_what_was_not_sealed_is_not_visible(blobs: Blobs) -> None:
    async with blobs.create(size_max=MANY) as writer:
        await writer.write(bytes(2 << 20))
        assert await blobs.digests() == ()
        assert await blobs.size(digest_of(bytes(2 << 20))) is None
        await writer.seal()
        assert await blobs.size(digest_of(bytes(2 << 20))) == 2 << 20


async def test_more_bytes_than_allowed_are_too_large_and_leave_nothing(blobs: Blobs) -> None:
    assert (await put(blobs, b"12345", b"67890", size_max=10)).size == 10
    with pytest.raises(TooLarge):
        await put(blobs, b"12345", b"678901", size_max=10)
    assert len(await blobs.digests()) == 1


async def test_a_writer_that_failed_cannot_be_sealed(blobs: Blobs) -> None:
    async with blobs.create(size_max=10) as writer:
        await writer.write(b"12345")
        with pytest.raises(TooLarge):
            await writer.write(b"678901")
        with pytest.raises(Unavailable):
            await writer.seal()
    assert await blobs.digests() == ()


async def test_a_cancelled_upload_leaves_nothing(blobs: Blobs) -> None:
    with anyio.CancelScope() as scope:
        async with blobs.create(size_max=MANY) as writer:
            await writer.write(bytes(2 << 20))
            scope.cancel()
            await writer.seal()
    assert scope.cancelled_caught
    assert await blobs.digests() == ()


async def test_an_absent_blob_is_not_found(blobs: Blobs) -> None:
    absent = digest_of(b"absent")
    with pytest.raises(NotFound):
        await content(blobs, absent)
    assert await blobs.size(absent) is None


async def test_a_deleted_blob_is_gone_and_deleting_again_is_fine(blobs: Blobs) -> None:
    blob, other = await put(blobs, b"short-lived"), await put(blobs, b"other")
    await blobs.delete(blob.digest)
    await blobs.delete(blob.digest)
    assert await blobs.digests() == (other.digest,)
    with pytest.raises(NotFound):
        await content(blobs, blob.digest)


async def test_a_blob_deleted_while_it_is_read_is_read_to_its_end(blobs: Blobs) -> None:
    data = random.randbytes(5_000)
    blob = await put(blobs, data)
    reading = blobs.read(blob.digest, chunk_size=1_000)
    read = await anext(reading)
    await blobs.delete(blob.digest)
    read += b"".join([chunk async for chunk in reading])
    assert read == data


async def test_many_uploads_at_once_do_not_mix(blobs: Blobs) -> None:
    contents = [random.randbytes(random.randrange(300_000)) for _ in range(40)]
    sealed: list[Blob] = []

    async def upload(data: bytes) -> None:
        sealed.append(await put(blobs, *(data[start : start + 50_000] for start in range(0, len(data), 50_000))))

    async with anyio.create_task_group() as tasks:
        for data in contents:
            tasks.start_soon(upload, data)
    assert {blob.digest for blob in sealed} == {digest_of(data) for data in contents}
    for data in contents:
        assert await content(blobs, digest_of(data)) == data


@pytest.mark.parametrize("digest", HOSTILE_DIGESTS)
async def test_a_digest_is_never_a_path(blobs: Blobs, digest: str) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: content(blobs, digest),
        lambda: blobs.size(digest),
        lambda: blobs.delete(digest),
        lambda: put(blobs, b"x", expected=digest),
    ]
    for attempt in attempts:
        with pytest.raises(Invalid) as refusal:
            await attempt()  # type: ignore[misc]
        assert refusal.value.code == "digest-malformed"
    assert await blobs.digests() == ()


async def test_a_full_memory_is_as_full_as_a_disk() -> None:
    blobs = MemoryBlobs(bytes_max=10)
    await put(blobs, b"12345")
    with pytest.raises(Unavailable) as refusal:
        await put(blobs, b"678901")
    assert refusal.value.code == "blobs-full"
    assert (await put(blobs, b"67890")).size == 5


async def test_a_full_disk_is_said_and_leaves_nothing_and_passes(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8 << 20) as disk:
        blobs = await DirectoryBlobs.open(disk / "blobs")
        kept = await put(blobs, b"kept")
        with filled(disk):
            with pytest.raises(Unavailable) as refusal:
                await put(blobs, *(random.randbytes(1 << 20) for _ in range(4)))
            assert refusal.value.code == "blobs-full"
            assert await content(blobs, kept.digest) == b"kept"
            assert await blobs.digests() == (kept.digest,)
            assert files_in(disk / "blobs" / "incoming") == []
        data = random.randbytes(4 << 20)
        assert await content(blobs, (await put(blobs, data)).digest) == data


async def test_a_blob_that_met_a_full_disk_cannot_be_sealed_when_space_returns(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8 << 20) as disk:
        blobs = await DirectoryBlobs.open(disk / "blobs")
        async with blobs.create(size_max=MANY) as writer:
            with filled(disk), pytest.raises(Unavailable):
                await writer.write(random.randbytes(2 << 20))
            with pytest.raises(Unavailable):
                await writer.seal()
        assert await blobs.digests() == ()


async def test_a_kill_in_the_middle_leaves_nothing_visible_and_the_next_start_sweeps(tmp_path: Path) -> None:
    root = tmp_path / "blobs"
    sealed = kill_while_uploading(root, seals=0)
    assert sealed == []
    assert len(files_in(root / "incoming")) == 1
    assert files_in(root / "sha256") == []
    blobs = await DirectoryBlobs.open(root)
    assert files_in(root / "incoming") == []
    assert await blobs.digests() == ()


async def test_whenever_it_is_killed_what_is_visible_is_whole_and_what_was_sealed_is_there(tmp_path: Path) -> None:
    root = tmp_path / "blobs"
    sealed: list[str] = []
    for _ in range(4):
        sealed += kill_while_uploading(root, seals=random.randint(1, 12))
    blobs = await DirectoryBlobs.open(root)
    visible = await blobs.digests()
    assert set(sealed) <= set(visible)
    for digest in visible:
        assert digest_of(await content(blobs, digest)) == digest
    assert files_in(root / "incoming") == []


async def test_a_sweep_leaves_the_files_of_living_writers(tmp_path: Path) -> None:
    first = await DirectoryBlobs.open(tmp_path / "blobs")
    async with first.create(size_max=MANY) as writer:
        await writer.write(b"alive")
        await DirectoryBlobs.open(tmp_path / "blobs")
        blob = await writer.seal()
    assert await content(first, blob.digest) == b"alive"


async def test_the_event_loop_never_touches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = await DirectoryBlobs.open(tmp_path / "blobs")
    threads: dict[str, set[int]] = {}

    def watched(name: str) -> Callable[..., object]:
        original = getattr(os, name)

        def call(*args: object, **options: object) -> object:
            threads.setdefault(name, set()).add(threading.get_ident())
            return original(*args, **options)

        return call

    for name in ("open", "write", "read", "fsync", "unlink", "replace"):
        monkeypatch.setattr(os, name, watched(name))
    data = random.randbytes(3 << 20)
    blob = await put(blobs, data)
    assert await content(blobs, blob.digest) == data
    async with blobs.create(size_max=MANY):
        pass
    monkeypatch.undo()
    assert threads.keys() >= {"open", "write", "read", "fsync", "unlink", "replace"}
    assert threading.get_ident() not in set().union(*threads.values())


def kill_while_uploading(root: Path, *, seals: int) -> list[str]:
    """The digests a process said it had sealed before it was killed, in the middle of something."""
    command = [sys.executable, "-m", "tests.contracts.uploading", str(root), "one" if seals == 0 else "many"]
    sealed: list[str] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line != "writing\n":
                sealed.append(line.strip())
            if len(sealed) == seals:
                os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    return sealed


def files_in(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]
