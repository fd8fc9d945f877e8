"""Images: is it here, and may it be used; if not, pull it, telling people how far it is and why it cannot be had."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from windlass.adapters.runtime.docker.access import Access, goes_by, registry_headers
from windlass.adapters.runtime.docker.engine import IDLE_SECONDS, Engine
from windlass.adapters.runtime.docker.pulling import Progress, json_lines, unavailable
from windlass.adapters.runtime.docker.validation import parse_image
from windlass.core.errors import Invalid, NotFound, Unavailable
from windlass.core.model.ids import Millis
from windlass.core.model.secret import Credentials
from windlass.ports.clock import Clock
from windlass.ports.runtime import ANYBODY, ENGINE_UNAVAILABLE, ImageAccess, ImageUnavailable

TELL_EVERY: Final = Millis(1_000)
_ROOT: Final = frozenset({"", "0", "root"})


class Images:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._access = Access(engine, clock)
        self._is_root: dict[str, bool] = {}
        """By image, from its last look-up: a start must not pay for a second one."""

    async def ensure(self, image: str, access: ImageAccess = ANYBODY) -> AsyncIterator[str]:
        try:
            name, tag = parse_image(image)
        except Invalid as exc:
            raise ImageUnavailable(exc.faults[0].message, is_transient=False, code="image-name") from exc
        if await self._is_at_hand(image, access):
            return
        yield f"pulling {image}"
        async for line in self._pull(image, name, tag, access.credentials):
            yield line
        if await self.record(image) is None:
            raise ImageUnavailable(f"{image} was pulled, yet the engine does not have it", is_transient=True)

    async def _is_at_hand(self, image: str, access: ImageAccess) -> bool:
        """Here, by this name, and the tenant's to use. ImageUnavailable when the registry does not let it."""
        record = await self.record(image)
        if record is None or not goes_by(image, record, is_podman=await self._engine.is_podman()):
            return False
        return not access.is_guarded or await self._access.check(image, record, access)

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

    async def _pull(self, image: str, name: str, tag: str, credentials: Credentials | None) -> AsyncIterator[str]:
        progress, told_at, told = Progress(image), self._clock.now(), ""
        # Without a tag the engine would fetch every tag there is.
        params = {"fromImage": name, "tag": tag}
        try:
            async with self._engine.stream(
                "POST",
                "/images/create",
                params=params,
                headers=registry_headers(image, credentials),
                idle_seconds=IDLE_SECONDS,
            ) as answer:
                async for raw in json_lines(answer.content.iter_any()):
                    event = msgspec.json.decode(raw)
                    if event.get("error"):
                        raise unavailable(image, str(event["error"]))
                    progress.feed(event)
                    line, now = progress.line(), self._clock.now()
                    if line != told and now - told_at >= TELL_EVERY:
                        told, told_at = line, now
                        yield line
        except (NotFound, Invalid, Unavailable) as exc:
            if exc.code == ENGINE_UNAVAILABLE:
                raise
            raise unavailable(image, exc.message) from exc
