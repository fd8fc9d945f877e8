"""A pull as the engine tells of it: many events about layers become one line, and its sentence of failure one of our errors."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from windlass.ports.runtime import ImageUnavailable

DENIED: Final = "image-denied"
UNREACHABLE: Final = "registry-unreachable"


class Progress:
    """The engine's many events about layers, as one line."""

    def __init__(self, image: str) -> None:
        self._image = image
        self._layers: dict[str, tuple[int, int]] = {}
        self._done: set[str] = set()

    def feed(self, event: Mapping[str, Any]) -> None:
        layer, status = str(event.get("id") or ""), str(event.get("status") or "")
        if not layer or status.startswith("Pulling from"):
            return
        detail = event.get("progressDetail") or {}
        current, total = self._layers.get(layer, (0, 0))
        if status == "Downloading" and detail.get("total"):
            current, total = int(detail.get("current") or 0), int(detail["total"])
        if status in ("Download complete", "Pull complete", "Already exists"):
            current = total
            self._done.add(layer)
        self._layers[layer] = (current, total)

    def line(self) -> str:
        if not self._layers:
            return f"pulling {self._image}"
        here = sum(current for current, _ in self._layers.values())
        total = sum(total for _, total in self._layers.values())
        size = f", {_megabytes(here)} of {_megabytes(total)}" if total else ""
        return f"pulling {self._image}: layer {len(self._done)}/{len(self._layers)}{size}"


def unavailable(image: str, message: str) -> ImageUnavailable:
    """Engines say why in a sentence only; these are the ones that Docker, Podman and registries write."""
    for pattern, code, is_transient, hint in _REASONS:
        if pattern.search(message):
            return ImageUnavailable(f"{image}: {message}", is_transient=is_transient, code=code, hint=hint)
    return ImageUnavailable(f"{image}: {message}", is_transient=True)


_REASONS: Final = (
    (
        re.compile(
            r"pull access denied|unauthorized|authentication required|denied|forbidden|no basic auth|username.or.password",
            re.I,
        ),
        DENIED,
        False,
        "check the name, or log in: windlass registries login REGISTRY -u USER",
    ),
    (
        re.compile(r"manifest unknown|name unknown|not found|does not exist|no such image|no match", re.I),
        "image-not-found",
        False,
        "check the name and the tag",
    ),
    (
        re.compile(r"invalid reference|invalid repository|parsing reference", re.I),
        "image-name",
        False,
        "like registry/name:tag",
    ),
    (
        re.compile(
            r"dial |no such host|connection refused|connection reset|i/o timeout|timeout|deadline|TLS|HTTP response to HTTPS"
            r"|unreachable|EOF|pinging|server misbehaving|temporary failure|too ?many ?requests|50[0234]",
            re.I,
        ),
        UNREACHABLE,
        True,
        "check the registry's address and the network of this node",
    ),
)


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.0f} MB"


async def json_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    pending = b""
    async for chunk in chunks:
        *whole, pending = (pending + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
    if pending.strip():
        yield pending
