"""Where work may run: nodes of one kind under one price, fixed (static) or asked for and given back as needed (dynamic)."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from windlass.core.model.ids import Millis, NodeId, PoolId, TenantId
from windlass.core.model.resources import NOTHING, Resources


class PoolKind(StrEnum):
    STATIC = "static"
    DYNAMIC = "dynamic"


class Measure(StrEnum):
    """What a trigger looks at."""

    CPU = "cpu"
    """Held, in thousandths of what the pool has."""
    MEMORY = "memory"
    DEPTH = "depth"
    """Queued jobs that its workers could run."""
    WAIT = "wait"
    """Milliseconds that the oldest of these has waited."""


class Trigger(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """At `up` or above the pool grows; it shrinks only when every trigger is at its `down` or below."""

    measure: Measure
    up: int
    down: int
    target: int | None = None
    """Target tracking: as many workers as bring the measure there (of `depth`: so many queued jobs for each worker). None: one
    step, and always so for `wait`, which workers do not divide among them."""
    step_up: int = 1
    step_down: int = 1


class Schedule(Struct, frozen=True, kw_only=True):
    """From each time `cron` names until the next schedule's, at least `workers`."""

    cron: str
    workers: int


DEFAULT_TRIGGERS: Final = (
    Trigger(measure=Measure.CPU, up=800, down=300, target=600),
    Trigger(measure=Measure.MEMORY, up=850, down=400, target=650),
    Trigger(measure=Measure.DEPTH, up=50, down=5),
    Trigger(measure=Measure.WAIT, up=300_000, down=60_000),
)


class Scaling(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a dynamic pool grows and shrinks."""

    workers_min: int = 0
    workers_max: int = 10
    worker: Resources = NOTHING
    """What one worker has."""
    triggers: tuple[Trigger, ...] = DEFAULT_TRIGGERS
    schedules: tuple[Schedule, ...] = ()
    spares: int = 0
    """Idle workers kept warm beyond those in use, within the maximum."""
    cooldown_up_ms: Millis = Millis(60_000)
    cooldown_down_ms: Millis = Millis(120_000)
    up_per_minute: int = 10
    down_per_minute: int = 5
    idle_ms: Millis = Millis(1_800_000)
    """A worker that has been idle for so long is given back, whatever the triggers say."""
    runs_per_worker: int = 10
    """After so many runs a worker is given back when it is idle. 0: it may serve for ever."""
    ready_within_ms: Millis = Millis(300_000)
    """A worker that has not joined by then is given up, and another may be asked for."""


class Pool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What it costs is in the one list of prices, under its name."""

    id: PoolId
    kind: PoolKind = PoolKind.STATIC
    labels: tuple[tuple[str, str], ...] = ()
    """Its nodes have them, beside their own, which win: for node selectors."""
    tenants: tuple[TenantId, ...] = ()
    """Who may use it; empty means everybody. Named: nobody else, so with one name it is that tenant's alone."""
    provisioner: str = ""
    """Who makes its workers: `slice`. A static pool has none."""
    runtimes: tuple[str, ...] = ()
    """What its workers can run, as its provisioner says."""
    scaling: Scaling | None = None
    is_paused: bool = False
    """It neither grows nor shrinks by itself."""
    created_at: Millis = Millis(0)

    def admits(self, tenant: TenantId) -> bool:
        """May it use the pool, and so know of it? Its quota may still name others only."""
        return not self.tenants or tenant in self.tenants

    @property
    def is_dynamic(self) -> bool:
        return self.kind is PoolKind.DYNAMIC

    @property
    def reach(self) -> Resources:
        """What all workers it may ever have come to."""
        return self.scaling.worker * self.scaling.workers_max if self.scaling is not None else NOTHING


class WorkerState(StrEnum):
    ASKED = "asked"
    """Written down before the provisioner is called, so that none is ever made that nobody knows of."""
    READY = "ready"
    """Its node has joined."""
    ENDING = "ending"
    """It takes no new run; when the last is over it is given back."""


class Worker(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One that a dynamic pool asked for. Its id is its node's: asking twice for the same gives one."""

    id: NodeId
    pool: PoolId
    home: NodeId
    """The machine it is on: what its runs leave behind (volumes, kept containers) lies there and outlives it."""
    asked_at: Millis
    state: WorkerState = WorkerState.ASKED
    since: Millis = Millis(0)
    runs: int = 0
    """That it was given."""
    problem: str = ""
    """What the provisioner last said, when it could not,"""
    problem_at: Millis = Millis(0)
    """and when."""
    ready_at: Millis | None = None
    """When its node joined: what is paid for it by the hour counts from here."""
    hour_price: int = 0
    """Micro-units a worker-hour, fixed then."""
    payer: TenantId = TenantId("")
    """Whose pool it was alone, then; empty: everybody's, and nobody pays for its being there."""

    @property
    def is_coming(self) -> bool:
        """Asked for, and its provisioner has not said that it cannot."""
        return self.state is WorkerState.ASKED and not self.problem


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One that was made: what cooldowns and rates are counted from."""

    at: Millis
    by: int


class Growth(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pool's recent changes, oldest first: stored, so that a restart is no way round a cooldown."""

    changes: tuple[Change, ...] = ()
