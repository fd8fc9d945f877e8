"""What is kept for bursts: a part of what all nodes have stays free of ordinary runs, while any tenant may burst by policy.

Asked before a start within the quota. In order: once somebody had to stay out, nobody who comes later gets in before them,
until room grows; else small jobs would keep a big one out for ever. Derived from records, as `usage` is.
"""

from windlass.core.model.node import Node
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.run import Run
from windlass.core.model.tenant import SHARE, QuotaPolicy, Tenant


class Reserve:
    __slots__ = ("_beyond", "_bursting", "_capacity", "_cpu", "_gpus", "_memory", "_share", "is_shut")

    def __init__(self, share: int) -> None:
        """In thousandths of the capacity."""
        self._share = share
        self._capacity: Resources = NOTHING
        """Of the nodes that take runs."""
        self._cpu = self._memory = self._gpus = 0
        """Held by all runs: plain numbers, since every placing and every end moves them."""
        self._beyond: Resources = NOTHING
        """Part of what is held: by runs beyond their tenant's quota. They are whom the rest is kept for."""
        self._bursting = 0
        """Tenants that may burst by policy; without any, nothing is kept."""
        self.is_shut = False
        """Somebody stays out, and so does whoever comes after."""

    def refuses(self, needs: Resources) -> bool:
        """A start within the quota. What would never fit beside the reserve may use it: else it could not run at all."""
        if not self._bursting or not self.would_refuse(needs):
            return False
        self.is_shut = True
        return True

    def would_refuse(self, needs: Resources) -> bool:
        """The same, for whoever only wants to know: nobody stays out because of it."""
        if not self._bursting or not self._share:
            return False
        return self.is_shut or not self._leaves_enough(needs)

    def note_node(self, node: Node, sign: int) -> None:
        if node.takes_runs:
            self._capacity = self._capacity + node.capacity if sign > 0 else self._capacity - node.capacity

    def note_run(self, run: Run, sign: int) -> None:
        needs = run.needs
        self._cpu += sign * needs.cpu_millis
        self._memory += sign * needs.memory_bytes
        self._gpus += sign * needs.gpus
        if run.burst:
            self._beyond = self._beyond + run.needs if sign > 0 else self._beyond - run.needs

    def note_tenant(self, tenant: Tenant, sign: int) -> None:
        self._bursting += sign * (tenant.policy is QuotaPolicy.BURST and tenant.burst.sessions_per_day > 0)

    def _leaves_enough(self, needs: Resources) -> bool:
        capacity, beyond = self._capacity, self._beyond
        return (
            self._fits(needs.cpu_millis, capacity.cpu_millis, self._cpu, beyond.cpu_millis)
            and self._fits(needs.memory_bytes, capacity.memory_bytes, self._memory, beyond.memory_bytes)
            and self._fits(needs.gpus, capacity.gpus, self._gpus, beyond.gpus)
        )

    def _fits(self, need: int, capacity: int, held: int, beyond: int) -> bool:
        kept = capacity * self._share // SHARE
        left = max(0, kept - beyond)
        return not need or held + need <= capacity - left or need > capacity - kept
