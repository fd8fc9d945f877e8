"""The control plane as one object: what `api` is given, and the loops that make it live."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from msgspec import Struct

from windlass.control.artifacts import Artifacts
from windlass.control.audit import AuditTrail
from windlass.control.autoscaler import Autoscaler
from windlass.control.brain import Brain
from windlass.control.dispatch import Dispatch
from windlass.control.foresight import Foresight
from windlass.control.intake import Intake
from windlass.control.janitor import Janitor
from windlass.control.pools import Pools
from windlass.control.readmodel import ReadModel
from windlass.control.runtimes import Runtimes
from windlass.control.secrets import Secrets
from windlass.control.tenants import Tenants
from windlass.control.terminals import Terminals
from windlass.control.treasury import Treasury
from windlass.control.webhooks import Webhooks
from windlass.core.errors import WindlassError
from windlass.core.fairness.deadlines import Urgency
from windlass.core.model.ids import JobId, Millis, NodeId, TenantId
from windlass.core.model.views import NodeView
from windlass.core.world.queues import FairnessView, QueueView, fairness, queue_status, urgent_counts, why_parked
from windlass.ports.blobs import Blobs
from windlass.ports.clock import Clock
from windlass.ports.ids import Ids
from windlass.ports.logs import Logs
from windlass.ports.runtime import Runtime
from windlass.ports.store import Store

_ANSWER_SECONDS: Final = 5
"""For a runtime to say that it is there: whoever asks after health does not wait for one that hangs."""


class Readiness(Struct, frozen=True, kw_only=True):
    is_ready: bool
    parts: dict[str, str]
    """Each part with `ok` or what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    brain: Brain
    dispatch: Dispatch
    intake: Intake
    foresight: Foresight
    read_model: ReadModel
    tenants: Tenants
    audit: AuditTrail
    pools: Pools
    autoscaler: Autoscaler
    janitor: Janitor
    webhooks: Webhooks
    treasury: Treasury
    logbook: Logs
    artifacts: Artifacts
    terminals: Terminals
    secrets: Secrets
    blobs: Blobs
    store: Store
    clock: Clock
    ids: Ids
    runtimes: Runtimes
    runtime_kind: str
    """`container` or `process`: what a job without other wishes runs on."""
    runtime_name: str
    runtime_names: dict[NodeId, str] = field(default_factory=dict)
    """Of nodes that are elsewhere."""
    pool_runtimes: dict[str, str] = field(default_factory=dict)
    """Kinds of pools that run something else than this machine does."""

    @property
    def runtime(self) -> Runtime:
        """This machine's own."""
        return self.runtimes.own

    async def run(self) -> None:
        """All loops; one fails, all stop, the error surfaces."""
        loops: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = (
            self.brain.committer.run,
            self.brain.run,
            self.read_model.run,
            self.janitor.run,
            self.webhooks.run,
            self.secrets.run,
            self.autoscaler.run,
        )
        async with anyio.create_task_group() as tasks:
            for loop in loops:
                tasks.start_soon(loop)

    def nodes(self, tenant: TenantId | None) -> tuple[NodeView, ...]:
        """Of pools that one tenant may use, or of all."""
        places, pools = self.brain.world.tables.places, self.brain.world.tables.fleet.pools
        shut = {pool.id for pool in pools.values() if tenant is not None and not pool.admits(tenant)}
        return tuple(
            NodeView(
                node=slot.node,
                labels=places.labels_of(slot.node),
                free=slot.free,
                runs=slot.runs,
                runtime=self.runtime_names.get(slot.node.id, self.runtime_name),
            )
            for slot in places
            if slot.node.pool not in shut
        )

    def queues(self, tenant: TenantId | None) -> tuple[QueueView, ...]:
        """Of one tenant or of all."""
        return queue_status(self.brain.world, tenant, now=self.clock.now())

    def fairness(self, tenant: TenantId | None, *, window_ms: Millis | None) -> FairnessView:
        return fairness(self.brain.world, tenant, now=self.clock.now(), window_ms=window_ms)

    def deadlines(self) -> tuple[dict[Urgency, int], int]:
        """Waiting jobs whose deadline is near or past, and how many deadlines were missed since the start."""
        return urgent_counts(self.brain.world), self.brain.world.tables.missed

    def waiting(self, job: JobId) -> tuple[str, ...]:
        """Why a PENDING job is not placed, most frequent reason first."""
        tables = self.brain.world.tables
        found = tables.jobs.get(job)
        if found is None or found.is_over:
            return ()
        if found.is_suspended:
            return ("suspended until it is released",)
        if found.not_before > self.clock.now():
            return (f"backing off after attempt {found.attempt}",)
        lane = tables.queue.lane_of(found)
        if lane is None:
            return ()
        reasons = (*tables.queue.held(found.tenant), *why_parked(self.brain.world, lane))
        return tuple(f"{reason} ({count} node{'s' * (count != 1)})" if count else reason for reason, count in reasons)

    async def is_ready(self) -> Readiness:
        """Unless jobs can be taken and started on this machine; a cluster that is away is said, and holds up its own alone."""
        parts = {"store": "ok"}
        try:
            self.brain.committer.check_writable()
            await self.store.check_room()
        except WindlassError as error:
            parts["store"] = error.message
        asked = {"runtime": self.runtimes.own} | {str(node): one for node, one in self.runtimes.others.items()}
        for name, runtime in asked.items():
            parts[name] = await _said_by(runtime)
        return Readiness(is_ready=parts["store"] == parts["runtime"] == "ok", parts=parts)


async def _said_by(runtime: Runtime) -> str:
    """`ok`, or why nothing can be started there now."""
    try:
        with anyio.fail_after(_ANSWER_SECONDS):
            await runtime.machine()
    except TimeoutError:
        return f"no answer within {_ANSWER_SECONDS} seconds"
    except WindlassError as error:
        return error.message
    return "ok"
