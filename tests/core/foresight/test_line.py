"""What `why` tells those who are not first in line, and those whom two limits hold at once: typed as told, it starts them."""

import shlex

import pytest
from msgspec.structs import replace

from tests.core.pool_home import GROW, MACHINE, START, a_growing_world, come, over, wants
from windlass.core.foresight.change import Advice
from windlass.core.foresight.gate import GateName
from windlass.core.foresight.why import why
from windlass.core.model.ids import LOCAL_TENANT, Millis, NodeId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.pool import Change, Growth
from windlass.core.model.resources import Resources
from windlass.core.model.tenant import Quota, QuotaPolicy, Tenant
from windlass.core.world.growth import drain, scale_by_hand
from windlass.core.world.place import place
from windlass.core.world.pools import change_pool
from windlass.core.world.records import Table
from windlass.core.world.submit import submit
from windlass.core.world.workers import uncordon
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOW = Millis(20_000 * 86_400_000)
ACME = TenantId("acme")
PLENTY = 1 << 40


def ask(world: World, name: str, cpu: int = 1000) -> Job:
    return submit(world, ACME, a_submission(name=name, cpu=cpu), job=a_job_id(), now=NOW)[0]


def limit(world: World, **quota: object) -> None:
    world.set_tenant(Tenant(id=ACME, quota=Quota(**quota)), now=NOW)  # type: ignore[arg-type]


def raise_as_told(world: World, advice: Advice) -> None:
    """What the command says and nothing else."""
    *words, tenant = shlex.split(advice.command)[:4]
    assert (words, tenant) == (["windlass", "tenants", "quota"], ACME)
    options = shlex.split(advice.command)[4:]
    quota = world.tables.tenants[ACME].quota
    for option, value in zip(options[::2], options[1::2], strict=True):
        if option == "--cpu":
            assert quota.resources is not None
            quota = replace(quota, resources=replace(quota.resources, cpu_millis=int(value.removesuffix("m"))))
        else:
            quota = replace(quota, **{option.removeprefix("--"): int(value)})
    world.set_tenant(Tenant(id=ACME, quota=quota), now=NOW)


def starts(world: World, job: Job) -> bool:
    return job.id in [run.job for run in place(world, now=NOW)]


def raises(world: World, job: Job) -> list[Advice]:
    return [one for one in why(world, job, now=NOW).advice if one.does == "quota"]


def two_nodes() -> World:
    return a_world(a_node("n1", cpu=2000, memory=64 * GIB), a_node("n2", cpu=2000, memory=64 * GIB), tenants=(ACME,))


# — two limits at once —


def test_the_limit_of_nodes_is_named_beside_the_other_that_holds_and_one_command_raises_both() -> None:
    world = two_nodes()
    limit(world, jobs=1, workers=1)
    assert starts(world, ask(world, "w0", cpu=2000))
    waiting = ask(world, "w1")
    assert place(world, now=NOW) == []
    found = why(world, waiting, now=NOW)
    assert found.gate is GateName.QUOTA
    assert found.says == (
        "quota: quota-jobs: 1 of 1 jobs used, 1 more asked for; "
        "quota-workers: no room on the nodes its runs are on, and it may be on no more"
    )
    (advice,) = raises(world, waiting)
    assert advice.command == "windlass tenants quota acme --jobs 2 --workers 2"
    assert advice.says == "raise the quota: jobs to 2 jobs, workers to 2 workers"
    raise_as_told(world, advice)
    assert starts(world, waiting)


def test_a_limit_of_nodes_that_leaves_room_on_them_is_neither_named_nor_raised() -> None:
    world = two_nodes()
    limit(world, jobs=1, workers=1)
    assert starts(world, ask(world, "w0"))
    waiting = ask(world, "w1")
    assert "quota-workers" not in why(world, waiting, now=NOW).says
    (advice,) = raises(world, waiting)
    assert advice.command == "windlass tenants quota acme --jobs 2"
    raise_as_told(world, advice)
    assert starts(world, waiting)


@pytest.mark.parametrize(
    ("quota", "command"),
    [
        ({"jobs": 0, "workers": 0}, "windlass tenants quota acme --jobs 1 --workers 1"),
        (
            {"resources": Resources(cpu_millis=0, memory_bytes=PLENTY, gpus=8), "workers": 0},
            "windlass tenants quota acme --cpu 1000m --workers 1",
        ),
    ],
    ids=["jobs", "cpu"],
)
def test_limits_of_nothing_are_raised_together(quota: dict[str, object], command: str) -> None:
    world = two_nodes()
    waiting = ask(world, "w0")
    limit(world, **quota)
    assert place(world, now=NOW) == []
    (advice,) = raises(world, waiting)
    assert advice.command == command
    raise_as_told(world, advice)
    assert starts(world, waiting)


def test_a_burst_that_is_open_opens_no_limit_of_nodes() -> None:
    world = two_nodes()
    quota = Quota(jobs=2, workers=1)
    world.set_tenant(Tenant(id=ACME, policy=QuotaPolicy.BURST, quota=quota), now=NOW)
    for name in ("w0", "w1"):
        assert starts(world, ask(world, name))
    waiting = ask(world, "w2")
    assert place(world, now=NOW) == []
    found = why(world, waiting, now=NOW)
    assert found.gate is GateName.QUOTA
    assert found.says == "quota: quota-workers: no room on the nodes its runs are on, and it may be on no more"


# — behind others of its tenant —


@pytest.mark.parametrize(("name", "jobs"), [("e1", 2), ("e2", 3), ("e3", 4)])
def test_a_quota_is_raised_by_what_is_enough_for_it_and_for_those_of_its_tenant_before_it(name: str, jobs: int) -> None:
    world = a_world(a_node(cpu=8000, memory=64 * GIB), tenants=(ACME,))
    limit(world, jobs=1)
    asked = {name: ask(world, name) for name in ("e0", "e1", "e2", "e3")}
    assert len(place(world, now=NOW)) == 1
    (advice,) = raises(world, asked[name])
    assert advice.command == f"windlass tenants quota acme --jobs {jobs}"
    raise_as_told(world, advice)
    assert starts(world, asked[name])


def test_a_raise_of_cores_has_in_it_what_those_before_it_ask_for() -> None:
    world = a_world(a_node(cpu=8000, memory=64 * GIB), tenants=(ACME,))
    limit(world, resources=Resources(cpu_millis=2000, memory_bytes=PLENTY))
    assert starts(world, ask(world, "e0"))
    ask(world, "e1", cpu=1500)
    waiting = ask(world, "e2", cpu=2000)
    (advice,) = raises(world, waiting)
    assert advice.command == "windlass tenants quota acme --cpu 4500m"
    raise_as_told(world, advice)
    assert starts(world, waiting)


def test_behind_more_than_a_trial_places_no_raise_is_told_and_the_queue_stays_as_it_was() -> None:
    world = a_world(a_node(cpu=99_000, memory=999 * GIB), tenants=(ACME,))
    limit(world, jobs=1)
    asked = [ask(world, f"e{at}") for at in range(60)]
    assert len(place(world, now=NOW)) == 1
    assert raises(world, asked[-1]) == []
    limit(world)
    assert [run.job for run in place(world, now=NOW)] == [job.id for job in asked[1:]]


def test_a_raise_for_those_before_it_counts_on_the_pool_that_grows_for_them_all() -> None:
    world = a_growing_world(workers_max=3)
    wants(world, 2, now=START, cpu=2000)
    world.set_tenant(Tenant(id=LOCAL_TENANT, quota=Quota(jobs=0)), now=START)
    assert place(world, now=START) == []
    last = list(world.tables.jobs.values())[-1]
    (advice,) = (one for one in why(world, last, now=START).advice if one.does == "quota")
    assert advice.says == "raise the quota: jobs to 2 jobs; then the pool grow grows for it"
    assert advice.command == "windlass tenants quota local --jobs 2"


# — behind others before a pool that grows —


def a_held_pool(world: World, jobs: int, *, cpu: int = 2000) -> list[Job]:
    """Nothing but a hand makes it grow; as many jobs wait for it, the first of them first."""
    pool = world.tables.fleet.pools[GROW]
    change_pool(world, replace(pool, is_paused=True), None, now=START)
    wants(world, jobs, now=START, cpu=cpu)
    assert place(world, now=START) == []
    return list(world.tables.jobs.values())


def scale_advice(world: World, job: Job) -> list[tuple[str, str]]:
    return [(one.does, one.command) for one in why(world, job, now=START).advice if one.does in ("scale", "pool-max")]


def test_a_paused_pool_is_to_be_scaled_to_what_is_enough_for_each_of_those_who_wait_for_it() -> None:
    world = a_growing_world(workers_max=3, runs_per_worker=1)
    told = [scale_advice(world, job) for job in a_held_pool(world, 3, cpu=1000)]
    assert told == [[("scale", f"windlass pools scale grow {size}")] for size in (1, 2, 3)]


def test_two_that_share_a_worker_are_told_the_same() -> None:
    world = a_growing_world(workers_max=3)
    told = [scale_advice(world, job) for job in a_held_pool(world, 3, cpu=1000)]
    assert told == [[("scale", f"windlass pools scale grow {size}")] for size in (1, 1, 2)]


def test_scaled_as_told_the_pool_starts_the_one_who_asked() -> None:
    world = a_growing_world(workers_max=3)
    *_, last = a_held_pool(world, 3)
    ((_, command),) = scale_advice(world, last)
    scale_by_hand(world, GROW, int(command.split()[-1]), now=START)
    come(world, START)
    assert last.id in [run.job for run in place(world, now=START)]


def test_a_pool_in_its_cooldown_is_to_be_scaled_for_the_second_too() -> None:
    world = a_growing_world(workers_max=2, cooldown_up_ms=Millis(600_000))
    wants(world, 2, now=START, cpu=2000)
    assert place(world, now=START) == []
    world.put(Table.GROWTHS, GROW, Growth(changes=(Change(at=START, by=1),)))
    first, second = world.tables.jobs.values()
    assert scale_advice(world, first) == [("scale", "windlass pools scale grow 1")]
    assert scale_advice(world, second) == [("scale", "windlass pools scale grow 2")]


def test_beyond_its_maximum_a_pool_is_to_have_as_many_as_the_last_needs() -> None:
    world = a_growing_world(workers_max=1)
    *_, last = a_held_pool(world, 3)
    (advice,) = (one for one in why(world, last, now=START).advice if one.does == "pool-max")
    assert advice.says == "let the pool grow have 3 workers, and scale it to 3"
    assert advice.values == (("scaling.max", "3"),)


# — nothing starts as things stand, and others are before it —


def a_drained_node(jobs: int) -> tuple[World, list[Job]]:
    """Each of them fills it."""
    world = a_world(a_node(cpu=2000, memory=64 * GIB), tenants=(ACME,))
    drain(world, NodeId("n1"), now=NOW)
    asked = [ask(world, f"a{at}", cpu=2000) for at in range(jobs)]
    assert place(world, now=NOW) == []
    return world, asked


def test_behind_others_before_a_drained_node_who_they_are_is_told_and_what_gives_it_its_turn() -> None:
    world, (first, second, third) = a_drained_node(3)
    told = {job.name: why(world, job, now=NOW) for job in (first, second, third)}
    assert [found.start for found in told.values()] == [None] * 3
    assert [found.ahead.own_names for found in told.values()] == [(), ("a0",), ("a0", "a1")]
    assert all(found.ahead.is_complete for found in told.values())
    turn = "uncordon n1, which is draining; then it waits for its turn"
    assert [found.advice[0].says for found in told.values()] == ["uncordon n1, which is draining", turn, turn]
    (advice,) = told["a2"].advice
    assert (advice.command, advice.is_admins) == ("windlass nodes uncordon n1", True)


def test_what_is_told_gives_it_its_turn() -> None:
    world, (first, second) = a_drained_node(2)
    uncordon(world, NodeId("n1"), now=NOW)
    (run,) = place(world, now=NOW)
    assert run.job == first.id
    found = why(world, world.tables.jobs[second.id], now=NOW)
    assert found.start is not None
    over(world, run, NOW)
    assert starts(world, second)


def test_behind_more_than_it_is_looked_ahead_it_is_still_told_what_gives_all_of_them_their_turn() -> None:
    world, asked = a_drained_node(120)
    found = why(world, asked[-1], now=NOW)
    assert [one.command for one in found.advice] == ["windlass nodes uncordon n1"]
    assert (found.ahead.own, found.ahead.is_complete) == (80, False)


def test_who_else_waits_is_not_told_to_be_nobody() -> None:
    world, _ = a_drained_node(1)
    world.set_tenant(Tenant(id=LOCAL_TENANT), now=NOW)
    theirs = submit(world, LOCAL_TENANT, a_submission(cpu=2000), job=a_job_id(), now=NOW)[0]
    ahead = why(world, theirs, now=NOW).ahead
    assert (ahead.own, ahead.others, ahead.is_complete) == (0, 0, False)


def test_a_node_that_would_never_take_it_is_not_told_to_give_it_a_turn() -> None:
    world = a_world(a_node("n1", cpu=2000, memory=64 * GIB), a_node("n2", cpu=4000, memory=64 * GIB), tenants=(ACME,))
    for node in ("n1", "n2"):
        drain(world, NodeId(node), now=NOW)
    ask(world, "a0", cpu=4000)
    waiting = ask(world, "a1", cpu=4000)
    assert place(world, now=NOW) == []
    assert [one.command for one in why(world, waiting, now=NOW).advice] == ["windlass nodes uncordon n2"]


def test_a_worker_that_is_gone_with_its_one_run_gives_nobody_else_a_turn() -> None:
    world = a_growing_world(workers_max=1, worker=replace(MACHINE, gpus=0), runs_per_worker=1)
    first, second = a_held_pool(world, 2, cpu=8000)
    assert scale_advice(world, first) == [("scale", "windlass pools scale grow 1")]
    assert scale_advice(world, second) == []


def test_a_worker_that_stays_gives_the_next_its_turn() -> None:
    """The machine has no room for another."""
    world = a_growing_world(workers_max=1, worker=replace(MACHINE, gpus=0))
    first, second = a_held_pool(world, 2, cpu=8000)
    assert scale_advice(world, first) == scale_advice(world, second) == [("scale", "windlass pools scale grow 1")]
    says = why(world, second, now=START).advice[-1].says
    assert says.endswith("; then it waits for its turn")


def test_a_limit_of_nothing_before_a_full_node_is_raised_for_the_turn_of_the_second() -> None:
    world = a_world(a_node(cpu=1000, memory=64 * GIB), tenants=(ACME,))
    _, waiting = ask(world, "e0"), ask(world, "e1")
    limit(world, jobs=0)
    drain(world, NodeId("n1"), now=NOW)
    assert place(world, now=NOW) == []
    (advice,) = why(world, waiting, now=NOW).advice
    assert advice.command == "windlass tenants quota acme --jobs 1 && windlass nodes uncordon n1"
    assert advice.says == (
        "raise the quota: jobs to 1 jobs; and uncordon n1, which is draining; then it waits for its turn"
    )
