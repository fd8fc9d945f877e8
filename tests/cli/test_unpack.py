"""Hostile archives: whatever they hold, nothing is written outside the destination and nothing but files and directories in it."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from windlass.client.unpack import save, unpack
from windlass.core.errors import Invalid


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    out.seek(0)
    return out


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A destination beside a file that must stay as it is."""
    (tmp_path / "canary").write_text("untouched")
    return tmp_path / "home"


def canary_of(home: Path) -> str:
    return (home.parent / "canary").read_text()


def test_files_and_directories_come_home_byte_equal(home: Path) -> None:
    content = os.urandom(700_000)
    tree = archive(
        member("./", type=tarfile.DIRTYPE), member("./a/b/data", content), member("run.sh", b"#!", mode=0o4755)
    )
    told: list[int] = []
    done = unpack(tree, home, on_read=told.append)
    assert (home / "a/b/data").read_bytes() == content
    assert done.files == ("a/b/data", "run.sh")
    assert done.size == 700_002
    assert sum(told) == len(tree.getvalue())
    mode = (home / "run.sh").stat().st_mode & 0o7777
    assert mode & 0o100, "executable stays executable"
    assert not mode & 0o6000, "set-uid does not come along"


@pytest.mark.parametrize(
    "name", ["../canary", "a/../../canary", "/tmp/windlass-canary", "./../canary", "a/b/../../../canary"]
)
def test_a_name_that_leaves_is_refused(home: Path, name: str) -> None:
    with pytest.raises(Invalid) as caught:
        unpack(archive(member(name, b"gotcha")), home)
    assert caught.value.code == "hostile-archive"
    assert canary_of(home) == "untouched"
    assert not Path("/tmp/windlass-canary").exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"type": tarfile.SYMTYPE, "linkname": "../canary"},
        {"type": tarfile.SYMTYPE, "linkname": "inside"},
        {"type": tarfile.LNKTYPE, "linkname": "../canary"},
        {"type": tarfile.FIFOTYPE},
        {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3},
        {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0},
    ],
)
def test_links_and_devices_stay_away_and_are_named(home: Path, fields: dict[str, object]) -> None:
    done = unpack(archive(member("odd", **fields), member("good", b"ok")), home)
    assert done.skipped == ("odd",)
    assert [path.name for path in home.iterdir()] == ["good"]
    assert canary_of(home) == "untouched"


def test_a_link_planted_in_the_destination_is_not_followed(home: Path) -> None:
    home.mkdir()
    (home / "out").symlink_to(home.parent)
    with pytest.raises(Invalid, match="is in the way"):
        unpack(archive(member("out/canary", b"gotcha")), home)
    assert canary_of(home) == "untouched"


def test_a_link_in_the_place_of_a_file_is_replaced_not_written_through(home: Path) -> None:
    home.mkdir()
    (home / "canary").symlink_to(home.parent / "canary")
    unpack(archive(member("canary", b"new")), home)
    assert canary_of(home) == "untouched"
    assert (home / "canary").read_bytes() == b"new"
    assert not (home / "canary").is_symlink()


def test_a_file_where_a_directory_is_needed_is_said_so(home: Path) -> None:
    with pytest.raises(Invalid, match="a is in the way"):
        unpack(archive(member("a", b"x"), member("a/b", b"y")), home)


def test_a_directory_in_the_place_of_a_file_is_said_so(home: Path) -> None:
    with pytest.raises(Invalid, match="is a directory here"):
        unpack(archive(member("a/b", b"x"), member("a", b"y")), home)
    assert [path.name for path in home.iterdir()] == ["a"], "no temporary file stays"


def test_the_later_of_two_members_of_one_name_wins(home: Path) -> None:
    unpack(archive(member("a", b"first"), member("a", b"second")), home)
    assert (home / "a").read_bytes() == b"second"


@pytest.mark.parametrize("cut", [100, 512, 700, 1500])
def test_a_damaged_archive_leaves_no_partial_file(home: Path, cut: int) -> None:
    whole = archive(member("big", b"x" * 2000)).getvalue()
    with pytest.raises(Invalid, match="damaged"):
        unpack(io.BytesIO(whole[:cut]), home)
    assert list(home.iterdir()) == []


def test_what_is_no_archive_is_said_so(home: Path) -> None:
    with pytest.raises(Invalid, match="damaged"):
        unpack(io.BytesIO(b"<html>" + b"x" * 2000), home)


def test_the_top_of_an_archive_can_be_renamed_but_not_out_of_the_way(home: Path) -> None:
    unpack(archive(member("sub", type=tarfile.DIRTYPE), member("sub/x", b"1")), home, top="mine")
    assert (home / "mine/x").read_bytes() == b"1"


def test_one_file_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    class Breaks:
        def __init__(self) -> None:
            self.left = [b"some", b"more"]

        def read(self, size: int = -1, /) -> bytes:
            if not self.left:
                raise ConnectionError
            return self.left.pop(0)

    with pytest.raises(ConnectionError):
        save(Breaks(), tmp_path / "f")
    assert list(tmp_path.iterdir()) == []
    assert save(io.BytesIO(b"all"), tmp_path / "f") == 3
    assert (tmp_path / "f").read_bytes() == b"all"
