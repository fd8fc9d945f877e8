"""How an image leaves a node as a stream and enters another, per runtime; and which parts need not travel.

Docker knows layers by what lies below them, so the receiver's common beginning stays out of the stream; containerd
knows them by digest. Between unlike runtimes, and with Podman, the whole image travels: their loaders want all of it.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from windlass.core.distribution import Image, Inventory, Reference, held_layers
from windlass.images.errors import NodeError
from windlass.images.nodes import Node
from windlass.images.runtimes import Ctr, Docker, Podman
from windlass.images.runtimes.port import decode
from windlass.images.settings import Settings
from windlass.images.ssh import Argv


class Export(Protocol):
    """An image on the sending node."""

    saved: tuple[Reference, ...]
    """The names that the stream carries; empty when it goes by id."""

    def save(self) -> Argv: ...

    async def members_held(self, receiver: Node, inventory: Inventory) -> frozenset[str]:
        """Members of the stream that the receiver has already; empty when it wants everything."""
        ...


class Import(Struct, frozen=True, kw_only=True):
    """The receiving side: what reads the stream, what follows a success, what cleans up after a failure."""

    load: Argv
    then: tuple[Argv, ...] = ()
    undo: tuple[Argv, ...] = ()


async def export_from(node: Node, image: Image, names: Sequence[Reference], settings: Settings) -> Export:
    """Under those of `names` that the sender itself has; else under another tag of its, which goes again on arrival."""
    tags = tuple(name for name in names if name in image.tags)
    saved = tags or tuple(name for name in names if name in image.digests) or image.tags[:1]
    engine = await _engine(node, settings)
    if isinstance(engine, Ctr):
        return await _ContainerdExport.prepare(node, engine, image, saved)
    if isinstance(engine, Docker):
        return _DockerExport(node, image, tags or image.tags[:1], settings)
    return _PodmanExport(image, tags or image.tags[:1])


async def import_to(
    node: Node, image: Image, names: Sequence[Reference], export: Export, has: Inventory, settings: Settings
) -> Import:
    """`image` as the sender has it; `names` as they are wanted here."""
    engine = await _engine(node, settings)
    had = {name for one in has.images for name in (*one.tags, *one.digests)}
    stray = [name for name in export.saved if name not in names and name not in had]
    if isinstance(engine, Ctr):
        return Import(
            load=engine.ctr("images", "import", "-"),
            then=(*_ctr_names(engine, image, names, export.saved), *(_ctr_rm(engine, name) for name in stray)),
            # ctr names an image before it unpacks it: a failed import must not leave a name without layers.
            undo=tuple(_ctr_rm(engine, name) for name in export.saved if name not in had),
        )
    kind = "docker" if isinstance(engine, Docker) else "podman"
    lacking = [name for name in names if name.tag and name not in export.saved]
    return Import(
        load=(kind, "load"),
        then=(
            *((kind, "tag", image.id, str(name)) for name in lacking),
            *((kind, "rmi", str(name)) for name in stray),
        ),
    )


async def naming(node: Node, image: Image, name: Reference, settings: Settings) -> Argv:
    """The node has the content already: one more name for it is all there is to do."""
    engine = await _engine(node, settings)
    if isinstance(engine, Ctr):
        known = next(iter((*image.tags, *image.digests)), None)
        if known is None:
            raise NodeError("peer.unnamed", "ctr has no name for the image to tag from", where=node.name)
        return engine.ctr("images", "tag", "--force", str(known), str(name))
    return ("docker" if isinstance(engine, Docker) else "podman", "tag", image.id, str(name))


def _ctr_names(engine: Ctr, image: Image, names: Sequence[Reference], saved: Sequence[Reference]) -> list[Argv]:
    """Wanted tags that the stream did not carry, and the digest names: CRI shows a digest only where it is a name."""
    digests = {digest.repository: digest for digest in image.digests}
    aliases = [name for name in names if name not in saved]
    aliases += [digests[name.repository] for name in names if name.tag and name.repository in digests]
    known = next(iter(saved), None)
    return [engine.ctr("images", "tag", "--force", str(known), str(name)) for name in aliases] if known else []


def _ctr_rm(engine: Ctr, name: Reference) -> Argv:
    return engine.ctr("images", "rm", str(name))


async def _engine(node: Node, settings: Settings) -> "Ctr | Docker | Podman":
    """crictl can neither export nor import; behind it stands containerd (ctr) or CRI-O (Podman reads its store)."""
    if isinstance(node.runtime, Ctr | Docker | Podman):
        return node.runtime
    ctr = Ctr(node.shell, settings)
    if not await ctr.fault():
        return ctr
    podman = Podman(node.shell, settings)
    if not await podman.fault():
        return podman
    what = "crictl cannot export or import, and neither ctr nor podman answers"
    raise NodeError("peer.no_engine", what, where=node.name, next_step="Install ctr (containerd) on the node")


class _SavedManifest(Struct, frozen=True):
    layers: tuple[str, ...] = ()


class _DockerExport:
    def __init__(self, node: Node, image: Image, saved: tuple[Reference, ...], settings: Settings) -> None:
        self.saved = saved
        self._node = node
        self._image = image
        self._settings = settings
        self._members: tuple[str, ...] | None = None

    def save(self) -> Argv:
        return ("docker", "save", *(map(str, self.saved) if self.saved else (self._image.id,)))

    async def members_held(self, receiver: Node, inventory: Inventory) -> frozenset[str]:
        if not isinstance(receiver.runtime, Docker):
            return frozenset()
        held = held_layers(self._image.layers, inventory.images)
        if held == 0:
            return frozenset()
        members = await self._layer_members()
        return frozenset(members[:held]) - frozenset(members[held:])

    async def _layer_members(self) -> tuple[str, ...]:
        """Which member holds which layer stands in the stream's manifest; read on the node, it does not travel."""
        if self._members is None:
            stages: tuple[Argv, ...] = (self.save(), ("tar", "-xOf", "-", "manifest.json"))
            late = self._settings.timeout_seconds
            finished = await self._node.shell.run(*stages, timeout_seconds=late, stdout_max=1 << 20)
            if finished.exit != 0:
                raise NodeError("peer.export", f"docker save failed: {finished.stderr}", where=self._node.name)
            raw = finished.stdout.replace(b'"Layers"', b'"layers"', 1)
            (manifest,) = decode(raw, tuple[_SavedManifest], self._node.name)
            if len(manifest.layers) != len(self._image.layers):
                raise NodeError("peer.export", "docker save shows other layers than inspect", where=self._node.name)
            self._members = manifest.layers
        return self._members


class _ContainerdExport:
    def __init__(self, engine: Ctr, saved: tuple[Reference, ...], layers: tuple[str, ...]) -> None:
        self.saved = saved
        self._engine = engine
        self._layers = layers

    @classmethod
    async def prepare(cls, node: Node, engine: Ctr, image: Image, saved: tuple[Reference, ...]) -> "_ContainerdExport":
        """CRI may have thrown the compressed layers away after unpacking; then this node cannot send."""
        blobs = await engine.content()
        manifest = next((blob for blob in blobs.values() if blob.config == image.id), None)
        layers = manifest.layers if manifest else ()
        if not saved or not layers or any(layer not in blobs for layer in layers):
            what = "its content store no longer has the image's layers, or no name for it"
            step = "Set discard_unpacked_layers = false in containerd's CRI plugin"
            raise NodeError("peer.discarded", what, where=node.name, next_step=step)
        return cls(engine, saved, layers)

    def save(self) -> Argv:
        return self._engine.ctr("images", "export", "-", *map(str, self.saved))

    async def members_held(self, receiver: Node, inventory: Inventory) -> frozenset[str]:
        if receiver.runtime.kind not in ("crictl", "ctr"):
            return frozenset()
        there = await Ctr(receiver.shell, self._engine.settings).content()
        return frozenset(f"blobs/{layer.replace(':', '/')}" for layer in self._layers if layer in there)


class _PodmanExport:
    def __init__(self, image: Image, saved: tuple[Reference, ...]) -> None:
        self.saved = saved
        self._image = image

    def save(self) -> Argv:
        several = ("-m",) if len(self.saved) > 1 else ()
        names = map(str, self.saved) if self.saved else (self._image.id,)
        return ("podman", "save", "--format", "docker-archive", *several, *names)

    async def members_held(self, receiver: Node, inventory: Inventory) -> frozenset[str]:
        return frozenset()
