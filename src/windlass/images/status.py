"""`status`: what every node has, held against each other; nothing is changed."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from windlass.core.distribution import Comparison, Inventory, compare
from windlass.images.config import Config
from windlass.images.errors import ImageSyncError
from windlass.images.nodes import open_crew, take_inventories
from windlass.images.report import EXIT_INCOMPLETE, EXIT_OK, moved_tags


class Status(Struct, frozen=True, kw_only=True):
    comparison: Comparison
    inventories: Mapping[str, Inventory]
    kinds: Mapping[str, str]
    faults: Mapping[str, ImageSyncError]

    def exit_code(self, *, is_strict: bool) -> int:
        uneven = is_strict and not self.comparison.is_even
        return EXIT_INCOMPLETE if self.faults or uneven else EXIT_OK

    def as_json(self) -> dict[str, Any]:
        return {
            "even": self.comparison.is_even and not self.faults,
            "nodes": {
                **{
                    name: {"ok": True, "runtime": self.kinds[name], "platform": str(inventory.platform or "")}
                    for name, inventory in self.inventories.items()
                },
                **{name: {"ok": False, "code": e.code, "error": str(e)} for name, e in self.faults.items()},
            },
            "moved_tags": moved_tags(self.comparison),
            "images": [
                {
                    "image": str(row.name),
                    "size": row.size,
                    "nodes": {
                        node: {
                            "state": str(cell.state),
                            "id": cell.image.id if cell.image else None,
                            "size": cell.image.size if cell.image else 0,
                        }
                        for node, cell in row.cells.items()
                    },
                }
                for row in self.comparison.rows
            ],
        }


async def take_status(config: Config) -> Status:
    async with open_crew(config) as crew:
        inventories, faults = await take_inventories(crew)
        return Status(
            comparison=compare(tuple(inventories.values()), config.prefixes),
            inventories=inventories,
            kinds={name: node.runtime.kind for name, node in crew.nodes.items()},
            faults={**crew.faults, **faults},
        )
