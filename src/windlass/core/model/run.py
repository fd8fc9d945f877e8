"""One attempt at a job on one node. A run never moves back; a retry is a new run."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from windlass.core.model.ids import JobId, Millis, NodeId, PoolId, RunId, TenantId
from windlass.core.model.money import LIST_PRICES, PriceBook
from windlass.core.model.resources import Resources


class RunState(StrEnum):
    ASSIGNED = "ASSIGNED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    UNKNOWN = "UNKNOWN"
    EXITED = "EXITED"
    STOPPED = "STOPPED"
    LOST = "LOST"
    REFUSED = "REFUSED"

    __hash__ = str.__hash__  # enum's own is a function in Python, called for every look into a table


ENDED = frozenset({RunState.EXITED, RunState.STOPPED, RunState.LOST, RunState.REFUSED})


TIMED_OUT: Final = "DeadlineExceeded"
"""`Run.reason` of what ran longer than its timeout."""
TAKEN_DOWN: Final = "TakenDown"
"""`Run.stopped_for` of what ran when the installation ended."""


class Intent(StrEnum):
    """What the control plane wants of a run; the node reports what is."""

    RUN = "run"
    STOP = "stop"
    """Ended early by cancel or timeout; the node reports the end as usual."""
    KEEP = "keep"
    """Over and accepted; its container stays until the run TTL, then the record goes and the node removes it."""


class Token(Struct, frozen=True, order=True, array_like=True, gc=False):
    """The fencing token: only growing, stored before it is sent. A result counts only with the current one."""

    epoch: int
    n: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.n}"


class ImageWait(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run that is being started waits for its image."""

    failures: int = 0
    """Pulls that failed."""
    again_at: Millis | None = None
    """When the next is tried; None: one is under way."""


class Run(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    id: RunId
    job: JobId
    tenant: TenantId
    node: NodeId
    attempt: int
    token: Token
    needs: Resources
    since: Millis
    assigned_at: Millis
    ends_at: Millis | None = None
    """When it is over by what its job announced, else by its timeout; None: nobody knows."""
    pool: PoolId = PoolId("")
    """Of its node when it was placed."""
    index: int = 0
    gpu_ids: tuple[str, ...] = ()
    state: RunState = RunState.ASSIGNED
    intent: Intent = Intent.RUN
    keep_until: Millis | None = None
    started_at: Millis | None = None
    ended_at: Millis | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    progress: str = ""
    """What a STARTING run is doing: pulling, staging, creating."""
    image_wait: ImageWait | None = None
    ran_ms: Millis | None = None
    """Measured by the node's monotonic clock; what metering charges."""
    cpu_used_ms: int | None = None
    """Processor time, as the node measured it; None: it could not."""
    memory_peak_bytes: int | None = None
    charged: int = 0
    """Work its tenant's account was charged when it was placed (see `fairness.ledger`); the end corrects it."""
    charged_weight: int = 1000
    """The tenant's weight then, in thousandths: a correction must undo exactly what was done."""
    prices: PriceBook = LIST_PRICES
    """Fixed when it is placed."""
    burst: str = ""
    """The burst session it was placed in beyond its tenant's quota; empty: within the quota."""
    burst_until: Millis | None = None
    """The end of that session: until then `burst_factor` (thousandths) of the price is charged."""
    burst_factor: int = 1000
    stopped_for: str = ""
    """Why the control plane stops it, where nobody asked for it: `CostExceeded`, `BudgetExceeded`, `TakenDown`."""

    @property
    def is_over(self) -> bool:
        return self.state in ENDED
