"""What one node said it has, normalised over the runtimes. `compare` comes next.

An image's identity is its *config digest* (`id`): it fixes platform and every layer, and all runtimes agree on it,
while the manifest digest is lost when an image was loaded from a file.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from windlass.core.distribution.reference import Reference


class Platform(Struct, frozen=True, order=True):
    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


class Image(Struct, frozen=True, kw_only=True):
    """One image on one node, under all its names."""

    id: str
    """Config digest. A runtime that has none to offer gives the manifest's."""
    tags: tuple[Reference, ...] = ()
    digests: tuple[Reference, ...] = ()
    """`repository@digest` names: what the registry called it when it was pulled."""
    size: int = 0
    """Bytes, as the runtime counts (unpacked on Docker, compressed on CRI): for estimates, never for identity."""
    platform: Platform | None = None
    created: int = 0
    """Unix seconds; 0 where the runtime does not say."""
    layers: tuple[str, ...] = ()
    """Uncompressed layer digests, bottom first; empty where not asked for."""
    is_pinned: bool = False

    @property
    def names(self) -> tuple[Reference, ...]:
        """What to call it elsewhere: its tags, and `repository@digest` for repositories in which it has no tag."""
        tagged = {tag.repository for tag in self.tags}
        return self.tags + tuple(digest for digest in self.digests if digest.repository not in tagged)


class Inventory(Struct, frozen=True, kw_only=True):
    node: str
    images: tuple[Image, ...] = ()
    platform: Platform | None = None
    """The node's own, for images of a runtime that does not say."""
    refused: tuple[str, ...] = ()
    """Names the node printed that are no references; never used, only reported."""

    def by_name(self) -> dict[Reference, Image]:
        """Every name the other nodes should know too.

        An untagged image of a repository that has tags here is what a moved tag left behind, not something anybody
        asked for; an untagged image of a repository without tags was pulled by its digest, on purpose.
        """
        tagged = {tag.repository for image in self.images for tag in image.tags}
        named = ((name, image) for image in self.images for name in image.names)
        return {name: image for name, image in named if name.tag or name.repository not in tagged}


def same_content(one: Image, other: Image, repository: str) -> bool:
    """Do both hold the same thing under `repository`? Same config, or pulled by the same digest.

    The digest covers nodes of different platforms: one index, two configs.
    """
    if one.id == other.id:
        return True
    ours = {name.digest for name in one.digests if name.repository == repository}
    return any(name.digest in ours for name in other.digests if name.repository == repository)


def in_scope(name: Reference, prefixes: Sequence[str]) -> bool:
    """Literal prefixes, held against both spellings: `nginx` and `docker.io/library/nginx` mean the same images."""
    full, familiar = str(name), name.familiar
    return any(full.startswith(prefix) or familiar.startswith(prefix) for prefix in prefixes)


def held_layers(layers: Sequence[str], others: Iterable[Image]) -> int:
    """How many of `layers`, from the bottom, a node has already.

    Docker knows a layer only on top of the ones below it, so what counts is the longest common beginning.
    """
    best = 0
    for other in others:
        common = 0
        for ours, theirs in zip(layers, other.layers, strict=False):
            if ours != theirs:
                break
            common += 1
        best = max(best, common)
    return best
