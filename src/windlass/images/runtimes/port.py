"""What image-sync asks of a container runtime on a node, and the strict reading of whatever a node prints."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, Final, Protocol, TypeVar

import msgspec
from msgspec import Struct

from windlass.core.distribution import BadReference, Image, Reference, parse_digest, parse_reference
from windlass.images.errors import NodeError, OutputRefused
from windlass.images.settings import Settings
from windlass.images.ssh import Argv, Finished, Shell
from windlass.images.text import clean

T = TypeVar("T")
_PATH: Final = re.compile(r"/[A-Za-z0-9._@+/-]{0,4095}", re.ASCII)
_NO_NAME: Final = frozenset({"<none>:<none>", "<none>@<none>", "<none>", ""})


class Listing(Struct, frozen=True, kw_only=True):
    images: tuple[Image, ...]
    refused: tuple[str, ...] = ()
    """Names that are no references, cleaned for display."""


class Runtime(Protocol):
    """One runtime on one node."""

    kind: ClassVar[str]
    takes_all_names: ClassVar[bool]
    """Removing an image by one name removes it under all."""

    async def fault(self) -> str:
        """Empty when it answers; else why not."""
        ...

    async def images(self) -> Listing: ...

    async def described(self, images: tuple[Image, ...]) -> tuple[Image, ...]:
        """The same images with age and platform, where the listing left them out."""
        ...

    def pull(self, name: Reference) -> Argv: ...

    def remove(self, image: Image, name: Reference) -> Argv: ...

    async def used(self) -> frozenset[str]:
        """Ids and names of images that containers refer to, running or not."""
        ...

    async def storage_path(self) -> str:
        """Where images are kept on the node, for the disk guard."""
        ...


class Asking:
    """Common to all runtimes: run a command, insist that it worked, decode strictly."""

    kind: ClassVar[str]

    def __init__(self, shell: Shell, settings: Settings) -> None:
        self._shell = shell
        self.settings = settings

    async def _ask(self, *argv: str, timeout_seconds: int = 60) -> bytes:
        finished = await self._shell.run(argv, timeout_seconds=timeout_seconds)
        if finished.exit != 0:
            what = f"{argv[0]} {argv[1]} failed (exit {finished.exit}: {finished.stderr})"
            raise NodeError("runtime.failed", what, where=self._shell.name)
        return finished.stdout

    async def _fault_of(self, *argv: str) -> str:
        finished = await self._shell.run(argv, timeout_seconds=20, stdout_max=1 << 20)
        return _why(finished)

    def _decode(self, raw: bytes, kind: type[T]) -> T:
        return decode(raw, kind, self._shell.name)

    def _lines(self, raw: bytes) -> list[str]:
        try:
            return raw.decode("utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise OutputRefused("node.output", "output is not UTF-8", where=self._shell.name) from error

    def _digests(self, raw: bytes) -> list[str]:
        """One digest a line, without doubles."""
        try:
            return list(dict.fromkeys(parse_digest(line) for line in self._lines(raw) if line))
        except BadReference as error:
            raise OutputRefused("node.output", "an image id that is no digest", where=self._shell.name) from error

    def _path(self, text: str) -> str:
        if not _PATH.fullmatch(text):
            raise OutputRefused("node.output", "a storage path that is no path", where=self._shell.name)
        return text


def decode(raw: bytes, kind: type[T], node: str) -> T:
    """JSON of exactly the expected types. NaN, wrong types, broken text and depth are all refused alike."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        what = f"output is not what its runtime prints: {clean(str(error), 120)}"
        raise OutputRefused("node.output", what, where=node, expected="JSON") from error


def read_names(
    tags: Iterable[str] | None, digests: Iterable[str] | None
) -> tuple[tuple[Reference, ...], tuple[Reference, ...], list[str]]:
    """(tags, digests, refused). Runtimes write `<none>` for an image without a name."""
    refused: list[str] = []

    def read(texts: Iterable[str] | None) -> tuple[Reference, ...]:
        names: list[Reference] = []
        for text in texts or ():
            if text in _NO_NAME or text.startswith("<none>@"):
                continue
            try:
                names.append(parse_reference(text))
            except BadReference:
                refused.append(clean(text, 120))
        return tuple(dict.fromkeys(names))

    return read(tags), read(digests), refused


def read_time(text: str) -> int:
    """Unix seconds of an RFC 3339 time; 0 for none (Go's year 1) or nonsense."""
    trimmed = re.sub(r"(\.[0-9]{1,6})[0-9]*", r"\1", text.replace("Z", "+00:00"))
    try:
        moment = datetime.fromisoformat(trimmed)
    except ValueError:
        return 0
    if moment.tzinfo is None or moment.year < 1970:
        return 0
    return max(0, int(moment.timestamp()))


def chunks(items: Sequence[str], size: int) -> list[Sequence[str]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def _why(finished: Finished) -> str:
    if finished.exit == 0:
        return ""
    if finished.exit == 127:
        return "not there"
    return "no answer in time" if finished.is_late else f"exit {finished.exit}: {clean(finished.stderr, 120)}"
