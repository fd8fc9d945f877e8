"""Images: is it here, and if not, pull it, telling people how far it is and why it cannot be had."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from windlass.adapters.runtime.docker.engine import IDLE_SECONDS, Engine
from windlass.adapters.runtime.docker.validation import parse_image
from windlass.core.errors import Invalid, NotFound, Unavailable, WindlassError
from windlass.core.model.ids import Millis
from windlass.ports.clock import Clock
from windlass.ports.runtime import ImageUnavailable

TELL_EVERY: Final = Millis(1_000)
_ROOT: Final = frozenset({"", "0", "root"})


class Images:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._is_root: dict[str, bool] = {}
        """By image, from its last look-up: a start must not pay for a second one."""

    async def ensure(self, image: str) -> AsyncIterator[str]:
        try:
            name, tag = parse_image(image)
        except Invalid as exc:
            raise ImageUnavailable(exc.faults[0].message, is_transient=False, code="image-name") from exc
        if await self.record(image) is not None:
            return
        yield f"pulling {image}"
        async for line in self._pull(image, name, tag):
            yield line
        if await self.record(image) is None:
            raise ImageUnavailable(f"{image} was pulled, yet the engine does not have it", is_transient=True)

    async def record(self, image: str) -> Mapping[str, Any] | None:
        """The engine's own record, None when it does not have it."""
        try:
            found: Mapping[str, Any] = await self._engine.call("GET", f"/images/{image}/json")
        except NotFound:
            return None
        user = str((found.get("Config") or {}).get("User") or "")
        self._is_root[image] = user.partition(":")[0] in _ROOT
        return found

    async def runs_as_root(self, image: str) -> bool:
        if image not in self._is_root:
            await self.record(image)
        return self._is_root.get(image, True)

    async def _pull(self, image: str, name: str, tag: str) -> AsyncIterator[str]:
        progress, told_at, told = Progress(image), self._clock.now(), ""
        # Without a tag the engine would fetch every tag there is.
        params = {"fromImage": name, "tag": tag}
        try:
            async with self._engine.stream(
                "POST", "/images/create", params=params, idle_seconds=IDLE_SECONDS
            ) as answer:
                async for raw in _json_lines(answer.content.iter_any()):
                    event = msgspec.json.decode(raw)
                    if event.get("error"):
                        raise unavailable(image, str(event["error"]))
                    progress.feed(event)
                    line, now = progress.line(), self._clock.now()
                    if line != told and now - told_at >= TELL_EVERY:
                        told, told_at = line, now
                        yield line
        except (NotFound, Invalid, Unavailable) as exc:
            if exc.code == "engine-unavailable":
                raise
            raise unavailable(image, exc.message) from exc


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


def unavailable(image: str, message: str) -> WindlassError:
    """Engines say why in a sentence only; these are the ones that Docker, Podman and registries write."""
    for pattern, code, is_transient, hint in _REASONS:
        if pattern.search(message):
            return ImageUnavailable(f"{image}: {message}", is_transient=is_transient, code=code, hint=hint)
    return ImageUnavailable(f"{image}: {message}", is_transient=True)


_REASONS: Final = (
    (
        re.compile(r"pull access denied|unauthorized|authentication required|denied|forbidden", re.I),
        "image-denied",
        False,
        "check the name, and that the registry lets this node read it",
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
        "registry-unreachable",
        True,
        "check the registry's address and the network of this node",
    ),
)


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.0f} MB"


async def _json_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    pending = b""
    async for chunk in chunks:
        *whole, pending = (pending + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
    if pending.strip():
        yield pending
