"""Reads containerd's own tables (`ctr images ls`, `ctr content ls`): text, since ctr prints no JSON.

Both have a heading and columns apart by spaces or tabs; a line that does not fit is refused with the whole output.
The content store's labels draw the graph: an index refers to manifests, a manifest to its config and layers.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from windlass.core.distribution import Image, Platform, Reference, is_digest
from windlass.images.errors import OutputRefused
from windlass.images.runtimes.port import Listing, read_names

_REFERS: Final = re.compile(r"containerd\.io/gc\.ref\.content\.(config|[ml]\.[0-9]+)=(sha256:[0-9a-f]{64})", re.ASCII)
_SIZE: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]))?", re.ASCII)
_UNITS: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_PLATFORM: Final = re.compile(r"([a-z0-9]+)/([a-z0-9]+)(?:/([a-z0-9]+))?", re.ASCII)


class Blob(Struct, frozen=True):
    """What a blob of the content store refers to; all empty for a layer or a config."""

    config: str | None = None
    manifests: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()


class Entry(Struct, frozen=True):
    """One line of `ctr images ls`."""

    name: str
    target: str
    size: int
    platforms: tuple[Platform, ...]


def read_content(lines: Iterable[str], node: str) -> dict[str, Blob]:
    blobs: dict[str, Blob] = {}
    for line in _body(lines, "DIGEST"):
        columns = line.split()
        if not columns or not is_digest(columns[0]):
            raise OutputRefused("node.output", "not a table of content", where=node)
        refers = sorted(_REFERS.findall(line), key=lambda found: _rank(found[0]))
        blobs[columns[0]] = Blob(
            config=next((digest for kind, digest in refers if kind == "config"), None),
            manifests=tuple(digest for kind, digest in refers if kind.startswith("m")),
            layers=tuple(digest for kind, digest in refers if kind.startswith("l")),
        )
    return blobs


def read_entries(lines: Iterable[str], node: str) -> list[Entry]:
    entries: list[Entry] = []
    for line in _body(lines, "REF"):
        columns = line.split()
        if len(columns) < 6 or not is_digest(columns[2]):
            raise OutputRefused("node.output", "not a table of images", where=node)
        matches = (_PLATFORM.fullmatch(text) for text in columns[5].split(","))
        platforms = tuple(Platform(match[1], match[2], match[3] or "") for match in matches if match)
        entries.append(Entry(columns[0], columns[2], _size(columns[3], columns[4]), platforms))
    return entries


def manifest_of(target: str, blobs: Mapping[str, Blob]) -> Blob | None:
    """The manifest behind a name: itself, or the one of an index that was pulled here."""
    found = blobs.get(target)
    if found is None or found.config:
        return found
    here = (blobs[digest] for digest in found.manifests if digest in blobs)
    return next((blob for blob in here if blob.config and blob.config in blobs), None)


def to_listing(entries: Iterable[Entry], blobs: Mapping[str, Blob]) -> Listing:
    """Names by what they point to. CRI's own `sha256:…` names are ids, not references."""
    by_target: dict[str, list[Entry]] = {}
    for entry in entries:
        by_target.setdefault(entry.target, []).append(entry)
    images: list[Image] = []
    refused: list[str] = []
    for target, group in by_target.items():
        names = [entry.name for entry in group if not is_digest(entry.name)]
        tags, digests, bad = read_names((n for n in names if "@" not in n), (n for n in names if "@" in n))
        refused += bad
        pulled = tuple(_at(tag, target) for tag in tags)
        manifest = manifest_of(target, blobs)
        images.append(
            Image(
                id=manifest.config if manifest and manifest.config else target,
                tags=tags,
                digests=tuple(dict.fromkeys((*digests, *pulled))),
                size=group[0].size,
                platform=group[0].platforms[0] if len(group[0].platforms) == 1 else None,
                layers=manifest.layers if manifest else (),
            )
        )
    return Listing(images=tuple(images), refused=tuple(refused))


def _at(tag: Reference, target: str) -> Reference:
    return Reference(tag.domain, tag.path, None, target)


def _body(lines: Iterable[str], heading: str) -> list[str]:
    return [line for line in lines if line.strip() and not line.startswith(heading)]


def _size(number: str, unit: str) -> int:
    match = _SIZE.fullmatch(number)
    scale = _UNITS.get(unit, 0)
    return int(match[1]) * scale + int(match[2] or 0) * scale // 10 if match else 0


def _rank(kind: str) -> int:
    return int(kind[2:]) if kind[1] == "." else -1
