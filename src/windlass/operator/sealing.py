"""What a run printed, kept past its pod: gzipped into a ConfigMap that belongs to the job; head and tail when it is much."""

import zlib
from collections.abc import AsyncIterator
from typing import Final

import structlog
from msgspec import Struct

from windlass.client.kube.api import CONFIG_MAPS, KubeApi
from windlass.core.errors import Conflict, Invalid, NotFound
from windlass.core.model.ephemeral import LogSeen
from windlass.wire.kube.names import Document, log_name, owner_uid, pod_name, spare_log_name
from windlass.wire.kube.volume import sealed_log

PACKED_MAX: Final = 256 * 1024
HEAD_BYTES: Final = 1 << 20
TAIL_BYTES: Final = 1 << 20
TAIL_LINES: Final = 20
TAIL_CHARACTERS: Final = 500

log = structlog.get_logger(__name__)


class Printed(Struct, frozen=True):
    """What a run said: its last words, and all of it in a size that can be kept."""

    words: str
    packed: bytes


async def read_log(api: KubeApi, job: Document, attempt: int) -> Printed | None:
    """None for a log that cannot be had any more (its node is lost, nothing started) or that is empty; that is no error."""
    metadata = job["metadata"]
    try:
        async with api.log(pod_name(metadata["name"], attempt), metadata["namespace"]) as pieces:
            head, tail, left_out = await _read(pieces)
    except (NotFound, Invalid):
        return None
    return Printed(last_lines(tail or head), pack(head, tail, left_out)) if head else None


async def keep_log(api: KubeApi, job: Document, attempt: int, printed: Printed) -> LogSeen:
    metadata = job["metadata"]
    name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
    for kept in (log_name(name, attempt), spare_log_name(name, attempt, uid)):
        if await _keep(api, sealed_log(kept, name, uid, attempt, printed.packed, printed.words), namespace, uid):
            return LogSeen(name=kept, tail=printed.words)
    log.warning("no name for a log", job=(namespace, name), attempt=attempt)
    return LogSeen(tail=printed.words)


async def _keep(api: KubeApi, document: Document, namespace: str, uid: str) -> bool:
    """Whether it is kept under its name; not, when the name is another's."""
    try:
        await api.create(CONFIG_MAPS, document, namespace)
    except Conflict:
        found = await api.get(CONFIG_MAPS, document["metadata"]["name"], namespace)
        if found is None:
            raise  # refused for something else, such as a quota that others wrote at the same moment: asked again
        return owner_uid(found) == uid
    return True


async def _read(pieces: AsyncIterator[bytes]) -> tuple[bytes, bytes, int]:
    """The beginning, the end if that is not all, and how many bytes lie between."""
    head, tail, seen = bytearray(), bytearray(), 0
    async for piece in pieces:
        seen += len(piece)
        room = HEAD_BYTES - len(head)
        head += piece[:room]
        tail += piece[room:] if room < len(piece) else b""
        if len(tail) > 2 * TAIL_BYTES:
            del tail[:-TAIL_BYTES]
    del tail[:-TAIL_BYTES]
    return bytes(head), bytes(tail), seen - len(head) - len(tail)


def pack(head: bytes, tail: bytes, left_out: int) -> bytes:
    """Gzipped and small enough for an object; noise that does not compress is cut shorter."""
    total = len(head) + left_out + len(tail)
    while len(packed := _gzip(_joined(head, tail, total))) > PACKED_MAX:
        # When the head was all there is, the end of it becomes the tail.
        half = max(len(head), len(tail)) // 2
        head, tail = head[:half], (tail or head)[-half:]
    return packed


def _joined(head: bytes, tail: bytes, total: int) -> bytes:
    left_out = total - len(head) - len(tail)
    middle = f"\n… {left_out} bytes left out …\n".encode() if left_out > 0 else b""
    return head + middle + tail


def last_lines(text: bytes) -> str:
    lines = text.decode(errors="replace").rstrip("\n").split("\n")[-TAIL_LINES:]
    return "\n".join(lines)[-TAIL_CHARACTERS:]


def _gzip(text: bytes) -> bytes:
    packer = zlib.compressobj(level=6, wbits=31)  # 31: with gzip's header, and no time in it
    return packer.compress(text) + packer.flush()
