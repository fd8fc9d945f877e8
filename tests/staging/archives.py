"""Tar streams as nobody's tool would write them."""

import io
import tarfile
from collections.abc import AsyncIterator, Callable

Change = Callable[[tarfile.TarInfo], None]


def entry(name: str, data: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "", **fields: object) -> bytes:
    """One entry, header and padded content, without the end."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, len(data), 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.PAX_FORMAT) + data + bytes(-len(data) % 512)


def raw(kind: bytes, name: bytes, data: bytes = b"", *, size: int | None = None, link: bytes = b"") -> bytes:
    """A header as bytes, so that it may say what tarfile refuses to."""
    block = bytearray(512)
    block[0 : len(name)] = name
    block[100:108] = b"0000644\0"
    block[108:116] = block[116:124] = b"0000000\0"
    block[124:136] = b"%011o\0" % (len(data) if size is None else size) if (size or 0) < 8**11 else _large(size or 0)
    block[136:148] = b"00000000000\0"
    block[156:157] = kind
    block[157 : 157 + len(link)] = link
    block[257:265] = b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + data + bytes(-len(data) % 512)


def pax(**records: str) -> bytes:
    body = b""
    for key, value in records.items():
        body += pax_record(key.replace("__", "."), value.encode())
    return raw(b"x", b"pax", body)


def pax_record(key: str, value: bytes) -> bytes:
    content = b" " + key.encode() + b"=" + value + b"\n"
    length = len(content)
    while len(str(length)) + len(content) != length:
        length = len(str(length)) + len(content)
    return str(length).encode() + content


def ended(*entries: bytes) -> bytes:
    return b"".join(entries) + bytes(1024)


def packed(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


async def in_chunks(data: bytes, size: int = 700) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def _large(size: int) -> bytes:
    return b"\x80" + size.to_bytes(11, "big")
