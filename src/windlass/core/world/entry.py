"""One line of the journal."""

from msgspec import Struct

from windlass.core.model.audit import Deed
from windlass.core.world.records import Record, Table


class Entry(Struct, frozen=True, gc=False):
    """One record's change, made by decision `number`."""

    number: int
    table: Table
    key: str
    old: Record | None
    new: Record | None
    deed: Deed | None = None
    """Who asked for the decision, on its last entry: stored with it, taken back with it."""
