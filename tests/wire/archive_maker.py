"""Archives for tests: honest ones, and whatever an attacker would put in one."""

import io
import tarfile
from collections.abc import Callable

Change = Callable[[tarfile.TarInfo], None]


def archive(files: dict[str, bytes] | None = None, *odd: tarfile.TarInfo, fmt: int = tarfile.GNU_FORMAT) -> bytes:
    """`files` as regular files, then the odd entries as they are."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=fmt) as tar:
        for name, data in (files or {}).items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in odd:
            tar.addfile(info, io.BytesIO(b"x" * info.size))
    return buffer.getvalue()


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, *, target: str = "", size: int = 0, **fields: int
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    info.size = size
    for field, value in fields.items():
        setattr(info, field, value)
    return info
