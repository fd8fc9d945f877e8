"""Which runtime a node's runs and volumes are on: this machine's own, unless the node is one of the others."""

from collections.abc import Mapping

from windlass.core.model.ids import NodeId
from windlass.ports.runtime import Runtime


class Runtimes:
    def __init__(self, own: Runtime, others: Mapping[NodeId, Runtime] | None = None) -> None:
        self.own = own
        self.others = dict(others or {})

    def on(self, node: NodeId | None) -> Runtime:
        return self.own if node is None else self.others.get(node, self.own)
