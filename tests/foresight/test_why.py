"""`why` over the real API: the right gate in each constructed situation, and a job that starts once its advice is followed."""

import os
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from tests.api.home import IMAGE, manifest
from tests.api.live import LiveHome, live_home
from tests.core.pool_home import node_of
from windlass.core.model.calendar import day_of
from windlass.core.model.ids import Millis, NodeId, PoolId, TenantId
from windlass.core.model.money import Micros
from windlass.core.model.node import Node, NodeState
from windlass.core.model.pool import Worker
from windlass.core.model.resources import Resources
from windlass.core.model.spending import DayTotal, PoolTotal
from windlass.core.model.tenant import Budget, BurstPolicy, Quota, QuotaPolicy, Tenant
from windlass.core.model.views import EventQuery
from windlass.core.world.bursts import ask_burst, end_burst
from windlass.core.world.records import Table
from windlass.core.world.spending import total_id
from windlass.core.world.workers import join_node
from windlass.ports.runtime import ImageUnavailable
from windlass.testing.provisioner import MemoryProvisioner

GIB = 1 << 30
LOCAL = TenantId("local")
FOREVER = ("sleep", "99999")
ADMIN = ("admin",)


class Scene:
    """One home, with what the situations are made of."""

    def __init__(self, live: LiveHome) -> None:
        self.api = api = live.api
        self.url = live.url
        self.world = api.home.plane.brain.world
        self.asked_at = 0
        """The revision at which `why` was asked last."""

    async def decide(self, verb: Callable[[Millis], object]) -> None:
        await self.api.home.plane.brain.decide(verb)

    async def tenant(self, **changes: Any) -> None:
        wanted = replace(Tenant(id=LOCAL), **changes)
        await self.decide(lambda now: self.world.set_tenant(wanted, now=now))

    async def node(self, **changes: Any) -> None:
        """Of the one node there is."""
        known = self.world.tables.nodes[NodeId("n1")]
        await self.decide(lambda now: self.world.set_node(replace(known, **changes), now=now))

    async def runs(self, name: str, *, tenant: str = "local", **spec: Any) -> None:
        await self.submit(name, tenant=tenant, **spec)
        if tenant == "local":
            await self.api.until(name, "RUNNING")

    async def submit(
        self, name: str, *, tenant: str = "local", command: tuple[str, ...] = FOREVER, **spec: Any
    ) -> None:
        document = manifest(*command, name=name, **spec)
        answer = await self.api.client.post("/api/v1/jobs", json=document, headers=self.api.bearer(tenant=tenant))
        assert answer.status_code == 201, answer.text

    async def why(self, name: str = "mine") -> Any:
        answer = await self.api.client.get(f"/api/v1/jobs/{name}/why")
        assert answer.status_code == 200, answer.text
        self.asked_at = self.api.home.plane.read_model.revision
        return answer.json()

    async def queue(self, expected: Any) -> Any:
        """What is shown of the queue, once it is that or the time is over."""
        shown = None
        with anyio.move_on_after(120):
            while shown != expected:
                items = (await self.api.client.get("/api/v1/queues/status")).json()["items"]
                shown = sorted((item["head"]["name"], item["state"], item["reasons"]) for item in items)
                await anyio.sleep(0.01)  # the fact awaited is the next placing
        return shown

    async def placed_since_why(self) -> str:
        """The node the job, or the one that was asked for in its place, was given since."""
        read_model = self.api.home.plane.read_model
        with anyio.fail_after(60):
            while True:
                seen = read_model.revision
                for event in await read_model.events(EventQuery(tenants=(LOCAL,), after=self.asked_at)):
                    if event.kind == "Scheduled" and event.name in ("mine", "again"):
                        return event.node
                await read_model.beyond(seen)

    async def follow(self, advice: Any) -> None:
        """Type what it says, as it stands, into a shell of an admin."""
        token = self.api.token(roles=ADMIN)
        environ = os.environ | {"WINDLASS_URL": self.url, "WINDLASS_TOKEN": token, "NO_COLOR": "1"}
        assert advice["command"]
        for command in advice["command"].split(" && "):
            name, *words = shlex.split(command)
            assert name == "windlass"
            typed = [sys.executable, "-c", "from windlass.boot.entry import windlass; windlass()", *words]
            done = await anyio.run_process(typed, env=environ, check=False)
            assert done.returncode == 0, (advice, done.stdout, done.stderr)

    async def again(self, **spec: Any) -> None:
        """The same job, asked for differently."""
        await self.api.client.post("/api/v1/jobs/mine/cancel")
        await self.api.until("mine")
        await self.submit("again", **spec)
        await self.api.until("again", "RUNNING")


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with live_home() as live:
        yield Scene(live)


def held_by(found: Any) -> tuple[str, str]:
    gate = next(gate for gate in found["gates"] if gate["holds"])
    assert gate["name"] == found["gate"]
    return gate["name"], gate["says"]


def advised(found: Any, does: str) -> Any:
    matching = [one for one in found["advice"] if one["does"] == does]
    assert matching, f"no advice {does} in {found['advice']}"
    return matching[0]


def cores(amount: int) -> dict[str, Any]:
    return {"resources": {"cpu": str(amount), "memory": "64Mi", "gpu": 0}}


async def suspended(scene: Scene) -> None:
    await scene.submit("mine", suspend=True)
    found = await scene.why()
    assert held_by(found)[0] == "release"
    assert found["start"] is None
    assert advised(found, "release")["command"] == "windlass release mine"
    await scene.follow(advised(found, "release"))


async def backing_off(scene: Scene) -> None:
    hour = Millis(3_600_000)
    scene.world.policy = replace(scene.world.policy, retry_backoff_ms=hour, retry_backoff_max_ms=hour)
    await scene.submit("mine", command=("exit", "1"), retries=3)
    uid = (await scene.api.until("mine", "PENDING"))["metadata"]["uid"]
    while (job := scene.world.tables.jobs[uid]).not_before == 0:
        await scene.api.home.plane.read_model.beyond(scene.api.home.plane.read_model.revision)
    found = await scene.why()
    name, says = held_by(found)
    assert (name, "attempt 1 of 4 failed" in says) == ("backoff", True)
    gate = next(gate for gate in found["gates"] if gate["holds"])
    assert found["start"]["at"] >= gate["opensAt"]
    assert found["advice"] == []  # but to wait: the hour passes

    def later(now: Millis) -> None:
        with scene.world.decision(now):
            scene.world.put(Table.JOBS, uid, replace(job, not_before=now))

    await scene.decide(later)


async def day_is_spent(scene: Scene) -> None:
    await scene.tenant(quota=Quota(cost_per_day=1_000))
    await spend(scene, 1_000)
    await held_without_admission(scene)
    name, says = held_by(await scene.why())
    assert (name, "cost-per-day: 0.001 of 0.001 used" in says) == ("budget", True)
    advice = advised(await scene.why(), "budget")
    assert (advice["byAdmin"], advice["command"]) == (True, "windlass tenants quota local --cost-per-day 0.002")
    await scene.follow(advice)


async def budget_is_spent(scene: Scene) -> None:
    await scene.tenant(budget=Budget(per_month=5_000, is_hard=True))
    await spend(scene, 5_000)
    await held_without_admission(scene)
    name, says = held_by(await scene.why())
    assert (name, "budget-spent" in says) == ("budget", True)
    advice = advised(await scene.why(), "budget")
    assert advice["command"] == "windlass tenants budget local --per-month 0.01"
    await scene.follow(advice)


async def spend(scene: Scene, micros: int) -> None:
    def verb(now: Millis) -> None:
        day = day_of(now)
        with scene.world.decision(now):
            spent = PoolTotal(cost=Micros(micros))
            total = DayTotal(tenant=LOCAL, day=day, pools={PoolId("local"): spent})
            scene.world.put(Table.TOTALS, total_id(LOCAL, day), total)

    await scene.decide(verb)


async def held_without_admission(scene: Scene) -> None:
    """A job that was accepted before the money was gone: suspended then, released now."""
    limits = scene.world.tables.tenants[LOCAL]
    await scene.tenant()
    await scene.submit("mine", suspend=True)
    await scene.decide(lambda now: scene.world.set_tenant(limits, now=now))
    await scene.api.client.post("/api/v1/jobs/mine/release")


async def quota_of_cores(scene: Scene) -> None:
    await scene.tenant(quota=Quota(resources=Resources(cpu_millis=2000, memory_bytes=GIB)))
    await scene.runs("other-one", **cores(1))
    await scene.submit("mine", **cores(2))
    found = await scene.why()
    name, says = held_by(found)
    assert (name, "quota-cpu: 1 of 2 cores used, 2 more asked for" in says) == ("quota", True)
    assert advised(found, "cancel")["command"] == "windlass cancel other-one"
    advice = advised(found, "quota")
    assert (advice["values"], advice["command"]) == (
        {"cpu": "3 cores"},
        "windlass tenants quota local --cpu 3000m",
    )
    await scene.follow(advice)


async def quota_of_jobs(scene: Scene) -> None:
    await scene.tenant(quota=Quota(jobs=1), burst=BurstPolicy(sessions_per_day=0))
    await scene.runs("other-one")
    await scene.submit("mine")
    found = await scene.why()
    name, says = held_by(found)
    assert (name, "quota-jobs: 1 of 1 jobs used" in says) == ("quota", True)
    assert found["advice"][0]["command"] == "windlass cancel other-one"
    await scene.follow(found["advice"][0])


async def quota_that_a_burst_would_open(scene: Scene) -> None:
    await scene.tenant(quota=Quota(jobs=2))
    await scene.runs("first")
    await scene.runs("second")
    await scene.submit("mine")
    found = await scene.why()
    assert held_by(found)[0] == "quota"
    assert found["advice"][0]["does"] == "burst"
    assert found["advice"][0]["command"] == "windlass tenants burst local --open"
    await scene.follow(found["advice"][0])


async def burst_in_cooldown(scene: Scene) -> None:
    await scene.tenant(policy=QuotaPolicy.BURST, quota=Quota(jobs=2))
    await scene.decide(lambda now: ask_burst(scene.world, LOCAL, now=now))
    await scene.decide(lambda now: end_burst(scene.world, LOCAL, now=now))
    await scene.runs("first")
    await scene.runs("second")
    await scene.submit("mine")
    found = await scene.why()
    gate = next(gate for gate in found["gates"] if gate["holds"])
    assert (gate["name"], gate["says"]) == ("burst", "the last session has just ended")
    assert gate["opensAt"] is not None
    await scene.api.client.post("/api/v1/jobs/second/cancel")
    assert advised(found, "cancel")["command"] == "windlass cancel second"


async def cores_in_use(scene: Scene) -> None:
    whole = scene.world.tables.nodes[NodeId("n1")].capacity.cpu_millis // 1000
    await scene.runs("other-one", **cores(whole - 1))
    await scene.submit("mine", **cores(2))
    found = await scene.why()
    assert held_by(found) == ("node", "cpu in use (1 node)")
    assert found["start"]["node"] == "n1"
    less = advised(found, "ask-less")
    assert less["values"]["resources.cpu"] == "1000m"
    await scene.again(resources={"cpu": less["values"]["resources.cpu"], "memory": "64Mi", "gpu": 0})


async def room_of_others(scene: Scene) -> None:
    """Other tenants' jobs are a number, and no name of theirs is told."""
    whole = scene.world.tables.nodes[NodeId("n1")].capacity.cpu_millis // 1000
    await scene.runs("theirs-running", tenant="other", **cores(whole))
    await scene.submit("theirs-waiting", tenant="other", **cores(whole), priority=9)
    await scene.submit("mine", **cores(whole))
    found = await scene.why()
    assert held_by(found) == ("node", "cpu in use (1 node)")
    assert "theirs" not in str(found)
    advice = advised(found, "add-node")
    assert advice["says"] == "another node like n1 in the pool local would start it, but no command adds one"
    assert (advice["command"], advice["byAdmin"]) == ("", False), "no admin can either"
    another = Node(id=NodeId("n2"), pool=PoolId("local"), capacity=scene.world.tables.nodes[NodeId("n1")].capacity)
    await scene.decide(lambda now: scene.world.set_node(another, now=now))
    assert (await scene.api.until("mine", "SCHEDULED"))["status"][
        "node"
    ] == "n2"  # nobody serves it, but it has its place


async def cordoned(scene: Scene) -> None:
    await scene.node(state=NodeState.CORDONED)
    await scene.submit("mine")
    found = await scene.why()
    assert held_by(found) == ("node", "node cordoned (1 node)")
    advice = advised(found, "uncordon")
    assert advice["says"] == "uncordon n1, which is cordoned"
    await scene.follow(advice)


async def label_is_gone(scene: Scene) -> None:
    await scene.node(labels=(("disk", "ssd"),))
    await scene.submit("mine", suspend=True, nodeSelector={"disk": "ssd"})
    await scene.node(labels=())
    await scene.api.client.post("/api/v1/jobs/mine/release")
    found = await scene.why()
    assert held_by(found) == ("node", "label disk (1 node)")
    assert advised(found, "any-node")["says"].endswith("disk=ssd")
    await scene.again()


async def pool_is_empty(scene: Scene) -> None:
    await scene.submit("mine", suspend=True, pool="local")
    await scene.node(pool=PoolId("elsewhere"))
    await scene.api.client.post("/api/v1/jobs/mine/release")
    found = await scene.why()
    name, says = held_by(found)
    assert (name, "0 of 1 nodes" in says) == ("pool", True)
    assert advised(found, "any-node")["says"].endswith("local")
    await scene.again()


async def behind_an_own_job(scene: Scene) -> None:
    """What is first in its tenant's line is at a limit, so the tenant is held; what is behind it would fit."""
    await scene.tenant(
        quota=Quota(resources=Resources(cpu_millis=3000, memory_bytes=GIB)), burst=BurstPolicy(sessions_per_day=0)
    )
    await scene.runs("other-one", **cores(1))
    await scene.submit("large", **cores(3), priority=5)
    await scene.submit("mine", **cores(1))
    found = await scene.why()
    assert held_by(found)[0] == "order"
    assert found["ahead"]["names"][:1] in ([], ["large"])
    first = advised(found, "priority")
    assert first["values"] == {"priority": "6"}
    await scene.again(priority=int(first["values"]["priority"]), **cores(1))


# — pools that grow —


WORKER = {"cpu": "1", "memory": "64Mi"}


async def a_pool(scene: Scene, *, is_paused: bool = False, **scaling: Any) -> None:
    said = {"max": 2, "worker": WORKER, "triggers": [{"measure": "depth", "up": 1, "down": 0}], **scaling}
    document = {
        "apiVersion": "windlass.dev/v1",
        "kind": "Pool",
        "metadata": {"name": "grow"},
        "spec": {"kind": "dynamic", "scaling": said, "paused": is_paused},
    }
    answer = await scene.api.client.post("/api/v1/pools", json=document, headers=scene.api.bearer(roles=ADMIN))
    assert answer.status_code == 201, answer.text


async def come(scene: Scene, count: int) -> None:
    """So many workers have joined, as soon as they are asked for. Nobody serves them, but they have room."""
    fleet, read_model = scene.world.tables.fleet, scene.api.home.plane.read_model
    with anyio.fail_after(60):
        while True:
            seen, asked = read_model.revision, [one for one in fleet.workers.values() if one.state == "asked"]
            for worker in asked:
                await scene.decide(
                    lambda now, worker=worker: join_node(scene.world, node_of(worker, scene.world), now=now)
                )
            if sum(one.state == "ready" for one in fleet.workers.values()) >= count:
                return
            if not asked:
                await read_model.beyond(seen)


async def scale(scene: Scene, workers: int) -> None:
    answer = await scene.api.client.post(
        "/api/v1/pools/grow/scale", json={"workers": workers}, headers=scene.api.bearer(roles=ADMIN)
    )
    assert answer.status_code == 200, answer.text


async def one_busy_worker(scene: Scene, **scaling: Any) -> None:
    """Of another tenant's job, so that nothing of its own could make room."""
    await a_pool(scene, **scaling)
    await scene.submit("theirs", tenant="other", pool="grow", **cores(1))
    await come(scene, 1)
    with anyio.fail_after(60):
        while not any(run.tenant == "other" for run in scene.world.tables.runs.values()):
            await scene.api.home.plane.read_model.beyond(scene.api.home.plane.read_model.revision)


async def pool_at_its_maximum(scene: Scene) -> None:
    await one_busy_worker(scene, max=1)
    await scene.submit("mine", pool="grow", **cores(1))
    found = await scene.why()
    assert held_by(found) == ("pool", "grow has 1 worker, and may have no more than 1")
    gate = next(gate for gate in found["gates"] if gate["holds"])
    assert gate["numbers"] == {"ready": 1, "idle": 0, "coming": 0, "ending": 0, "workersMax": 1}
    assert advised(found, "pool-max")["values"] == {"scaling.max": "2"}
    answer = await scene.api.client.patch(
        "/api/v1/pools/grow", json={"spec": {"scaling": {"max": 2}}}, headers=scene.api.bearer(roles=ADMIN)
    )
    assert answer.status_code == 200, answer.text
    await scale(scene, 2)
    await come(scene, 2)


async def pool_that_is_paused(scene: Scene) -> None:
    await a_pool(scene, is_paused=True)
    await scene.submit("mine", pool="grow", **cores(1))
    found = await scene.why()
    assert held_by(found) == ("pool", "grow is paused, with 0 of 2 workers")
    assert advised(found, "scale")["command"] == "windlass pools scale grow 1"
    await scene.follow(advised(found, "scale"))
    await come(scene, 1)


async def pool_whose_triggers_ask_for_no_more(scene: Scene) -> None:
    await one_busy_worker(scene, triggers=[{"measure": "depth", "up": 50, "down": 5}], cooldownUp=0)
    await scene.submit("mine", pool="grow", **cores(1))
    found = await scene.why()
    assert held_by(found) == ("pool", "grow has 1 of 2 workers, and no trigger asks for more: depth 1 of 50")
    assert advised(found, "scale")["command"] == "windlass pools scale grow 2"
    await scale(scene, 2)
    await come(scene, 2)


async def pool_in_its_cooldown(scene: Scene) -> None:
    greedy = [{"measure": "depth", "up": 1, "down": 0, "stepUp": 5}]  # it would have more than it may
    await one_busy_worker(scene, max=3, triggers=greedy, cooldownUp=3600, upPerMinute=1)
    await scene.submit("mine", pool="grow", **cores(1))
    found = await scene.why()
    name, says = held_by(found)
    assert (name, says.startswith("grow wants to grow, and is held: cooldown, ")) == ("cooldown", True)
    gate = next(gate for gate in found["gates"] if gate["holds"])
    assert gate["numbers"]["cooldownSeconds"] == 3600
    assert found["start"]["at"] < gate["opensAt"], "the run on the one worker is expected to end before"
    assert advised(found, "scale")["byAdmin"]
    await scale(scene, 2)
    await come(scene, 2)


async def pool_that_is_being_grown(scene: Scene) -> None:
    """A provider that takes its time: nothing to do but to wait, or to go elsewhere."""
    scene.api.home.plane.autoscaler._provisioners = {"slice": MemoryProvisioner()}
    await a_pool(scene, max=1)
    await scene.submit("mine", pool="grow", **cores(1))
    await until_asked(scene, lambda worker: worker.state == "asked")
    found = await scene.why()
    name, says = held_by(found)
    assert (name, "grow is growing: grow-" in says, "is given up if it is not there in" in says) == ("pool", True, True)
    assert [one["does"] for one in found["advice"]] == ["any-node"]
    await come(scene, 1)


async def pool_whose_provider_fails(scene: Scene) -> None:
    await a_pool(scene, max=1)
    await scene.submit("mine", pool="grow", **cores(1))
    await until_asked(scene, lambda worker: bool(worker.problem))
    found = await scene.why()
    name, says = held_by(found)
    assert (name, "its provisioner cannot: there is nobody here" in says) == ("pool", True)
    assert advised(found, "any-node")["says"].endswith("grow")
    await scene.again(**cores(1))


async def quota_before_an_empty_pool(scene: Scene) -> None:
    """The pool grows by itself for whoever is let in: nothing but the quota is in the way."""
    await held_before_a_pool(scene)
    found = await scene.why()
    assert held_by(found)[0] == "quota"
    gates = {gate["name"]: gate for gate in found["gates"]}
    assert gates["pool"]["open"]
    assert gates["pool"]["says"] == "grow may still grow, to 2: it does not count there as long as it is held"
    cancel, advice = advised(found, "cancel"), advised(found, "quota")
    assert cancel["command"] == "windlass cancel other-one"
    assert advice["says"] == "raise the quota: cpu to 2 cores; then the pool grow grows for it"
    assert advice["command"] == "windlass tenants quota local --cpu 2000m"
    await scene.follow(advice)
    await come(scene, 1)


async def quota_before_a_worker_that_is_on_its_way(scene: Scene) -> None:
    """Asked for when another waited for it, who has gone: it comes all the same."""
    scene.api.home.plane.autoscaler._provisioners = {"slice": MemoryProvisioner()}
    await a_pool(scene, max=1)
    await scale(scene, 1)
    await hold_by_quota(scene)
    found = await scene.why()
    assert held_by(found)[0] == "quota"
    assert "grow is growing: grow-" in next(gate["says"] for gate in found["gates"] if gate["name"] == "pool")
    await scene.follow(advised(found, "quota"))
    await come(scene, 1)


async def quota_before_a_pool_that_is_paused(scene: Scene) -> None:
    await held_before_a_pool(scene, is_paused=True)
    found = await scene.why()
    assert held_by(found)[0] == "quota"
    advice = advised(found, "quota")
    assert advice["says"].startswith("raise the quota: cpu to 2 cores; and scale the pool grow to 1 by hand")
    assert advice["command"] == "windlass tenants quota local --cpu 2000m && windlass pools scale grow 1"
    assert (advice["byAdmin"], advice["values"]) == (True, {"cpu": "2 cores"})
    cancel = advised(found, "cancel")
    assert (cancel["command"], cancel["byAdmin"]) == ("windlass cancel other-one && windlass pools scale grow 1", True)
    await scene.follow(advice)
    await come(scene, 1)


async def quota_before_a_busy_pool_at_its_maximum(scene: Scene) -> None:
    """There is no command that does both: what to do is said, and the half of it is not offered for typing."""
    await one_busy_worker(scene, max=1)
    await hold_by_quota(scene)
    found = await scene.why()
    assert held_by(found)[0] == "quota"
    advice = advised(found, "quota")
    assert (advice["command"], advice["values"]) == ("", {"cpu": "2 cores", "scaling.max": "2"})
    await scene.tenant(quota=Quota(resources=Resources(cpu_millis=2000, memory_bytes=GIB)))
    answer = await scene.api.client.patch(
        "/api/v1/pools/grow", json={"spec": {"scaling": {"max": 2}}}, headers=scene.api.bearer(roles=ADMIN)
    )
    assert answer.status_code == 200, answer.text
    await scale(scene, 2)
    await come(scene, 2)


async def held_before_a_pool(scene: Scene, **pool: Any) -> None:
    await a_pool(scene, **pool)
    await hold_by_quota(scene)


async def hold_by_quota(scene: Scene) -> None:
    quota = Quota(resources=Resources(cpu_millis=1000, memory_bytes=GIB))
    await scene.tenant(quota=quota, burst=BurstPolicy(sessions_per_day=0))
    await scene.runs("other-one", pool="local", **cores(1))
    await scene.submit("mine", pool="grow", **cores(1))


async def suspended_before_an_empty_pool(scene: Scene) -> None:
    await a_pool(scene)
    await scene.submit("mine", pool="grow", suspend=True, **cores(1))
    advice = advised(await scene.why(), "release")
    assert advice["says"] == "release it; then the pool grow grows for it"
    await scene.follow(advice)
    await come(scene, 1)


# — not the first in line —


async def behind_another_before_a_drained_node(scene: Scene) -> None:
    whole = scene.world.tables.nodes[NodeId("n1")].capacity.cpu_millis // 1000
    await scene.node(state=NodeState.DRAINING)
    await scene.submit("before-it", **cores(whole), expectedSeconds=60)
    await scene.submit("mine", **cores(whole))
    found = await scene.why()
    assert (found["start"], found["ahead"]["names"]) == (None, ["before-it"])
    advice = advised(found, "uncordon")
    assert advice["says"] == "uncordon n1, which is draining; then it waits for its turn"
    await scene.follow(advice)
    await scene.api.until("before-it", "RUNNING")
    await scene.api.client.post("/api/v1/jobs/before-it/cancel")


async def behind_others_at_a_quota(scene: Scene) -> None:
    await scene.tenant(quota=Quota(jobs=1), burst=BurstPolicy(sessions_per_day=0))
    await scene.runs("other-one")
    for name in ("before-it", "mine"):
        await scene.submit(name)
    advice = advised(await scene.why(), "quota")
    assert advice["command"] == "windlass tenants quota local --jobs 3"
    await scene.follow(advice)


async def behind_another_before_a_paused_pool(scene: Scene) -> None:
    await a_pool(scene, is_paused=True)
    for name in ("before-it", "mine"):
        await scene.submit(name, pool="grow", **cores(1))
    advice = advised(await scene.why(), "scale")
    assert advice["command"] == "windlass pools scale grow 2"
    await scene.follow(advice)
    await come(scene, 2)


async def two_limits_of_nothing(scene: Scene) -> None:
    await scene.submit("mine", suspend=True)
    await scene.tenant(quota=Quota(jobs=0, workers=0), burst=BurstPolicy(sessions_per_day=0))
    await scene.api.client.post("/api/v1/jobs/mine/release")
    found = await scene.why()
    assert "quota-jobs" in held_by(found)[1]
    assert "quota-workers" in held_by(found)[1]
    advice = advised(found, "quota")
    assert advice["command"] == "windlass tenants quota local --jobs 1 --workers 1"
    await scene.follow(advice)


async def until_asked(scene: Scene, fact: Callable[[Worker], bool]) -> None:
    read_model = scene.api.home.plane.read_model
    with anyio.fail_after(60):
        while True:
            seen = read_model.revision
            if any(fact(worker) for worker in scene.world.tables.fleet.workers.values()):
                return
            await read_model.beyond(seen)


SITUATIONS: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "it is suspended: release it": suspended,
    "it backs off after a failed attempt: wait": backing_off,
    "the day's money is spent: raise it": day_is_spent,
    "the month's budget is spent: raise it": budget_is_spent,
    "the quota of cores is used: raise it by what is missing": quota_of_cores,
    "the quota of jobs is used: cancel another": quota_of_jobs,
    "the quota is used and a burst would open it: open one": quota_that_a_burst_would_open,
    "the burst is in its cooldown: cancel another": burst_in_cooldown,
    "the cores of the nodes are in use: ask for less": cores_in_use,
    "others hold the nodes: nothing but another would help, and it is said that no command adds one": room_of_others,
    "the node is cordoned: uncordon it": cordoned,
    "no node has its label any more: do without": label_is_gone,
    "its pool has no node any more: do without": pool_is_empty,
    "an own job at a limit is before it: go first": behind_an_own_job,
    "its pool has as many workers as it may: let it have more": pool_at_its_maximum,
    "its pool is paused: scale it by hand": pool_that_is_paused,
    "no trigger of its pool asks for more: scale it by hand": pool_whose_triggers_ask_for_no_more,
    "its pool is in its cooldown: scale it by hand": pool_in_its_cooldown,
    "its pool is being grown: wait": pool_that_is_being_grown,
    "its pool's provider fails: do without": pool_whose_provider_fails,
    "it is suspended and its pool is empty: release it": suspended_before_an_empty_pool,
    "the quota is used and its pool is empty: raise it": quota_before_an_empty_pool,
    "the quota is used and a worker is on its way: raise it": quota_before_a_worker_that_is_on_its_way,
    "the quota is used and its pool is paused: raise it and scale the pool": quota_before_a_pool_that_is_paused,
    "the quota is used and its pool has all it may: raise both": quota_before_a_busy_pool_at_its_maximum,
    "the node is drained and another is before it: uncordon it, and wait for the turn": behind_another_before_a_drained_node,
    "the quota is used and another is before it: raise it for both": behind_others_at_a_quota,
    "its pool is paused and another is before it: scale it for both": behind_another_before_a_paused_pool,
    "it may have no job and be on no node: raise both limits at once": two_limits_of_nothing,
}


@pytest.mark.anyio
@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
async def test_why_names_the_gate_and_following_its_advice_starts_the_job(scene: Scene, situation: str) -> None:
    await SITUATIONS[situation](scene)
    assert await scene.placed_since_why()


@pytest.mark.anyio
async def test_every_gate_comes_with_its_numbers_in_the_order_a_job_meets_them(scene: Scene) -> None:
    await scene.tenant(quota=Quota(resources=Resources(cpu_millis=1000, memory_bytes=GIB), jobs=5))
    await scene.runs("other-one", **cores(1))
    await scene.submit("mine", **cores(1))
    found = await scene.why()
    names = [gate["name"] for gate in found["gates"]]
    assert names == ["release", "backoff", "budget", "quota", "burst", "order", "pool", "cooldown", "node", "image"]
    numbers = {gate["name"]: gate["numbers"] for gate in found["gates"]}
    assert numbers["quota"]["cpuMillis"] == numbers["quota"]["cpuMillisLimit"] == 1000
    assert numbers["quota"]["jobsLimit"] == 5
    assert numbers["pool"] == {"nodes": 1, "nodesInAll": 1}
    assert numbers["order"]["waitingOfTenant"] == 1
    assert "spentToday" in numbers["budget"]


@pytest.mark.anyio
async def test_a_quota_that_a_burst_goes_beyond_is_open_and_says_so(scene: Scene) -> None:
    await scene.tenant(quota=Quota(jobs=2))
    await scene.decide(lambda now: ask_burst(scene.world, LOCAL, now=now))
    await scene.runs("first")
    await scene.runs("second")
    await scene.node(state=NodeState.CORDONED)
    await scene.submit("mine")
    gates = {gate["name"]: (gate["open"], gate["says"]) for gate in (await scene.why())["gates"]}
    assert gates["quota"] == (True, "full (2 of 2 jobs used): beyond it the burst decides")
    assert gates["burst"] == (True, "in the session that is open")
    assert not gates["node"][0]


@pytest.mark.anyio
async def test_an_image_that_is_being_pulled_is_the_gate_and_needs_nothing_but_time(scene: Scene) -> None:
    machine = scene.api.home.machine
    machine.images, machine.registry[IMAGE] = set(), 3_600_000
    await scene.submit("mine")
    await scene.api.until("mine", "STARTING")
    found = await scene.why()
    assert held_by(found) == ("image", f"not yet on n1: pulling {IMAGE}")
    assert (found["advice"], found["state"]) == ([], "STARTING")


@pytest.mark.anyio
async def test_a_pull_that_failed_says_when_it_is_tried_again_and_starts_once_the_registry_gives_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.agent.keeper._PULL_TRIES", 1_000)  # however long the test takes to mend it
    machine = scene.api.home.machine
    machine.images, machine.registry[IMAGE] = set(), ImageUnavailable("the registry is away", is_transient=True)
    await scene.submit("mine")
    await scene.api.until("mine", "STARTING")
    found = await scene.why()
    name, says = held_by(found)
    assert (name, "the registry is away; trying again in" in says) == ("image", True)
    assert next(gate for gate in found["gates"] if gate["holds"])["numbers"]["failedPulls"] >= 1
    assert "see that its registry has the image" in advised(found, "image")["says"]
    machine.registry[IMAGE] = 0
    await scene.api.until("mine", "RUNNING")


@pytest.mark.anyio
async def test_an_image_that_was_refused_is_named_with_what_to_do_and_another_starts(scene: Scene) -> None:
    machine = scene.api.home.machine
    machine.images = {"there"}
    await scene.submit("mine")
    await scene.api.until("mine", "FAILED")
    found = await scene.why()
    name, says = held_by(found)
    assert (name, says) == ("image", f"refused: {IMAGE}: manifest unknown")
    assert advised(found, "image")["command"].startswith("windlass registries login")
    await scene.submit("again", image="there")
    await scene.api.until("again", "RUNNING")


@pytest.mark.anyio
async def test_a_job_that_does_not_wait_says_what_it_does(scene: Scene) -> None:
    await scene.runs("mine")
    assert (await scene.why())["says"] == "it runs on n1"
    await scene.api.client.post("/api/v1/jobs/mine/cancel")
    await scene.api.until("mine")
    found = await scene.why()
    assert (found["says"], found["gates"], found["advice"]) == ("it is over: CANCELLED (Cancelled)", [], [])


@pytest.mark.anyio
async def test_another_tenants_job_is_not_there(scene: Scene) -> None:
    await scene.submit("theirs", tenant="other")
    for roles in (("member",), ADMIN):
        answer = await scene.api.client.get("/api/v1/jobs/theirs/why", headers=scene.api.bearer(roles=roles))
        assert answer.status_code == 404


@pytest.mark.anyio
async def test_asking_leaves_the_queue_with_the_reasons_it_had(scene: Scene) -> None:
    """The answer looks into Worlds with a node more, and with less asked for: none of their reasons may be shown as this one's."""
    whole = scene.world.tables.nodes[NodeId("n1")].capacity.cpu_millis // 1000
    await scene.runs("other-one", **cores(whole))
    await scene.submit("mine", **cores(whole))
    await scene.submit("small", **cores(1))
    shown = [
        ("mine", "parked", [{"reason": "cpu in use", "nodes": 1}]),
        ("small", "parked", [{"reason": "cpu in use", "nodes": 1}]),
    ]
    assert await scene.queue(shown) == shown
    found = await scene.why()
    assert advised(found, "add-node")
    assert await scene.queue(shown) == shown
    plan = await scene.api.client.post("/api/v1/plan", json={"items": [manifest("true", name="more")]})
    assert plan.status_code == 200, plan.text
    assert await scene.queue(shown) == shown


@pytest.mark.anyio
async def test_a_plan_is_told_and_nothing_is_done(scene: Scene) -> None:
    before = await scene.api.trace()
    items = [manifest("true", name="a", **cores(1)), manifest("true", name="b", **cores(4_000))]
    answer = await scene.api.client.post("/api/v1/plan", json={"items": items})
    assert answer.status_code == 200, answer.text
    first, second = answer.json()["items"]
    assert (first["accepted"], first["start"]["node"], first["startsNow"], first["turn"]) == (True, "n1", True, 1)
    assert first["price"] > 0
    assert (second["accepted"], second["refusal"]["code"]) == (False, "fits-nowhere")
    assert await scene.api.trace() == before
    tenant = {"apiVersion": "windlass.dev/v1", "kind": "Tenant", "metadata": {"name": "t"}, "spec": {"weight": 2}}
    refused = await scene.api.client.post("/api/v1/plan", json={"items": [items[0], tenant]})
    said = "a Tenant is no job: only jobs are taken here; windlass apply takes it"
    assert (refused.status_code, refused.json()["faults"]) == (400, [{"field": "items[1].kind", "message": said}])
