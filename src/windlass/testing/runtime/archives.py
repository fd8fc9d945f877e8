"""Tar streams into and out of a fake volume."""

import io
import tarfile

from windlass.core.errors import NotFound
from windlass.testing.runtime.machine import Folder


def unpack(folder: Folder, path: str, data: bytes) -> None:
    prefix = f"{path}/" if path else ""
    folder.make_parents(prefix)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            name = prefix + "/".join(part for part in member.name.split("/") if part not in ("", "."))
            if member.isdir():
                folder.make_parents(name + "/")
            elif member.issym():
                folder.link(name, member.linkname)
            elif member.isfile():
                content = tar.extractfile(member)
                assert content is not None
                folder.write(name, content.read())


def pack(folder: Folder, path: str) -> bytes:
    """Named from the last part of `path` on, as engines do."""
    if folder.goes_through_link(path):
        raise NotFound(f"{path!r} is a link; links are not followed", code="path-is-link")
    if path and path not in folder.files and path not in folder.directories:
        raise NotFound(f"nothing at {path!r} in the volume", code="path-not-found")
    parent = path.rpartition("/")[0]
    start = len(parent) + 1 if parent else 0
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in sorted({*folder.files, *folder.links, *folder.directories}):
            if path and name != path and not name.startswith(path + "/"):
                continue
            _add(tar, folder, name, name[start:])
    return out.getvalue()


def _add(tar: tarfile.TarFile, folder: Folder, name: str, shown: str) -> None:
    entry = tarfile.TarInfo(shown)
    if name in folder.links:
        entry.type, entry.linkname = tarfile.SYMTYPE, folder.links[name]
    elif name in folder.files:
        entry.size = len(folder.files[name])
        tar.addfile(entry, io.BytesIO(folder.files[name]))
        return
    else:
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(entry)
