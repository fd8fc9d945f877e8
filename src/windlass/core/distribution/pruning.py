"""What may be removed from a node, and why the rest stays. Nothing is removed that a rule does not clearly give up.

The rules only ever keep; an image goes when none of them holds it. Whoever calls (image-sync, the fleet's janitor)
brings the protected names: what queued jobs will need, what runs, what a rollback would return to.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from windlass.core.distribution.inventory import Image, Inventory, in_scope
from windlass.core.distribution.reference import Reference


class KeepRules(Struct, frozen=True, kw_only=True):
    prefixes: tuple[str, ...]
    """Only names in scope may ever go."""
    newest: int = 3
    """Of each repository, so many images by creation time stay on the node."""
    younger_than_seconds: int = 24 * 3600
    """An image created this recently may belong to a rollout under way."""
    protected: Mapping[Reference, str] = {}
    """Name → who needs it: a queued job, running work, a rollback."""
    in_use: frozenset[str] = frozenset()
    """Image ids of containers on this node, running or not."""


class Removal(Struct, frozen=True):
    """Take these names off one image; `is_whole` when none remain and its space comes back."""

    image: Image
    names: tuple[Reference, ...]
    is_whole: bool


class Kept(Struct, frozen=True):
    name: Reference
    reason: str


class PrunePlan(Struct, frozen=True, kw_only=True):
    node: str
    removals: tuple[Removal, ...]
    kept: tuple[Kept, ...]

    @property
    def freed_bytes(self) -> int:
        """At most so much: layers shared with what stays are counted too."""
        return sum(removal.image.size for removal in self.removals if removal.is_whole)


def plan_prune(inventory: Inventory, rules: KeepRules, *, now: int, takes_all_names: bool = False) -> PrunePlan:
    """Decide for one node. `takes_all_names`: this runtime (CRI) drops an image with every name it has, or not at all."""
    newest = _newest(inventory.images, rules)
    removals: list[Removal] = []
    kept: list[Kept] = []
    for image in inventory.images:
        reasons = {name: _reason_to_keep(image, name, rules, newest, now) for name in image.names}
        stay = [Kept(name, reason) for name, reason in reasons.items() if reason]
        go = tuple(name for name, reason in reasons.items() if not reason)
        if go and stay and takes_all_names:
            stay += [Kept(name, "another name of the same image stays") for name in go]
            go = ()
        kept += [entry for entry in stay if in_scope(entry.name, rules.prefixes)]
        if go:
            removals.append(Removal(image, go, is_whole=not stay))
    return PrunePlan(node=inventory.node, removals=tuple(removals), kept=tuple(kept))


def _reason_to_keep(
    image: Image, name: Reference, rules: KeepRules, newest: frozenset[tuple[str, str]], now: int
) -> str | None:
    if not in_scope(name, rules.prefixes):
        return "out of scope"
    if image.id in rules.in_use:
        return "in use by a container"
    if image.is_pinned:
        return "pinned by the runtime"
    if needed_by := _protector(image, name, rules.protected):
        return f"protected: {needed_by}"
    if (name.repository, image.id) in newest:
        return f"among the newest {rules.newest} of its repository"
    if image.created and now - image.created < rules.younger_than_seconds:
        return "younger than the minimum age"
    return None


def _protector(image: Image, name: Reference, protected: Mapping[Reference, str]) -> str | None:
    """Protection by tag or by digest; a digest protects the image under every name."""
    if name in protected:
        return protected[name]
    by_content = {reference.digest: who for reference, who in protected.items() if reference.digest}
    contents = [image.id, *(digest.digest for digest in image.digests)]
    return next((by_content[digest] for digest in contents if digest in by_content), None)


def _newest(images: Sequence[Image], rules: KeepRules) -> frozenset[tuple[str, str]]:
    """What carries a tag comes before what a moved tag left behind, however young: a tag may point at an older build."""
    by_repository: defaultdict[str, dict[str, int]] = defaultdict(dict)
    tagged: set[tuple[str, str]] = set()
    for image in images:
        for name in image.names:
            by_repository[name.repository][image.id] = image.created
            if name.tag is not None:
                tagged.add((name.repository, image.id))
    keep: set[tuple[str, str]] = set()
    for repository, ids in by_repository.items():
        if any(created == 0 for created in ids.values()):
            # Age unknown for some: no order to trust, so while the rule is on, all of them count as new.
            keep.update((repository, image_id) for image_id in ids if rules.newest)
            continue
        ranked = sorted(ids, key=lambda one: ((repository, one) not in tagged, -ids[one], one))
        keep.update((repository, image_id) for image_id in ranked[: rules.newest])
    return frozenset(keep)
