"""Whatever an archive says, nothing outside the root is touched, and nothing but files, directories and inner links is made."""

import contextlib
import os
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.staging.archives import ended, entry, in_chunks, packed, pax, pax_record, raw
from windlass.adapters import staging
from windlass.adapters.staging import Limits, beneath, unpack
from windlass.core.errors import Invalid, NotFound, TooLarge

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["openat2", "walk"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root in a directory of its own, with a canary beside it; once with the kernel's help, once without."""
    if request.param == "walk":
        monkeypatch.setattr(unpack, "open_beneath", beneath.walk_beneath)
    (tmp_path / "canary").write_text("untouched")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def _assert_nothing_escaped(root: Path) -> None:
    assert sorted(path.name for path in root.parent.iterdir()) == ["canary", "root"]
    assert (root.parent / "canary").read_text() == "untouched"
    assert not [path for path in root.rglob("*") if path.name.startswith(".windlass-")]


LINK = tarfile.SYMTYPE
HOSTILE = {
    "a name that climbs": (entry("../canary", b"!"),),
    "a name that climbs from within": (entry("a/../../canary", b"!"),),
    "an absolute name": (entry("/canary", b"!"),),
    "an absolute name in a long GNU header": (raw(b"L", b"././@LongLink", b"/etc/x\0"), raw(b"0", b"a", b"!")),
    "a climbing name in a PAX header": (pax(path="../canary"), raw(b"0", b"a", b"!")),
    "an absolute name in a PAX header": (pax(path="/canary"), raw(b"0", b"a", b"!")),
    "a NUL in a PAX name": (raw(b"x", b"p", pax_record("path", b"a\0../canary")), raw(b"0", b"a", b"!")),
    "a climbing link": (entry("up", kind=LINK, link="../canary"),),
    "an absolute link": (entry("up", kind=LINK, link="/etc/passwd"),),
    "a link that climbs after going down": (entry("up", kind=LINK, link="a/../../canary"),),
    "a link through a link to here": (
        entry("here", kind=LINK, link="."),
        entry("up", kind=LINK, link="here/here/../../canary"),
    ),
    "a PAX link target": (pax(linkpath="../canary"), raw(b"2", b"up", link=b"harmless")),
    "a GNU link target": (raw(b"K", b"././@LongLink", b"../canary\0"), raw(b"2", b"up", link=b"harmless")),
    "an empty link": (raw(b"2", b"up"),),
    "writing through a link to a directory": (
        entry("d", kind=tarfile.DIRTYPE),
        entry("l", kind=LINK, link="d"),
        entry("l/file", b"!"),
    ),
    "making a directory through a link": (
        entry("l", kind=LINK, link="nowhere"),
        entry("l/deeper", kind=tarfile.DIRTYPE),
    ),
    "a directory where a link is": (entry("l", kind=LINK, link="nowhere"), entry("l", kind=tarfile.DIRTYPE)),
    "a file where a directory is": (entry("d", kind=tarfile.DIRTYPE), entry("d", b"!")),
    "a link where a directory is": (entry("d", kind=tarfile.DIRTYPE), entry("d", kind=LINK, link="x")),
    "a directory where a file is": (entry("f", b"!"), entry("f/g", b"!")),
    "a hard link": (entry("hard", kind=tarfile.LNKTYPE, link="../canary"),),
    "a hard link to inside": (entry("a", b"!"), entry("hard", kind=tarfile.LNKTYPE, link="a")),
    "a character device": (entry("null", kind=tarfile.CHRTYPE, devmajor=1, devminor=3),),
    "a block device": (entry("disk", kind=tarfile.BLKTYPE, devmajor=8),),
    "a fifo": (entry("fifo", kind=tarfile.FIFOTYPE),),
    "a GNU sparse file": (raw(b"S", b"sparse"),),
    "a PAX sparse file": (pax(GNU__sparse__major="1", GNU__sparse__minor="0"), raw(b"0", b"a", b"!")),
    "a GNU volume header": (raw(b"V", b"volume"),),
    "an unknown kind": (raw(b"Q", b"q"),),
    "a file without a name": (raw(b"0", b""),),
    "a file named like the root": (raw(b"0", b"./"[:1]),),
    "a name too long for a file system": (entry("n" * 256, b"!"),),
    "a path too long for the kernel": (entry("d/" * 30 + "n" * 200 + "/" + "m" * 4000, b"!"),),
    "a nesting too deep": (entry("d/" * 65 + "f", b"!"),),
    "a header for a name of a gigabyte": (raw(b"x", b"p", size=1 << 30),),
    "a long-name header of a gigabyte": (raw(b"L", b"p", size=1 << 30),),
    "a PAX record that lies about its length": (raw(b"x", b"p", b"99 path=a\n"), raw(b"0", b"a")),
    "a PAX record without an end": (raw(b"x", b"p", b"9 path=ab"), raw(b"0", b"a")),
    "a PAX record of length zero": (raw(b"x", b"p", b"0 path=a\n"), raw(b"0", b"a")),
    "a PAX size that is no number": (pax(size="-1"), raw(b"0", b"a")),
    "a PAX size of 400 digits": (pax(size="9" * 400), raw(b"0", b"a")),
    "a negative size": (raw(b"0", b"a")[:124] + b"\xff" * 12 + raw(b"0", b"a")[136:],),
    "a checksum that does not fit": (bytes([*b"x", *raw(b"0", b"a")[1:]]),),
    "no tar at all": (b"PK\x03\x04" + bytes(508),),
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE.keys())
async def test_it_is_refused_and_nothing_outside_is_touched(root: Path, members: tuple[bytes, ...]) -> None:
    with pytest.raises(Invalid):
        await staging.extract(str(root), "", in_chunks(ended(*members)))
    _assert_nothing_escaped(root)
    assert all(os.path.realpath(path).startswith(str(root)) for path in root.rglob("*"))


@pytest.mark.parametrize("size", [1 << 37, 1 << 40, (1 << 63) - 1, (1 << 87)])
async def test_a_file_larger_than_allowed_is_refused_before_a_byte_is_written(root: Path, size: int) -> None:
    with pytest.raises(TooLarge):
        await staging.extract(str(root), "", in_chunks(raw(b"0", b"huge", size=size) + bytes(4096)))
    assert list(root.iterdir()) == []


async def test_too_many_bytes_and_too_many_entries_are_refused(root: Path) -> None:
    archive = ended(*(entry(f"f{n}", b"12345") for n in range(10)))
    with pytest.raises(TooLarge, match="bytes"):
        await staging.extract(str(root), "", in_chunks(archive), limits=Limits(bytes_max=49))
    with pytest.raises(TooLarge, match="entries"):
        await staging.extract(str(root), "", in_chunks(archive), limits=Limits(entries_max=9))
    await staging.extract(str(root), "", in_chunks(archive), limits=Limits(bytes_max=50, entries_max=10))
    assert len(list(root.iterdir())) == 10


@pytest.mark.parametrize("cut", [0, 1, 511, 512, 600, 1023, 1024])
async def test_an_archive_that_ends_early_leaves_no_part_of_a_file(root: Path, cut: int) -> None:
    archive = entry("whole", b"x" * 700)[:cut]
    with pytest.raises(Invalid, match="ends early"):
        await staging.extract(str(root), "", in_chunks(archive, 100))
    assert list(root.iterdir()) == []


async def test_a_broken_stream_leaves_no_part_of_a_file(root: Path) -> None:
    async def broken():  # type: ignore[no-untyped-def]
        yield entry("whole", b"x" * 5000)[:2000]
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await staging.extract(str(root), "", broken())
    assert list(root.iterdir()) == []


async def test_the_same_name_again_replaces_and_never_writes_through(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "canary")
    await staging.extract(
        str(root), "", in_chunks(ended(entry("a", b"first"), entry("a", b"second"), entry("link", b"mine")))
    )
    assert (root / "a").read_bytes() == b"second"
    assert (root / "link").read_bytes() == b"mine"
    assert not (root / "link").is_symlink()
    _assert_nothing_escaped(root)


async def test_a_link_that_lay_in_wait_is_not_walked_through(root: Path) -> None:
    (root / "out").symlink_to(root.parent)
    with pytest.raises(Invalid):
        await staging.extract(str(root), "", in_chunks(ended(entry("out/canary", b"!"))))
    with pytest.raises(NotFound):
        await staging.extract(str(root), "out", in_chunks(ended(entry("canary", b"!"))))
    with pytest.raises(NotFound):
        await staging.extract(str(root), "out/root", in_chunks(ended(entry("f", b"!"))))
    _assert_nothing_escaped(root)


@pytest.mark.parametrize("path", ["..", "a/../..", "/", "/etc", "a\0"])
async def test_a_target_outside_is_refused(root: Path, path: str) -> None:
    with pytest.raises(Invalid):
        await staging.extract(str(root), path, in_chunks(ended(entry("f", b"!"))))
    _assert_nothing_escaped(root)


async def test_modes_are_masked_and_owners_ignored(root: Path) -> None:
    members = (
        entry("suid", b"x", mode=0o7777, uid=12345, gid=12345),
        entry("closed", b"x", mode=0),
        entry("sticky", kind=tarfile.DIRTYPE, mode=0o7000),
    )
    await staging.extract(str(root), "", in_chunks(ended(*members)))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in root.iterdir()}
    assert modes == {"suid": 0o777, "closed": 0o600, "sticky": 0o700}
    assert {path.stat().st_uid for path in root.iterdir()} == {os.getuid()}


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("chunk", [7, 511, 512, 513, 100_000])
async def test_what_honest_tools_write_arrives_byte_for_byte(root: Path, form: int, chunk: int) -> None:
    deep = "/".join(["directory"] * 20) + "/file" if form != tarfile.USTAR_FORMAT else "a/b/file"
    names = {"plain": b"x" * 1000, "empty": b"", "block": b"y" * 512, deep: b"deep", "name with spaces é": b"utf"}
    members = [(tarfile.TarInfo(name), data) for name, data in names.items()]
    link = tarfile.TarInfo("a/link")
    link.type, link.linkname = LINK, "../plain"
    await staging.extract(str(root), "in/put", in_chunks(packed(*members, (link, b""), form=form), chunk))
    for name, data in names.items():
        assert (root / "in/put" / name).read_bytes() == data
    assert (root / "in/put/a/link").read_bytes() == names["plain"]
    _assert_nothing_escaped(root)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
async def test_no_mutation_of_an_archive_reaches_outside(data: st.DataObject) -> None:
    archive = bytearray(
        ended(
            entry("d", kind=tarfile.DIRTYPE),
            entry("d/l", kind=LINK, link="../d"),
            pax(path="d/some/longer/name"),
            raw(b"0", b"a", b"!" * 20),
            entry("d/f", b"content"),
        )
    )
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(archive) - 1))
        archive[place] = data.draw(st.sampled_from(b"./01257LKxgS\0\xff\x80 ") | st.integers(0, 255))
        if data.draw(st.booleans()):  # keep the checksum right, so that more of it is believed
            start = place - place % 512
            archive[start + 148 : start + 156] = b" " * 8
            archive[start + 148 : start + 156] = b"%06o\0 " % (sum(archive[start : start + 512]) % 8**6)
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory).resolve()
        (top / "canary").write_text("untouched")
        (top / "root").mkdir()
        with contextlib.suppress(Invalid, TooLarge):
            await staging.extract(str(top / "root"), "", in_chunks(bytes(archive)))
        _assert_nothing_escaped(top / "root")
        for path in (top / "root").rglob("*"):
            assert path.is_symlink() or path.is_file() or path.is_dir()
            if path.is_symlink():
                assert os.path.realpath(path).startswith(str(top / "root"))
