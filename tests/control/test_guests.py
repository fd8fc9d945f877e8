"""The door for jobs that tenants make on a cluster, on a whole plane with a fake cluster: once, with reasons, and back again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from tests.parts.waiting import wait_until
from windlass.control.guests import UID, GuestDoor
from windlass.control.plane import ControlPlane
from windlass.core.model.ids import LOCAL_TENANT, JobId, NodeId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.tenant import Quota, QuotaPolicy, Tenant
from windlass.ports.guests import Guest
from windlass.testing.plane import memory_home

pytestmark = pytest.mark.anyio

DEADLINE = 120


class Desk:
    """A cluster that tells what it is told to, and keeps what it was told."""

    def __init__(self) -> None:
        self._sending, self._receiving = anyio.create_memory_object_stream[Guest](100)
        self.told: dict[str, list[str]] = {}
        self.jobs: dict[str, str | None] = {}
        self.dismissed: list[str] = []

    async def say(self, guest: Guest) -> None:
        await self._sending.send(guest)

    async def changes(self) -> AsyncIterator[Guest]:
        async for guest in self._receiving:
            yield guest

    async def tell(self, guest: Guest, *, words: str, job: str | None = None) -> None:
        self.told.setdefault(guest.name, []).append(words)
        if job is not None:
            self.jobs[guest.name] = job

    async def dismiss(self, guest: Guest) -> None:
        self.dismissed.append(guest.name)


def a_guest(name: str, *, tenant: str = LOCAL_TENANT, **changes: Any) -> Guest:
    spec = {"image": "any", "command": ["do", "sleep 3600"], "resources": {"gpu": 0, "cpu": "100m", "memory": "64Mi"}}
    ref = f"lab/{name}/uid-{name}"
    return replace(Guest(ref=ref, tenant=TenantId(tenant), spec=spec, is_ready=True), **changes)


def guests_of(plane: ControlPlane) -> list[Job]:
    return [job for job in plane.brain.world.tables.jobs.values() if UID in dict(job.labels) and not job.is_over]


@asynccontextmanager
async def a_door(plane: ControlPlane) -> AsyncIterator[Desk]:
    desk = Desk()
    pool = plane.brain.world.tables.nodes[NodeId("n1")].pool
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(GuestDoor(plane, desk, pool).run)
        yield desk
        tasks.cancel_scope.cancel()


async def heard(desk: Desk, name: str) -> None:
    """Until that guest was told something; what was said before it has then been considered."""
    await wait_until(lambda: name in desk.told, DEADLINE, f"{name} to be told something")


async def test_a_guest_becomes_one_job_however_often_it_is_heard_of_and_over_a_new_door() -> None:
    async with memory_home() as home:
        async with a_door(home.plane) as desk:
            for _ in range(5):
                await desk.say(a_guest("one"))
            await desk.say(a_guest("two"))
            await heard(desk, "two")
            assert len(guests_of(home.plane)) == 2
            assert desk.jobs["one"] in {job.id for job in guests_of(home.plane)}
        async with a_door(home.plane) as successor:
            await successor.say(a_guest("one"))  # that it was accepted did not come through to the cluster
            await successor.say(a_guest("three"))
            await heard(successor, "three")
            assert len(guests_of(home.plane)) == 3
            assert "one" not in successor.dismissed


async def test_what_is_over_quota_is_told_so_and_taken_in_when_there_is_room() -> None:
    async with memory_home() as home, a_door(home.plane) as desk:
        limited = Tenant(id=LOCAL_TENANT, quota=Quota(jobs=1), policy=QuotaPolicy.REJECT)
        home.plane.brain.world.set_tenant(limited, now=home.plane.clock.now())
        await desk.say(a_guest("first"))
        await heard(desk, "first")
        await desk.say(a_guest("second"))
        await heard(desk, "second")
        assert "1 of 1" in desk.told["second"][0]
        assert "second" not in desk.jobs
        await desk.say(a_guest("first", is_ready=False))
        await wait_until(lambda: desk.jobs.get("second"), DEADLINE, "the second to be accepted")
        assert desk.jobs["first"] == ""


async def test_one_whose_job_was_cancelled_here_is_dismissed_and_not_taken_in_again() -> None:
    async with memory_home() as home, a_door(home.plane) as desk:
        await desk.say(a_guest("it"))
        await wait_until(lambda: desk.jobs.get("it"), DEADLINE, "it to be accepted")
        await home.plane.intake.cancel(LOCAL_TENANT, JobId(str(desk.jobs["it"])))
        await wait_until(lambda: desk.dismissed, DEADLINE, "it to be dismissed")
        assert guests_of(home.plane) == []
        assert set(desk.dismissed) == {"it"}


async def test_whom_nobody_knows_and_what_cannot_be_read_is_said_and_disturbs_no_other() -> None:
    async with memory_home() as home, a_door(home.plane) as desk:
        await desk.say(a_guest("strange", tenant="nobody"))
        await desk.say(a_guest("broken", spec={"image": "any", "resources": {"cpu": "a lot"}}))
        await desk.say(a_guest("good"))
        await heard(desk, "good")
        assert desk.told["strange"][0].startswith("tenant-unknown: ")
        assert "spec.resources.cpu" in desk.told["broken"][0]
        assert [dict(job.labels)["kubernetes.name"] for job in guests_of(home.plane)] == ["good"]
