"""What each node lacks, by digest: the node × image matrix and the pulls that would make it even.

The wanted set is the union of what all nodes have in scope (seed 003). A tag that means different contents on different
nodes has *moved*: every node that has or lacks it must ask the registry again, for nobody else knows which is current.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from windlass.core.distribution.inventory import Image, Inventory, in_scope, same_content
from windlass.core.distribution.reference import Reference


class CellState(StrEnum):
    PRESENT = "present"
    MISSING = "missing"
    DIFFERENT = "different"


class Cell(Struct, frozen=True):
    state: CellState
    image: Image | None = None


class Row(Struct, frozen=True, kw_only=True):
    """One name over all nodes."""

    name: Reference
    cells: Mapping[str, Cell]
    versions: tuple[tuple[str, tuple[str, ...]], ...]
    """(image id, nodes that have it), the yardstick first."""

    @property
    def has_moved(self) -> bool:
        return len(self.versions) > 1

    @property
    def is_even(self) -> bool:
        return all(cell.state is CellState.PRESENT for cell in self.cells.values())

    @property
    def size(self) -> int:
        return max((cell.image.size for cell in self.cells.values() if cell.image), default=0)

    def holders(self) -> tuple[str, ...]:
        return tuple(node for node, cell in self.cells.items() if cell.state is CellState.PRESENT)

    def content(self) -> Image:
        """The yardstick's image."""
        holder = self.versions[0][1][0]
        image = self.cells[holder].image
        assert image is not None
        return image


class Comparison(Struct, frozen=True, kw_only=True):
    nodes: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def is_even(self) -> bool:
        return all(row.is_even for row in self.rows)

    def moved(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.has_moved)


class Want(Struct, frozen=True, kw_only=True):
    """One node should get one name."""

    node: str
    name: Reference
    image_id: str
    size: int
    has_moved: bool


def compare(inventories: Sequence[Inventory], prefixes: Sequence[str], *, source: str | None = None) -> Comparison:
    """Hold all nodes against each other. `source` names the node whose versions count, where they differ."""
    named = {inventory.node: inventory.by_name() for inventory in inventories}
    by_id = {inventory.node: {image.id: image for image in inventory.images} for inventory in inventories}
    found = {name for images in named.values() for name in images if in_scope(name, prefixes)}
    names = sorted(found, key=lambda name: (name.repository, name.tag or "", name.digest or ""))
    rows = tuple(_row(name, named, by_id, source) for name in names)
    return Comparison(nodes=tuple(named), rows=rows)


def wanted_pulls(comparison: Comparison, *, source: str | None = None) -> tuple[Want, ...]:
    """Who pulls what. A moved tag is asked for again everywhere, unless a `source` has settled which version counts."""
    return tuple(
        Want(node=node, name=row.name, image_id=row.content().id, size=row.size, has_moved=row.has_moved)
        for row in comparison.rows
        for node, cell in row.cells.items()
        if cell.state is not CellState.PRESENT or (row.has_moved and source is None)
    )


def unmatched(comparison: Comparison, prefixes: Sequence[str]) -> tuple[str, ...]:
    """Prefixes that begin no image on any node: a typing error more often than a wish."""
    return tuple(prefix for prefix in prefixes if not any(in_scope(row.name, (prefix,)) for row in comparison.rows))


def _row(
    name: Reference,
    named: Mapping[str, Mapping[Reference, Image]],
    by_id: Mapping[str, Mapping[str, Image]],
    source: str | None,
) -> Row:
    found = {node: image for node, images in named.items() if (image := images.get(name)) is not None}
    if name.digest is not None:
        _find_by_content(found, by_id)
    versions = _versions(found, name.repository, source)
    yardstick = found[versions[0][1][0]]
    cells = {node: _cell(found.get(node), yardstick, name.repository) for node in named}
    return Row(name=name, cells=cells, versions=versions)


def _find_by_content(found: dict[str, Image], by_id: Mapping[str, Mapping[str, Image]]) -> None:
    """A digest name is a content, not a label: a node that has the content under any name has it."""
    wanted = {image.id for image in found.values()}
    for node, images in by_id.items():
        if node not in found and (hit := next((images[i] for i in sorted(wanted) if i in images), None)):
            found[node] = hit


def _cell(image: Image | None, yardstick: Image, repository: str) -> Cell:
    if image is None:
        return Cell(CellState.MISSING)
    same = same_content(image, yardstick, repository)
    return Cell(CellState.PRESENT if same else CellState.DIFFERENT, image)


def _versions(
    found: Mapping[str, Image], repository: str, source: str | None
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    groups: list[tuple[Image, list[str]]] = []
    for node, image in found.items():
        for first, nodes in groups:
            if same_content(first, image, repository):
                nodes.append(node)
                break
        else:
            groups.append((image, [node]))
    # The source's version, else the most common, else the newest: a fixed order, so that two runs speak alike.
    groups.sort(key=lambda group: (source not in group[1], -len(group[1]), -group[0].created, group[0].id))
    return tuple((image.id, tuple(nodes)) for image, nodes in groups)
