"""`status`: what every node has, held against each other; nothing is changed."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from windlass.core.distribution import Comparison, Inventory, Row, compare, unmatched
from windlass.images.config import Config
from windlass.images.errors import ImageSyncError
from windlass.images.nodes import open_crew, take_inventories
from windlass.images.report import EXIT_INCOMPLETE, EXIT_OK, moved_tags


class Status(Struct, frozen=True, kw_only=True):
    order: tuple[str, ...]
    """All nodes, as the settings list them, also those of `faults`."""
    comparison: Comparison
    """Of those that answered."""
    inventories: Mapping[str, Inventory]
    kinds: Mapping[str, str]
    faults: Mapping[str, ImageSyncError]
    unmatched: tuple[str, ...] = ()

    @property
    def is_even(self) -> bool:
        """Known to be: a node that did not answer may have anything."""
        return self.comparison.is_even and not self.faults

    def exit_code(self, *, is_strict: bool) -> int:
        return EXIT_INCOMPLETE if self.faults or (is_strict and not self.is_even) else EXIT_OK

    def state_of(self, node: str) -> str:
        """What stands where a node with a fault would have its cell."""
        return "unreachable" if self.faults[node].code == "ssh.unreachable" else "unusable"

    def as_json(self) -> dict[str, Any]:
        return {
            "even": self.is_even,
            "nodes": {name: self._node_json(name) for name in self.order},
            "moved_tags": moved_tags(self.comparison),
            "unmatched_prefixes": list(self.unmatched),
            "images": [
                {
                    "image": str(row.name),
                    "size": row.size,
                    "nodes": {node: self._cell_json(row, node) for node in self.order},
                }
                for row in self.comparison.rows
            ],
        }

    def _node_json(self, name: str) -> dict[str, Any]:
        if fault := self.faults.get(name):
            return {"ok": False, "code": fault.code, "error": str(fault)}
        return {"ok": True, "runtime": self.kinds[name], "platform": str(self.inventories[name].platform or "")}

    def _cell_json(self, row: Row, node: str) -> dict[str, Any]:
        cell = row.cells.get(node)
        if cell is None:
            return {"state": self.state_of(node), "id": None, "size": 0}
        image = cell.image
        return {"state": str(cell.state), "id": image.id if image else None, "size": image.size if image else 0}


async def take_status(config: Config) -> Status:
    async with open_crew(config) as crew:
        inventories, faults = await take_inventories(crew)
        comparison = compare(tuple(inventories.values()), config.prefixes)
        both = {**crew.faults, **faults}
        return Status(
            order=crew.order,
            comparison=comparison,
            inventories=inventories,
            kinds={name: node.runtime.kind for name, node in crew.nodes.items()},
            faults={name: both[name] for name in crew.order if name in both},
            unmatched=unmatched(comparison, config.prefixes),
        )
