"""Handing out a tree that a workload wrote, and perhaps still writes, without handing out anything else."""

import io
import os
import socket
import tarfile
from pathlib import Path

import pytest

from tests.staging.archives import in_chunks
from windlass.adapters import staging
from windlass.adapters.staging import beneath, pack
from windlass.core.errors import Invalid, NotFound, TooLarge

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["openat2", "walk"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "walk":
        monkeypatch.setattr(pack, "open_beneath", beneath.walk_beneath)
    (tmp_path / "secret").write_text("of another tenant")
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


async def _members(root: Path, path: str) -> dict[str, bytes | str | None]:
    """Content of files, target of links, None for directories."""
    data = b"".join([chunk async for chunk in staging.archive(str(root), path)])
    found: dict[str, bytes | str | None] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            found[member.name] = content.read() if content else member.linkname or None
    return found


async def test_a_tree_comes_back_with_names_content_and_links(root: Path) -> None:
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "e" / ("n" * 200)).write_bytes(b"long name")
    (root / "d" / "é").write_bytes(bytes(range(256)) * 9000)
    (root / "d" / "link").symlink_to("e")
    (root / "empty").touch()
    whole = await _members(root, "")
    assert whole == {
        ".": None,
        "./d": None,
        "./d/e": None,
        f"./d/e/{'n' * 200}": b"long name",
        "./d/link": "e",
        "./d/é": bytes(range(256)) * 9000,
        "./empty": b"",
    }
    assert await _members(root, "empty") == {"empty": b""}
    assert set(await _members(root, "d/e")) == {"e", f"e/{'n' * 200}"}


async def test_what_went_out_can_go_in_again(root: Path, tmp_path: Path) -> None:
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "run").write_bytes(b"#!")
    (root / "a" / "b" / "run").chmod(0o755)
    (root / "a" / "up").symlink_to("b/run")
    other = tmp_path / "other"
    other.mkdir()
    await staging.extract(str(other), "", staging.archive(str(root), ""))
    assert (other / "a" / "up").read_bytes() == b"#!"
    assert os.access(other / "a" / "b" / "run", os.X_OK)


async def test_links_out_of_the_root_are_shown_as_links_and_never_followed(root: Path) -> None:
    (root / "leak").symlink_to(root.parent / "secret")
    (root / "up").symlink_to("..")
    assert await _members(root, "") == {".": None, "./leak": str(root.parent / "secret"), "./up": ".."}
    for path in ("leak", "up", "up/secret", "up/tree/leak"):
        with pytest.raises(NotFound):
            await _members(root, path)


async def test_hard_facts_of_a_file_system_are_left_out(root: Path) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "socket"))
    (root / "file").write_text("x")
    assert await _members(root, "") == {".": None, "./file": b"x"}


@pytest.mark.parametrize("path", ["../secret", "a/../../secret", "/etc/passwd", "a\0b"])
async def test_a_path_outside_is_refused(root: Path, path: str) -> None:
    with pytest.raises(Invalid):
        await _members(root, path)


@pytest.mark.parametrize("path", ["absent", "absent/deeper", "file/deeper"])
async def test_what_is_not_there_is_not_found(root: Path, path: str) -> None:
    (root / "file").touch()
    with pytest.raises(NotFound):
        await _members(root, path)


async def test_a_tree_deeper_than_any_path_is_refused_and_not_crashed_on(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(50):
        os.mkdir("d" * 100, dir_fd=here)
        deeper = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    with pytest.raises(TooLarge):
        await _members(root, "")


async def test_many_levels_need_not_many_descriptors(root: Path) -> None:
    here = root
    for _ in range(300):
        here = here / "d"
    os.makedirs(here)
    before = len(os.listdir("/proc/self/fd"))
    assert len(await _members(root, "")) == 301
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_file_that_shrinks_or_is_replaced_while_it_is_read_keeps_the_archive_whole(root: Path) -> None:
    (root / "a").write_bytes(b"a" * (3 << 20))
    (root / "b").mkdir()
    (root / "c").write_bytes(b"c")
    chunks = staging.archive(str(root), "")
    data = await anext(chunks)
    (root / "a").write_bytes(b"")
    (root / "b").rmdir()
    (root / "b").symlink_to(root.parent)
    (root / "c").unlink()
    (root / "c").symlink_to(root.parent / "secret")
    data += b"".join([chunk async for chunk in chunks])
    assert b"another tenant" not in data
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getmember("./a").size == 3 << 20
        assert tar.getmember("./c").issym()


async def test_a_reader_that_leaves_early_leaves_no_descriptor(root: Path) -> None:
    (root / "a").write_bytes(b"a" * (8 << 20))
    before = len(os.listdir("/proc/self/fd"))
    chunks = staging.archive(str(root), "")
    await anext(chunks)
    await chunks.aclose()  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/fd")) == before
    assert [chunk async for chunk in in_chunks(b"")] == []
