"""The World's records, as the store has them: one dictionary for each table that is kept in memory. `tables` derives the rest."""

from collections import defaultdict

from windlass.core.fairness.ledger import Ledger
from windlass.core.model.burst import BurstSession
from windlass.core.model.hook import Hook
from windlass.core.model.ids import JobId, NodeId, RunId, TenantId, VolumeId
from windlass.core.model.job import Job
from windlass.core.model.money import Prices
from windlass.core.model.node import Node
from windlass.core.model.run import Run
from windlass.core.model.spending import BudgetMark, DayTotal
from windlass.core.model.tenant import Tenant
from windlass.core.model.token import IssuedToken
from windlass.core.model.volume import Volume
from windlass.core.world.records import Gone, Key, Name
from windlass.core.world.vault import Vault


class Kept:
    """Pools, workers and growths are in `fleet`, since placement has its own picture of them."""

    def __init__(self) -> None:
        self.tenants: dict[TenantId, Tenant] = {}
        self.gone: dict[TenantId, Gone] = {}
        self.tokens: dict[str, IssuedToken] = {}
        self.nodes: dict[NodeId, Node] = {}
        self.jobs: dict[JobId, Job] = {}
        self.runs: dict[RunId, Run] = {}
        self.volumes: dict[VolumeId, Volume] = {}
        self.names: dict[str, Name] = {}
        self.keys: dict[str, Key] = {}
        self.hooks: dict[JobId, Hook] = {}
        self.vault = Vault()
        self.ledger = Ledger()
        self.prices = Prices()
        self.totals: dict[str, DayTotal] = {}
        self.bursts: defaultdict[TenantId, dict[str, BurstSession]] = defaultdict(dict)
        self.marks: dict[TenantId, BudgetMark] = {}
