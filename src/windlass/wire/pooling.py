"""What is asked and answered about pools and their scaling, beside the manifest itself."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from windlass.core.model import bounds
from windlass.core.model.ids import Millis
from windlass.core.model.node import Node
from windlass.core.model.pool import Measure, Worker
from windlass.core.scaling import ScalingStep, Seen
from windlass.wire.job import Strict
from windlass.wire.pool import PoolSpecDocument
from windlass.wire.render import timestamp
from windlass.wire.schema import Shape
from windlass.wire.tenancy import TenantName
from windlass.wire.written import count

Wall = Callable[[Millis], float]


class ScaleRequest(Strict):
    workers: Annotated[int, count(bounds.POOL_WORKERS)]


class WorkerItem(Shape):
    name: str
    state: Literal["asked", "ready", "ending"]
    since: str
    runs: int
    """That it was ever given."""
    running: int
    """Of them, those that are on it now."""
    problem: str


class PoolStatus(Shape):
    nodes: int
    workers: list[WorkerItem]
    lacks: str
    """What its workers do without on this machine, and why."""


class PoolManifest(Shape):
    """A pool as the server answers it."""

    api_version: Literal["windlass.dev/v1"]
    kind: Literal["Pool"]
    metadata: TenantName
    spec: PoolSpecDocument
    status: PoolStatus


class PoolList(Shape):
    items: list[PoolManifest]
    revision: int


class DeletedPool(Shape):
    name: str
    left_quotas_of: list[str]
    """Tenants whose quotas named it, and others; they no longer do."""


class PoolMetrics(Shape):
    """What the autoscaler looks at. A measure that cannot be had is null."""

    ready: int
    coming: int
    ending: int
    idle: int
    needed: int
    cpu_percent: float | None
    memory_percent: float | None
    depth: int | None
    wait_seconds: float | None


class ScalingItem(Shape):
    number: int
    at: str
    by: int
    wanted: int
    rule: str
    held: list[str]
    workers: list[str]
    seen: PoolMetrics


class ScalingHistory(Shape):
    items: list[ScalingItem]
    next: int | None


class NodeStateShape(Shape):
    name: str
    state: str


def status_document(
    nodes: Iterable[Node], workers: Iterable[tuple[Worker, int]], *, lacks: str = "", wall: Wall
) -> dict[str, Any]:
    """A worker comes with how many runs are on it."""
    return {
        "nodes": sum(1 for _ in nodes),
        "workers": [
            {
                "name": worker.id,
                "state": worker.state.value,
                "since": timestamp(wall(worker.since)),
                "runs": worker.runs,
                "running": running,
                "problem": worker.problem,
            }
            for worker, running in workers
        ],
        "lacks": lacks,
    }


def metrics_document(seen: Seen) -> dict[str, Any]:
    values = dict(seen.measures)
    cpu, memory, wait = (values.get(one) for one in (Measure.CPU, Measure.MEMORY, Measure.WAIT))
    return {
        "ready": seen.ready,
        "coming": seen.coming,
        "ending": seen.ending,
        "idle": seen.idle,
        "needed": seen.needed,
        "cpuPercent": None if cpu is None else cpu / 10,
        "memoryPercent": None if memory is None else memory / 10,
        "depth": values.get(Measure.DEPTH),
        "waitSeconds": None if wait is None else wait / 1000,
    }


def step_document(step: ScalingStep, *, wall: Wall) -> dict[str, Any]:
    verdict = step.verdict
    return {
        "number": step.number,
        "at": timestamp(wall(step.at)),
        "by": verdict.by,
        "wanted": verdict.wanted,
        "rule": verdict.rule,
        "held": list(verdict.held),
        "workers": list(step.workers),
        "seen": metrics_document(step.seen),
    }
