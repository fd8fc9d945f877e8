"""The tar filter leaves members out and touches nothing else, however the stream is cut."""

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.images.archive import BadArchive, MemberFilter


def an_archive(members: dict[str, bytes], kind: int = tarfile.USTAR_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mtime = 1.5  # pax writes an extension header for this
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def filtered(archive: bytes, skip: set[str], cut: int) -> bytes:
    members = MemberFilter(frozenset(skip))
    return b"".join(piece for at in range(0, len(archive), cut) for piece in members.feed(archive[at : at + cut]))


def contents(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {entry.name: opened.extractfile(entry).read() for entry in opened}  # type: ignore[union-attr]


MEMBERS = {
    "a/layer.tar": b"1" * 1300,
    "b/layer.tar": b"2" * 512,
    "c.json": b"{}",
    "empty": b"",
    "d/layer.tar": b"3" * 77,
}


@given(st.sets(st.sampled_from(sorted(MEMBERS))), st.integers(1, 5000))
def test_skipped_members_are_gone_and_the_others_are_whole(skip: set[str], cut: int) -> None:
    expected = {name: content for name, content in MEMBERS.items() if name not in skip}
    assert contents(filtered(an_archive(MEMBERS), skip, cut)) == expected


def test_without_anything_to_skip_every_byte_passes() -> None:
    archive = an_archive(MEMBERS)
    assert filtered(archive, set(), 100) == archive


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_extension_headers_stay_with_their_member(kind: int) -> None:
    long_name = "x" * 150 + "/layer.tar"
    members = {"a/layer.tar": b"1" * 600, long_name: b"2" * 600, "z": b"3"}
    assert contents(filtered(an_archive(members, kind), {"nothing"}, 333)) == members


def test_a_stream_that_is_no_archive_is_refused() -> None:
    with pytest.raises(BadArchive):
        filtered(b"x" * 2048, {"a"}, 100)
