"""Docker and Podman: one command line, nearly one JSON. Ids first, then one `inspect` for many."""

from typing import ClassVar, Final

from msgspec import Struct, field

from windlass.core.distribution import BadReference, Image, Platform, Reference, parse_digest
from windlass.images.errors import NodeError, OutputRefused
from windlass.images.runtimes.port import Asking, Listing, chunks, read_names, read_time
from windlass.images.ssh import Argv

_INSPECT_AT_ONCE: Final = 100
"""Ids in one command: some 7 kB of arguments, far below what any kernel takes."""


class _RootFS(Struct, frozen=True):
    layers: tuple[str, ...] | None = field(default=None, name="Layers")


class _Inspected(Struct, frozen=True, rename="pascal"):
    id: str
    repo_tags: tuple[str, ...] | None = None
    repo_digests: tuple[str, ...] | None = None
    size: int = 0
    os: str = ""
    architecture: str = ""
    variant: str = ""
    created: str = ""
    root_fs: _RootFS | None = field(default=None, name="RootFS")


class _Engine(Asking):
    kind: ClassVar[str]
    takes_all_names: ClassVar[bool] = False

    async def fault(self) -> str:
        return await self._fault_of(self.kind, "version")

    async def images(self) -> Listing:
        """Between the two commands an image may go; then the inspect fails and the second try sees the new list."""
        try:
            return await self._list()
        except NodeError as error:
            if isinstance(error, OutputRefused):
                raise
            return await self._list()

    async def described(self, images: tuple[Image, ...]) -> tuple[Image, ...]:
        return images

    def pull(self, name: Reference) -> Argv:
        return (self.kind, "pull", str(name))

    def remove(self, image: Image, name: Reference) -> Argv:
        return (self.kind, "rmi", str(name))

    async def used(self) -> frozenset[str]:
        containers = self._digests(await self._ask(self.kind, "ps", "-aq", "--no-trunc"))
        found: set[str] = set()
        for some in chunks([digest.removeprefix("sha256:") for digest in containers], _INSPECT_AT_ONCE):
            raw = await self._ask(self.kind, "container", "inspect", "--format", "{{.Image}}", *some)
            found.update(self._digests(raw))
        return frozenset(found)

    async def _list(self) -> Listing:
        ids = self._digests(await self._ask(self.kind, "image", "ls", "-q", "--no-trunc"))
        images: list[Image] = []
        refused: list[str] = []
        for some in chunks(ids, _INSPECT_AT_ONCE):
            raw = await self._ask(self.kind, "image", "inspect", *some)
            images += [self._image(inspected, refused) for inspected in self._decode(raw, tuple[_Inspected, ...])]
        return Listing(images=tuple(images), refused=tuple(refused))

    def _image(self, inspected: _Inspected, refused: list[str]) -> Image:
        tags, digests, bad = read_names(inspected.repo_tags, inspected.repo_digests)
        refused += bad
        layers = (inspected.root_fs.layers if inspected.root_fs else None) or ()
        try:
            image_id = parse_digest(inspected.id)
            layers = tuple(parse_digest(layer) for layer in layers)
        except BadReference as error:
            raise OutputRefused("node.output", "an id that is no digest", where=self._shell.name) from error
        return Image(
            id=image_id,
            tags=tags,
            digests=digests,
            size=max(0, inspected.size),
            platform=Platform(inspected.os, inspected.architecture, inspected.variant) if inspected.os else None,
            created=read_time(inspected.created),
            layers=layers,
        )


class Docker(_Engine):
    kind: ClassVar[str] = "docker"

    async def storage_path(self) -> str:
        raw = await self._ask("docker", "info", "--format", "{{json .DockerRootDir}}")
        return self._path(self._decode(raw, str))


class Podman(_Engine):
    kind: ClassVar[str] = "podman"

    async def storage_path(self) -> str:
        raw = await self._ask("podman", "info", "--format", "{{json .Store.GraphRoot}}")
        return self._path(self._decode(raw, str))
