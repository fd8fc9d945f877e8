"""containerd, asked through CRI (crictl, as Kubernetes nodes have it) or directly (ctr).

crictl lists, pulls and removes but cannot export or import: a node-to-node copy uses ctr in the same namespace.
"""

from typing import ClassVar, Final

import msgspec
from msgspec import Struct, field

from windlass.core.distribution import BadReference, Image, Platform, Reference, parse_digest
from windlass.images.errors import OutputRefused
from windlass.images.runtimes.content import Blob, read_content, read_entries, to_listing
from windlass.images.runtimes.port import Asking, Listing, chunks, read_names, read_time
from windlass.images.ssh import Argv

_INSPECT_AT_ONCE: Final = 50


class _CriImage(Struct, frozen=True, rename="camel"):
    id: str
    repo_tags: tuple[str, ...] | None = None
    repo_digests: tuple[str, ...] | None = None
    size: str | int = "0"
    pinned: bool = False


class _CriImages(Struct, frozen=True):
    images: tuple[_CriImage, ...] | None = None


class _CriSpec(Struct, frozen=True):
    image: str = ""


class _CriContainer(Struct, frozen=True, rename="camel"):
    image_ref: str = ""
    image_id: str = ""
    image: _CriSpec | None = None


class _CriContainers(Struct, frozen=True):
    containers: tuple[_CriContainer, ...] | None = None


class _Mount(Struct, frozen=True):
    mountpoint: str = ""


class _Filesystem(Struct, frozen=True):
    fs_id: _Mount | None = field(default=None, name="fsId")


class _FsStatus(Struct, frozen=True, rename="camel"):
    image_filesystems: tuple[_Filesystem, ...] | None = None
    fs_id: _Mount | None = None


class _FsInfo(Struct, frozen=True):
    status: _FsStatus | None = None


class _CriImageSpec(Struct, frozen=True):
    created: str = ""
    os: str = ""
    architecture: str = ""


class _CriInfo(Struct, frozen=True, rename="camel"):
    image_spec: _CriImageSpec | None = None


class _CriInspected(Struct, frozen=True):
    status: _CriImage
    info: _CriInfo | None = None


class Crictl(Asking):
    kind: ClassVar[str] = "crictl"
    takes_all_names: ClassVar[bool] = True

    async def fault(self) -> str:
        return await self._fault_of("crictl", "version")

    async def images(self) -> Listing:
        found = self._decode(await self._ask("crictl", "images", "-o", "json"), _CriImages)
        images: list[Image] = []
        refused: list[str] = []
        for entry in found.images or ():
            tags, digests, bad = read_names(entry.repo_tags, entry.repo_digests)
            refused += bad
            size = str(entry.size)
            try:
                image_id = parse_digest(entry.id)
            except BadReference as error:
                raise OutputRefused("node.output", "an id that is no digest", where=self._shell.name) from error
            images.append(
                Image(
                    id=image_id,
                    tags=tags,
                    digests=digests,
                    size=int(size) if size.isascii() and size.isdigit() and len(size) < 18 else 0,
                    is_pinned=entry.pinned,
                )
            )
        return Listing(images=tuple(images), refused=tuple(refused))

    async def described(self, images: tuple[Image, ...]) -> tuple[Image, ...]:
        """CRI's list says neither age nor platform; asked for one by one, so only when needed."""
        specs: dict[str, _CriImageSpec] = {}
        for some in chunks([image.id for image in images], _INSPECT_AT_ONCE):
            raw = await self._ask("crictl", "inspecti", "-o", "json", *some)
            found = self._decode(raw, tuple[_CriInspected, ...] | _CriInspected)  # type: ignore[arg-type]
            for inspected in found if isinstance(found, tuple) else (found,):
                if inspected.info and inspected.info.image_spec:
                    specs[inspected.status.id] = inspected.info.image_spec
        return tuple(_with_spec(image, specs.get(image.id)) for image in images)

    def pull(self, name: Reference) -> Argv:
        return ("crictl", "pull", str(name))

    def remove(self, image: Image, name: Reference) -> Argv:
        return ("crictl", "rmi", image.id)

    async def used(self) -> frozenset[str]:
        found = self._decode(await self._ask("crictl", "ps", "-a", "-o", "json"), _CriContainers)
        names = {
            text
            for container in found.containers or ()
            for text in (container.image_ref, container.image_id, container.image.image if container.image else "")
        }
        return frozenset(names - {""})

    async def storage_path(self) -> str:
        status = self._decode(await self._ask("crictl", "imagefsinfo", "-o", "json"), _FsInfo).status or _FsStatus()
        mounts = [entry.fs_id for entry in status.image_filesystems or () if entry.fs_id]
        mount = mounts[0] if mounts else status.fs_id
        return self._path(mount.mountpoint if mount else "")


class Ctr(Asking):
    """containerd without CRI, or the part of it that can export and import."""

    kind: ClassVar[str] = "ctr"
    takes_all_names: ClassVar[bool] = False

    async def fault(self) -> str:
        return await self._fault_of("ctr", "version")

    async def images(self) -> Listing:
        entries = read_entries(self._lines(await self._ask(*self.ctr("images", "ls"))), self._shell.name)
        return to_listing(entries, await self.content())

    async def content(self) -> dict[str, Blob]:
        return read_content(self._lines(await self._ask(*self.ctr("content", "ls"))), self._shell.name)

    async def described(self, images: tuple[Image, ...]) -> tuple[Image, ...]:
        """Age stands in the config blob; one small read an image."""
        described: list[Image] = []
        for image in images:
            raw = await self._ask(*self.ctr("content", "get", image.id))
            described.append(_with_spec(image, self._decode(raw, _CriImageSpec)))
        return tuple(described)

    def pull(self, name: Reference) -> Argv:
        return self.ctr("images", "pull", str(name))

    def remove(self, image: Image, name: Reference) -> Argv:
        return self.ctr("images", "rm", str(name))

    async def used(self) -> frozenset[str]:
        lines = self._lines(await self._ask(*self.ctr("containers", "ls")))
        return frozenset(columns[1] for line in lines[1:] if len(columns := line.split()) > 1)

    async def storage_path(self) -> str:
        """The content store's root, as its plugin exports it."""
        lines = self._lines(await self._ask("ctr", "plugins", "ls", "-d", "id==content"))
        roots = (line.split()[-1] for line in lines if line.split()[:1] == ["root"])
        return self._path(next(roots, "/var/lib/containerd"))

    def ctr(self, *arguments: str) -> Argv:
        return ("ctr", "-n", self.settings.containerd_namespace, *arguments)


def _with_spec(image: Image, spec: _CriImageSpec | None) -> Image:
    if spec is None:
        return image
    platform = Platform(spec.os, spec.architecture) if spec.os else image.platform
    return msgspec.structs.replace(image, created=read_time(spec.created), platform=platform)
