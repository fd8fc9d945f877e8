"""One seed's story: clients at work while chance breaks things, then calm, then everything must come to its end."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
import structlog

from tests.simulation.clients import GIB, Client
from tests.simulation.trouble import Trouble
from windlass.control.janitor import Retention
from windlass.core.errors import Conflict
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.money import Micros, PriceBook, Prices
from windlass.core.model.resources import Resources
from windlass.core.model.tenant import Budget, BurstPolicy, Quota, QuotaPolicy, Tenant
from windlass.core.world.policy import Policy
from windlass.ports.runtime import ImageUnavailable
from windlass.testing.builders import a_node
from windlass.testing.cluster import Cluster
from windlass.testing.resting import check_rebuild
from windlass.testing.virtual import VirtualLoop, run_virtual

TENANTS = (
    Tenant(
        id=TenantId("acme"),
        quota=Quota(resources=Resources(cpu_millis=5000, memory_bytes=24 * GIB), jobs=6),
        budget=Budget(per_month=Micros(10_000)),
    ),
    Tenant(
        id=TenantId("blue"),
        policy=QuotaPolicy.BURST,
        quota=Quota(resources=Resources(cpu_millis=4000, memory_bytes=24 * GIB), jobs=4),
        burst=BurstPolicy(span_ms=Millis(60_000), cooldown_ms=Millis(60_000), sessions_per_day=100),
    ),
)
"""One that waits at its quota, one that goes beyond."""
CHAOS_SECONDS = 600
JOBS_MIN = 120
QUIET_SECONDS_MAX = 900
TTL_SECONDS_MAX = 240
"""The longest TTL a client asks for, plus the sweeps and safety nets that may come before it is noticed."""


@dataclass
class Outcome:
    cluster: Cluster
    is_quiet: bool
    """Everything reached an end before the bound."""
    healed_at: Millis
    quiet_at: Millis
    wrong: list[str]
    """What a look in between found."""


def play(seed: int, judge: Any) -> Any:
    """Run the seed's story and let `judge` look at its outcome while the loop still lives."""

    async def main(loop: VirtualLoop) -> Any:
        nodes = tuple(a_node(name, cpu=6000, memory=32 * GIB) for name in ("n1", "n2"))
        cluster = Cluster(
            loop,
            seed,
            nodes=nodes,
            tenants=TENANTS,
            prices=Prices(every=PriceBook(stored_gigabyte_hour=3_600_000)),
            policy=Policy(unclaimed_volume_ttl_ms=Millis(60_000)),
            retention=Retention(sweep_ms=Millis(120_000), outbox_ms=Millis(86_400_000)),
            machine_options=_machine_options,
        )
        with _logs_into(cluster):
            return await judge(await _story(cluster))

    return run_virtual(main)


def _machine_options() -> dict[str, Any]:
    refused = ImageUnavailable("no such image", is_transient=False, code="image-not-found")
    return {
        "capacity": Resources(cpu_millis=6000, memory_bytes=32 * GIB),
        "images": {"here"},
        "registry": {"slow": 4000, "flaky": 500, "absent": refused},
    }


async def _story(cluster: Cluster) -> Outcome:
    cluster.start()
    await _until(lambda: _has_joined(cluster), seconds_max=60)
    wrong: list[str] = []
    trouble = Trouble(cluster)
    trouble.begin()
    until = Millis(cluster.clock.now() + CHAOS_SECONDS * 1000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(trouble.run)
        tasks.start_soon(_compare, cluster, wrong)
        async with anyio.create_task_group() as clients:
            for number in range(4):
                client = Client(cluster, number, TENANTS[number % 2].id, until, jobs_min=JOBS_MIN // 4)
                clients.start_soon(client.run)
        tasks.cancel_scope.cancel()
    cluster.heal()
    healed_at = cluster.clock.now()
    await _release_forgotten(cluster)
    is_quiet = await _until(lambda: _is_quiet(cluster), seconds_max=QUIET_SECONDS_MAX)
    quiet_at = cluster.clock.now()
    await anyio.sleep(TTL_SECONDS_MAX)
    return Outcome(cluster=cluster, is_quiet=is_quiet, healed_at=healed_at, quiet_at=quiet_at, wrong=wrong)


async def _release_forgotten(cluster: Cluster) -> None:
    """Suspended jobs whose client never learned that they were accepted: an admin lets them go."""
    await _until(lambda: cluster.server.plane is not None, seconds_max=300)
    plane = cluster.server.plane
    assert plane is not None, "nothing kills the server any more"
    for job in [job for job in plane.brain.world.tables.jobs.values() if job.is_suspended]:
        with suppress(Conflict):  # cancelled meanwhile
            await cluster.network.request(lambda plane, job=job: plane.intake.release(job.tenant, job.id))


async def _compare(cluster: Cluster, wrong: list[str]) -> None:
    """Now and then: would a server that starts now see what the living one sees?"""
    while not wrong:
        await anyio.sleep(11.3)
        wrong += check_rebuild(cluster)


def _has_joined(cluster: Cluster) -> bool:
    plane = cluster.server.plane
    return plane is not None and len(plane.brain.world.tables.nodes) == len(cluster.nodes)


def _is_quiet(cluster: Cluster) -> bool:
    plane = cluster.server.plane
    return plane is not None and not plane.brain.world.tables.jobs and not len(plane.brain.world.journal)


async def _until(fact: Any, *, seconds_max: int) -> bool:
    for _ in range(seconds_max):
        if fact():
            return True
        await anyio.sleep(1)
    return bool(fact())


@contextmanager
def _logs_into(cluster: Cluster) -> Iterator[None]:
    """The product's log becomes lines of the history; a fault it swallowed and logged is a fault all the same."""

    def take(logger: Any, level: str, event: dict[str, Any]) -> Any:
        name = event.pop("event")
        if event.pop("exc_info", None):
            cluster.faults.append(f"{name} {event}\n{traceback.format_exc()}")
        fields = {key: str(value)[:200] for key, value in event.items()}
        cluster.history.note("log", level=level, event=name, fields=fields)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[take])
    try:
        yield
    finally:
        structlog.configure(**before)
