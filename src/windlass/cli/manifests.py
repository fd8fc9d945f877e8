"""Manifests out of files, each knowing where it stands: whoever is told of a fault has several files before them."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
from msgspec import Struct

from windlass.core.errors import Fault, Invalid, WindlassError

_ITEM: Final = re.compile(r"items\[(\d{1,6})\]\.?(.*)", re.DOTALL)
"""How the server names a field of one manifest among many."""
_HINT: Final = "a manifest begins with apiVersion, kind and metadata"

files_option = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A manifest in YAML or JSON; - is stdin.",
)


class Found(Struct, frozen=True, kw_only=True):
    """One document of a file."""

    file: str
    number: int
    """From 1 on."""
    is_only: bool
    document: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def where(self) -> str:
        place = self.file if self.is_only else f"{self.file}, document {self.number}"
        return f"{place} ({self.name})"


def read_manifests(files: Sequence[str]) -> list[Found]:
    """Of all files, in their order; Invalid with what is wrong in any of them."""
    found: list[Found] = []
    wrong: list[tuple[str, WindlassError]] = []
    for file in files:
        shown = "stdin" if file == "-" else file
        try:
            documents = _documents(file, shown)
        except WindlassError as exc:
            wrong.append((shown, exc))
            continue
        found += [
            Found(file=shown, number=number, is_only=len(documents) == 1, document=document)
            for number, document in enumerate(documents, start=1)
        ]
    if len(wrong) == 1:
        raise wrong[0][1]
    if wrong:
        faults = [fault for shown, exc in wrong for fault in _in_file(shown, exc)]
        raise Invalid(f"{len(wrong)} files cannot be applied", faults=faults, hint=_HINT)
    return found


def in_files(error: WindlassError, found: Sequence[Found]) -> WindlassError:
    """A refusal of all of them, with the fields of each named by its file, its place there and its job."""
    faults = [_placed(fault, found) for fault in error.faults]
    if faults != list(error.faults):
        error.message = f"the manifests have {counted(faults)}"
        error.faults = tuple(faults)
    return error


def counted(faults: Sequence[Fault]) -> str:
    return "one fault" if len(faults) == 1 else f"{len(faults)} faults"


def by_manifest(error: WindlassError, count: int) -> dict[int, list[Fault]]:
    """The faults of each of `count` manifests that has some; none where one is of all of them, or of something else."""
    found: dict[int, list[Fault]] = {}
    for fault in error.faults:
        matched = _ITEM.fullmatch(fault.field)
        if matched is None or int(matched[1]) >= count:
            return {}
        found.setdefault(int(matched[1]), []).append(Fault(matched[2], fault.message))
    return found


def _placed(fault: Fault, found: Sequence[Found]) -> Fault:
    if fault.field == "items":
        return Fault(f"{len(found)} documents", fault.message)
    matched = _ITEM.fullmatch(fault.field)
    if matched is None or int(matched[1]) >= len(found):
        return fault
    where = found[int(matched[1])].where
    return Fault(f"{where}: {matched[2]}" if matched[2] else where, fault.message)


def _documents(file: str, shown: str) -> list[dict[str, Any]]:
    from windlass.wire.yaml12 import load

    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        documents = load(_text(content), depth_max=64, nodes_max=100_000)
    except WindlassError as exc:
        exc.message = f"{shown}: {exc.message}"
        raise
    faults = [fault for i, document in enumerate(documents) for fault in _faults(document, i, len(documents))]
    if not documents:
        faults = [Fault("", "expected at least one document")]
    if faults:
        raise Invalid(f"{shown} cannot be applied", faults=faults, hint=_HINT)
    return documents


def _in_file(shown: str, error: WindlassError) -> list[Fault]:
    named = [Fault(f"{shown}: {fault.field}" if fault.field else shown, fault.message) for fault in error.faults]
    return named or [Fault("", error.message)]


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise Invalid(f"not UTF-8, in line {line}", code="text", hint="save it as UTF-8") from exc


def _faults(document: Any, index: int, count: int) -> list[Fault]:
    """Only what is needed to send it at all; the rest is judged by the server, which names every fault at once."""
    where = f"document {index + 1}: " if count > 1 else ""
    if not isinstance(document, dict):
        return [Fault(where.rstrip(": "), "expected a mapping with apiVersion, kind, metadata and spec")]
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return [Fault(f"{where}metadata.name", "expected a name: apply finds by it what exists already")]
    return []
