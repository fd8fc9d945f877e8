"""Images on nodes, as pure planning: names, what lacks what, who sends to whom, what may go.

`reference` is the grammar every name must pass; `inventory` is what a node said it has; `compare` finds what is missing
or moved, by digest and platform; `senders` draws the tree of a node-to-node copy; `pruning` keeps what is needed.
`windlass.images` carries the plans out over ssh; the fleet's prefetch uses the same functions.
"""

from windlass.core.distribution.compare import Cell, CellState, Comparison, Row, Want, compare, unmatched, wanted_pulls
from windlass.core.distribution.inventory import Image, Inventory, Platform, held_layers, in_scope, same_content
from windlass.core.distribution.pruning import KeepRules, Kept, PrunePlan, Removal, plan_prune
from windlass.core.distribution.reference import BadReference, Reference, is_digest, parse_digest, parse_reference
from windlass.core.distribution.senders import Send, rounds_needed, sender_rounds

__all__ = [
    "BadReference",
    "Cell",
    "CellState",
    "Comparison",
    "Image",
    "Inventory",
    "KeepRules",
    "Kept",
    "Platform",
    "PrunePlan",
    "Reference",
    "Removal",
    "Row",
    "Send",
    "Want",
    "compare",
    "held_layers",
    "in_scope",
    "is_digest",
    "parse_digest",
    "parse_reference",
    "plan_prune",
    "rounds_needed",
    "same_content",
    "sender_rounds",
    "unmatched",
    "wanted_pulls",
]
