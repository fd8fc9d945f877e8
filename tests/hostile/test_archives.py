"""Uploads that mean harm: refused at the door, or written out in a form in which they cannot do any."""

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.archive_maker import archive, entry
from windlass.core.errors import Invalid, TooLarge
from windlass.wire.archives import ArchiveFilter, ArchiveLimits


def passed(body: bytes, *, limits: ArchiveLimits | None = None, step: int = 1 << 16) -> tuple[bytes, int]:
    """The canonical archive and how many entries it has."""
    door = ArchiveFilter(limits)
    out = b"".join(piece for start in range(0, len(body), step) for piece in door.feed(body[start : start + step]))
    return out + door.finish(), door.entries


def members(body: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        return tar.getmembers()


def contents(body: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar if info.isreg()}  # type: ignore[union-attr]


def link(name: str, target: str) -> tarfile.TarInfo:
    return entry(name, tarfile.SYMTYPE, target=target)


def folder(name: str) -> tarfile.TarInfo:
    return entry(name, tarfile.DIRTYPE)


def patched(body: bytes, at: int, data: bytes) -> bytes:
    """One header field changed, the checksum made right again."""
    head = bytearray(body[:512])
    head[at : at + len(data)] = data
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + body[512:]


def pax(name: str, **records: str) -> bytes:
    info = tarfile.TarInfo(name)
    info.pax_headers = records
    return archive({}, info, fmt=tarfile.PAX_FORMAT)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "an absolute path": lambda: archive({}, entry("/etc/passwd")),
    "two slashes in front": lambda: archive({}, entry("//etc/passwd")),
    "a climb": lambda: archive({}, entry("../x")),
    "a climb in the middle": lambda: archive({}, entry("a/../../x")),
    "a climb that comes back": lambda: archive({}, entry("a/../b")),
    "a climb at the end": lambda: archive({}, folder("a/..")),
    "only dots": lambda: archive({}, entry("..")),
    "a climb in a long name": lambda: archive({}, entry("a/" * 100 + "../" * 101 + "x")),
    "a climb in a pax record": lambda: pax("innocent", path="../../etc/passwd"),
    "an absolute pax path": lambda: pax("innocent", path="/etc/passwd"),
    "a NUL in a pax path": lambda: pax("innocent", path="a\0b"),
    "a newline in a name": lambda: archive({}, entry("a\nb")),
    "an escape sequence in a name": lambda: archive({}, entry("a\x1b[31mb")),
    "a name of four thousand characters": lambda: archive({}, entry("a/" * 2000 + "b")),
    "a part of 256 characters": lambda: archive({}, entry("a" * 256)),
    "a name that is no UTF-8": lambda: patched(archive({"abc": b""}), 0, b"a\xffc"),
    "a link to an absolute path": lambda: archive({}, link("l", "/etc/passwd")),
    "a link out": lambda: archive({}, link("l", "../x")),
    "a link out of a folder": lambda: archive({}, link("a/l", "../../x")),
    "a link that goes down and out": lambda: archive({}, link("a/b/l", "c/../../../../x")),
    "a link that climbs after a name": lambda: archive({}, link("l", "a/../b")),
    "a link to nothing": lambda: archive({}, link("l", "")),
    "a link with a control character": lambda: archive({}, link("l", "a\x01b")),
    "a file through a link": lambda: archive({}, link("l", "."), entry("l/x")),
    "a file through a link to a folder": lambda: archive({}, folder("d"), link("l", "d"), entry("l/x")),
    "a folder over a link": lambda: archive({}, link("l", "a"), folder("l"), entry("l/x")),
    "a link over a folder": lambda: archive({}, folder("l"), link("l", ".")),
    "a link over a file's folder": lambda: archive({"l/x": b""}, link("l", ".")),
    "a file over a link": lambda: archive({}, link("l", "a"), entry("l")),
    "a file below a file": lambda: archive({"a": b"", "a/b": b""}),
    "a file twice": lambda: archive({"a": b"1"}, entry("a")),
    "a file twice, differently written": lambda: archive({"a/b": b"1"}, entry("./a//b")),
    "a file instead of the root": lambda: archive({}, entry(".")),
    "a hard link": lambda: archive({"a": b""}, entry("b", tarfile.LNKTYPE, target="a")),
    "a hard link out": lambda: archive({}, entry("b", tarfile.LNKTYPE, target="/etc/passwd")),
    "a character device": lambda: archive({}, entry("d", tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "a block device": lambda: archive({}, entry("d", tarfile.BLKTYPE, devmajor=8)),
    "a named pipe": lambda: archive({}, entry("p", tarfile.FIFOTYPE)),
    "a sparse file": lambda: archive({}, entry("s", tarfile.GNUTYPE_SPARSE)),
    "a sparse file by pax": lambda: pax("s", **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}),
    "an unknown type": lambda: archive({}, entry("u", b"Z")),
    "a volume label": lambda: archive({}, entry("v", b"V")),
    "a wrong checksum": lambda: b"x" + archive({"abc": b""})[1:],
    "a size beyond any disk": lambda: patched(archive({"a": b""}), 124, b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
    "a negative size": lambda: patched(archive({"a": b""}), 124, b"\xff" * 12),
    "a size that is no number": lambda: patched(archive({"a": b""}), 124, b"hello world\0"),
    "a pax size that is no number": lambda: pax("a", size="-1"),
    "a pax record that lies about its length": lambda: patched(archive({"x": b"99 path=../x\n"}), 156, b"x"),
    "a folder with bytes": lambda: patched(archive({"a": b"x" * 512}), 156, b"5"),
    "a link with bytes": lambda: patched(archive({"a": b"x" * 512}), 156, b"2"),
    "a cut header": lambda: archive({"a": b"hello"})[:300],
    "a cut file": lambda: archive({"a": b"x" * 5000})[:3000],
    "no end mark": lambda: archive({"a": b"hello"})[:1024],
    "something after the end": lambda: archive({"a": b""}) + archive({"b": b""}),
    "a long name without its entry": lambda: archive({}, entry("a" * 200))[:1024] + bytes(1024),
    "nothing": lambda: b"",
    "one byte": lambda: b"x",
    "a text": lambda: b"hello, this is no archive" * 50,
    "a zip": lambda: b"PK\x03\x04" + bytes(2000),
    "half a gzip": lambda: gzip.compress(archive({"a": os.urandom(5000)}))[:2000],
    "a gzip with a wrong sum": lambda: gzip.compress(archive({"a": b"x"}))[:-8] + bytes(8),
    "a gzip with something behind": lambda: gzip.compress(archive({"a": b"x"})) + b"hello",
    "a gzip of a gzip": lambda: gzip.compress(gzip.compress(archive({"a": b"x"}))),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_refused(case: str) -> None:
    body = HOSTILE[case]()
    for step in (1 << 20, 100):
        with pytest.raises((Invalid, TooLarge)) as refusal:
            passed(body, step=step)
        assert refusal.value.message.isprintable()


def test_a_bomb_is_stopped_long_before_it_is_unpacked() -> None:
    limits = ArchiveLimits(ratio_free_bytes=1 << 20, ratio_max=50)
    bomb = gzip.compress(archive({"zeros": bytes(64 << 20)}), compresslevel=9)
    door = ArchiveFilter(limits)
    seen = 0
    with pytest.raises(TooLarge) as refusal:
        for piece in door.feed(bomb):
            seen += len(piece)
    assert refusal.value.code == "archive-bomb"
    assert seen < 8 << 20


def test_a_bomb_of_many_members_is_stopped_as_well() -> None:
    limits = ArchiveLimits(ratio_free_bytes=1 << 20, ratio_max=50)
    member = gzip.compress(bytes(1 << 20), compresslevel=9)
    head = gzip.compress(archive({"zeros": bytes(64 << 20)})[:512])
    with pytest.raises(TooLarge):
        passed(head + member * 60, limits=limits)


LIMITED: dict[str, tuple[ArchiveLimits, Callable[[], bytes]]] = {
    "too many entries": (ArchiveLimits(entries_max=10), lambda: archive({f"f{n}": b"" for n in range(11)})),
    "too many bytes": (ArchiveLimits(bytes_max=1000), lambda: archive({"a": b"x" * 600, "b": b"x" * 600})),
    "a size that is only claimed": (ArchiveLimits(bytes_max=1000), lambda: archive({"a": b"x" * 2000})[:512]),
    "names without end": (
        ArchiveLimits(names_bytes_max=1000),
        lambda: archive({"d/" * 50 + f"f{n}": b"" for n in range(20)}),
    ),
}


@pytest.mark.parametrize("case", LIMITED)
def test_an_archive_past_its_bounds_is_too_large(case: str) -> None:
    limits, body = LIMITED[case]
    with pytest.raises(TooLarge):
        passed(body(), limits=limits)


FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("step", [1, 511, 512, 1 << 20])
def test_an_honest_archive_keeps_its_files(fmt: str, step: int) -> None:
    files = {"a.txt": b"hello", "d/e/f.bin": bytes(range(256)) * 9, "empty": b"", "d/x": b"y" * 512}
    out, entries = passed(archive(files, folder("d/void"), fmt=FORMATS[fmt]), step=step)
    assert contents(out) == files
    assert entries == len(files) + 1


def test_long_and_foreign_names_survive() -> None:
    files = {"a" * 120: b"1", "d/" * 60 + "x": b"2", "grün/日本.txt": b"3", "y" * 255: b"4"}
    for fmt in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        assert contents(passed(archive(files, fmt=fmt))[0]) == files


def test_what_goes_out_has_our_owners_and_plain_modes() -> None:
    odd = entry("tool", mode=0o6777, uid=1234, gid=99)
    odd.uname = "root"
    plain = entry("plain", mode=0o600)
    shown = {info.name: info for info in members(passed(archive({}, odd, plain, folder("d")))[0])}
    assert (shown["tool"].mode, shown["plain"].mode, shown["d"].mode) == (0o777, 0o666, 0o777)
    assert {(info.uid, info.gid, info.uname, info.gname) for info in shown.values()} == {(0, 0, "", "")}


def test_links_that_stay_inside_are_kept() -> None:
    body = archive(
        {"a/real": b"x"}, link("l1", "a/real"), link("a/l2", "../l1"), link("a/b/l3", "../../a/real"), link("here", ".")
    )
    shown = {info.name: info.linkname for info in members(passed(body)[0]) if info.issym()}
    assert shown == {"l1": "a/real", "a/l2": "../l1", "a/b/l3": "../../a/real", "here": "."}


def test_what_tar_itself_writes_is_taken(tmp_path: object) -> None:
    body = archive({}, folder("./"), folder("./src"), entry("./src/main.py"))
    assert [info.name for info in members(passed(body)[0])] == ["src", "src/main.py"]


def test_bytes_in_the_padding_are_not_passed_on() -> None:
    body = bytearray(archive({"a": b"hello"}))
    body[512 + 5 : 1024] = b"S" * (512 - 5)
    assert b"SSS" not in passed(bytes(body))[0]


def test_a_gzipped_archive_of_several_members_is_one_archive() -> None:
    body = archive({"a": b"hello" * 1000})
    parts = gzip.compress(body[:700]) + gzip.compress(body[700:]) + bytes(100)
    for step in (1, 1 << 20):
        assert contents(passed(parts, step=step)[0]) == {"a": b"hello" * 1000}


def extract_naively(body: bytes) -> Iterable[str]:
    """Where each entry would land for whoever follows every link, as the most careless extractor would."""
    links: dict[str, str] = {}
    for info in members(body):
        if info.issym():
            links[info.name] = info.linkname
    for info in members(body):
        yield _resolve(info.name, links, 0)


def _resolve(path: str, links: dict[str, str], depth: int) -> str:
    if depth > 40:
        return ""
    where: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not where:
                return "ESCAPED"
            where.pop()
        elif part not in ("", "."):
            where.append(part)
            joined = "/".join(where)
            if joined in links:
                target = _resolve("/".join([*where[:-1], links[joined]]), links, depth + 1)
                if target in ("ESCAPED", ""):
                    return target
                where = target.split("/")
    return "/".join(where)


NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
TARGETS = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=4).map("/".join)


@settings(max_examples=500)
@given(st.lists(st.tuples(st.sampled_from("flld"), NAMES, TARGETS), min_size=1, max_size=5))
def test_nothing_that_passes_leads_outside_however_links_are_followed(entries: list[tuple[str, str, str]]) -> None:
    kinds = {"f": tarfile.REGTYPE, "l": tarfile.SYMTYPE, "d": tarfile.DIRTYPE}
    made = [entry(name, kinds[kind], target=target if kind == "l" else "") for kind, name, target in entries]
    with suppress(Invalid):
        assert "ESCAPED" not in set(extract_naively(passed(archive({}, *made))[0]))


@given(st.binary(max_size=3000), st.integers(1, 700), st.booleans())
def test_no_bytes_break_the_door(noise: bytes, step: int, is_zipped: bool) -> None:
    body = archive({"a": b"hello"})[:600] + noise
    if is_zipped:
        body = zlib.compress(body, wbits=31)
    try:
        out, _ = passed(body, step=step)
    except (Invalid, TooLarge):
        return
    assert members(out) is not None


@given(st.binary(min_size=512, max_size=512))
def test_no_header_breaks_the_door(block: bytes) -> None:
    body = patched(block + bytes(1024), 148, b"")
    try:
        out, _ = passed(body)
    except (Invalid, TooLarge):
        return
    assert members(out) is not None
