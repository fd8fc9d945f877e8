"""Volumes: one per job, and the way files get into and out of them.

The engine moves files only through a container. Ours is made for the moment from an empty image of our own, never started,
and removed at once; so no job image is needed and no code of anybody runs.
"""

import base64
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import msgspec

from windlass.adapters.runtime.docker.containers import delete_container
from windlass.adapters.runtime.docker.engine import IDLE_SECONDS, Engine
from windlass.adapters.runtime.docker.hardening import HELPER_MOUNT, helper_container, volume_name
from windlass.adapters.runtime.docker.labels import HELPER, Owner
from windlass.adapters.runtime.docker.refusals import REFUSED
from windlass.adapters.runtime.docker.validation import check_id
from windlass.adapters.runtime.tars import LastEntry, directories
from windlass.core.errors import Conflict, Fault, Invalid, NotFound, Unavailable
from windlass.core.model.ids import VolumeId

TAR: Final = "application/x-tar"
"""Without this content type dockerd answers 200 and writes nothing."""
SCRATCH: Final = "windlass.dev/scratch"
OPEN_TO_ALL: Final = 0o777
"""Of directories we make in a volume: which user an image runs as is not ours to know, and only its job sees the volume."""
_GO_SYMLINK: Final = 1 << 27
_EMPTY_TAR: Final = bytes(1024)


class Volumes:
    def __init__(self, engine: Engine, owner: Owner) -> None:
        self._engine = engine
        self._owner = owner
        tag = hashlib.sha256(f"{owner.installation}\0{owner.node}".encode()).hexdigest()[:16]
        self._scratch = f"{SCRATCH}:{tag}"

    async def ensure(self, volume: VolumeId, labels: Mapping[str, str]) -> None:
        check_id(volume, field="volume")
        body = {"Name": volume_name(volume), "Labels": dict(labels) | self._owner.labels}
        made = await self._engine.call("POST", "/volumes/create", body=body)
        if not self._owner.owns(made.get("Labels")):
            raise Conflict(f"the engine has a volume {volume_name(volume)} that is not ours", code="volume-foreign")

    async def put(self, volume: VolumeId, path: str, tar: AsyncIterator[bytes]) -> None:
        parts = _parts(path)
        async with self._helper(volume) as helper:
            await self._refuse_links(helper, parts)
            await self._make_directories(helper, parts)
            last, target = LastEntry(), "/".join((HELPER_MOUNT, *parts))
            try:
                await self._unpack(helper, target, last.watch(tar))
            except Unavailable:
                if last.failure is not None:
                    raise last.failure from None
                raise
            await self._verify(helper, target, last)

    async def get(self, volume: VolumeId, path: str) -> AsyncIterator[bytes]:
        parts = _parts(path)
        async with self._helper(volume) as helper:
            await self._refuse_links(helper, parts)
            params = {"path": "/".join((HELPER_MOUNT, *parts)) if parts else HELPER_MOUNT + "/."}
            try:
                async with self._engine.stream(
                    "GET", f"/containers/{helper}/archive", params=params, idle_seconds=IDLE_SECONDS
                ) as answer:
                    async for chunk in answer.content.iter_any():
                        yield chunk
            except NotFound as exc:
                raise NotFound(f"nothing at {path!r} in the volume", code="path-not-found") from exc

    async def remove(self, volume: VolumeId) -> None:
        check_id(volume, field="volume")
        name = volume_name(volume)
        try:
            record = await self._engine.call("GET", f"/volumes/{name}")
            if not self._owner.owns(record.get("Labels")):
                return
            try:
                await self._engine.call("DELETE", f"/volumes/{name}")
            except Conflict:
                # In use. If only by helpers that a crash left behind, they go and it goes.
                await self._remove_helpers(name)
                await self._engine.call("DELETE", f"/volumes/{name}")
        except NotFound:
            return

    async def names(self) -> tuple[VolumeId, ...]:
        answer = await self._engine.call("GET", "/volumes", params=self._owner.filters())
        ours = [str(v["Name"]) for v in answer.get("Volumes") or () if self._owner.owns(v.get("Labels"))]
        prefix = volume_name(VolumeId(""))
        return tuple(sorted(VolumeId(name.removeprefix(prefix)) for name in ours if name.startswith(prefix)))

    async def remove_all(self) -> int:
        """All of ours and the empty image. What a stranger's container uses stays; the rest goes all the same."""
        removed = 0
        for volume in await self.names():
            try:
                await self.remove(volume)
            except Conflict:
                continue
            removed += 1
        await self._remove_scratch()
        return removed

    @asynccontextmanager
    async def _helper(self, volume: VolumeId) -> AsyncIterator[str]:
        check_id(volume, field="volume")
        await self._require(volume)
        body = helper_container(volume, image=self._scratch, owner=self._owner)
        try:
            made = await self._engine.call("POST", "/containers/create", body=body)
        except NotFound:
            await self._import_scratch()
            made = await self._engine.call("POST", "/containers/create", body=body)
        try:
            yield str(made["Id"])
        finally:
            with anyio.move_on_after(30, shield=True):
                await delete_container(self._engine, str(made["Id"]))

    async def _require(self, volume: VolumeId) -> None:
        """A helper would make the volume it misses; a volume that is not there is NotFound instead."""
        record = await self._engine.call("GET", f"/volumes/{volume_name(volume)}")
        if not self._owner.owns(record.get("Labels")):
            raise NotFound(f"no volume {volume}", code="volume-not-found")

    async def _import_scratch(self) -> None:
        labels = " ".join(f'"{key}"="{value}"' for key, value in self._owner.labels.items())
        params = {"fromSrc": "-", "repo": self._scratch, "changes": f"LABEL {labels}"}
        async with self._engine.stream(
            "POST", "/images/create", params=params, data=_EMPTY_TAR, content_type=TAR, seconds=60
        ) as answer:
            await answer.read()

    async def _remove_scratch(self) -> None:
        """The empty image, of this installation and node alone."""
        try:
            record = await self._engine.call("GET", f"/images/{self._scratch}/json")
            if not self._owner.owns((record.get("Config") or {}).get("Labels")):
                return
            await self._engine.call("DELETE", f"/images/{self._scratch}")
        except (NotFound, Conflict):
            return

    async def _make_directories(self, helper: str, parts: tuple[str, ...]) -> None:
        if not parts:
            return
        try:
            await self._unpack(helper, HELPER_MOUNT, _once(directories(_steps(parts), mode=OPEN_TO_ALL)))
        except (Invalid, Conflict, Unavailable) as exc:
            if exc.code != REFUSED:
                raise
            # A file or, on Podman, whose stat follows links, a link is in the way.
            raise NotFound(f"{'/'.join(parts)} is not a directory", code="path-not-directory") from exc

    async def _unpack(self, helper: str, target: str, tar: AsyncIterator[bytes]) -> None:
        params = {"path": target, "noOverwriteDirNonDir": "true"}
        async with self._engine.stream(
            "PUT",
            f"/containers/{helper}/archive",
            params=params,
            data=tar,
            content_type=TAR,
            idle_seconds=IDLE_SECONDS,
        ) as answer:
            await answer.read()

    async def _verify(self, helper: str, target: str, last: LastEntry) -> None:
        if last.entry is None or not last.entry.name.isprintable():  # a name that no URL could carry
            return
        name = "/".join(part for part in last.entry.name.split("/") if part not in ("", "."))
        there = await self._stat(helper, f"{target}/{name}" if name else target)
        if there is None or last.entry.size not in (None, there["size"]):
            raise Unavailable(f"the engine lost part of an archive: {name} did not arrive", code="archive-lost")

    async def _refuse_links(self, helper: str, parts: tuple[str, ...]) -> None:
        """A job may have left a link where a directory was expected. Inside the helper it could lead only to the helper's own
        empty tree, but what went there would be lost without a word."""
        for step in _steps(parts):
            there = await self._stat(helper, f"{HELPER_MOUNT}/{step}")
            if there is None:
                return
            if there["mode"] & _GO_SYMLINK:
                raise NotFound(f"{step} is a link; links are not followed", code="path-is-link")

    async def _stat(self, helper: str, path: str) -> dict[str, Any] | None:
        try:
            async with self._engine.stream(
                "HEAD", f"/containers/{helper}/archive", params={"path": path}, seconds=60
            ) as answer:
                encoded = answer.headers["X-Docker-Container-Path-Stat"]
        except NotFound:
            return None
        found: dict[str, Any] = msgspec.json.decode(base64.b64decode(encoded))
        return found

    async def _remove_helpers(self, volume: str) -> None:
        params = self._owner.filters(f"{HELPER}={volume}") | {"all": "true"}
        for container in await self._engine.call("GET", "/containers/json", params=params):
            if self._owner.owns(container.get("Labels")):
                await delete_container(self._engine, str(container["Id"]))


def _parts(path: str) -> tuple[str, ...]:
    """The steps of a path below the volume's root. Raises Invalid for one that would leave it."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/") or ".." in parts or "\0" in path:
        message = f"{path[:200]!r} is not a path below the volume's root"
        raise Invalid(message, code="path-outside", faults=(Fault("path", message),))
    return parts


def _steps(parts: tuple[str, ...]) -> tuple[str, ...]:
    """`a`, `a/b`, `a/b/c`."""
    return tuple("/".join(parts[: n + 1]) for n in range(len(parts)))


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
