"""Pools in the World: who may use them, what they could grow, how their workers come, serve and go."""

import pytest
from msgspec.structs import replace

from tests.core.pool_home import GROW, MACHINE, START, a_ground, a_growing_world, a_pool, come, node_of, over, wants
from windlass.core.errors import Conflict, Invalid, NotFound
from windlass.core.foresight.gate import GateName
from windlass.core.foresight.plan import plan
from windlass.core.foresight.why import why
from windlass.core.model.calendar import Day
from windlass.core.model.facts import VolumeMade
from windlass.core.model.ids import LOCAL_TENANT, Millis, NodeId, PoolId, TenantId
from windlass.core.model.money import PriceBook
from windlass.core.model.node import NodeState
from windlass.core.model.pool import Measure, Pool, Trigger, WorkerState
from windlass.core.model.resources import Resources
from windlass.core.model.volume import VolumeState
from windlass.core.placement.nodes import Waiting
from windlass.core.scaling import ScalingStep
from windlass.core.world import growth
from windlass.core.world.facts import observe
from windlass.core.world.growth import give_up, scale, scale_by_hand
from windlass.core.world.place import place
from windlass.core.world.pools import change_pool, create_pool, delete_pool
from windlass.core.world.records import WorkerOver
from windlass.core.world.spending import total_id
from windlass.core.world.submit import submit
from windlass.core.world.workers import bury, cordon, drain, join_node, uncordon
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_submission

ACME, BETA = TenantId("acme"), TenantId("beta")


def later(seconds: float) -> Millis:
    return Millis(START + int(seconds * 1000))


def grown(world: World, now: Millis, *, workers: int) -> list[NodeId]:
    step = scale_by_hand(world, GROW, workers, now=now)
    come(world, now)
    return [NodeId(name) for name in step.workers]


# — creating, changing, deleting —


def test_slices_come_off_what_the_machines_own_node_has() -> None:
    world = a_growing_world()
    assert world.tables.nodes[NodeId("n1")].capacity == Resources(cpu_millis=2000, memory_bytes=4 * GIB, gpus=3)
    delete_pool(world, GROW, now=START)
    assert world.tables.nodes[NodeId("n1")].capacity == MACHINE


def test_what_a_worker_has_is_the_machines_again_when_it_has_gone_and_not_when_its_pool_may_have_none() -> None:
    world = a_growing_world()
    (worker,) = grown(world, START, workers=1)
    change_pool(world, a_pool(workers_max=0), None, now=START)
    assert world.tables.nodes[NodeId("n1")].capacity.cpu_millis == MACHINE.cpu_millis - 2000
    drain(world, worker, now=START)
    assert bury(world, worker, now=START)
    assert world.tables.nodes[NodeId("n1")].capacity == MACHINE


def test_more_slices_than_the_machine_has_are_refused_with_the_numbers() -> None:
    world = a_growing_world()
    with pytest.raises(Invalid) as refused:
        create_pool(world, a_pool("second", workers_max=2), None, now=START)
    said = [fault.message for fault in refused.value.faults]
    assert said[0] == (
        "its workers may come to 4 cores; of the machine's 8 cores, 6 cores are other pools': 2 cores too many"
    )
    assert PoolId("second") not in world.tables.fleet.pools


def test_one_core_is_another_pools_and_more_are() -> None:
    world = a_growing_world(workers_max=1, worker=Resources(cpu_millis=1000, memory_bytes=GIB))
    with pytest.raises(Invalid) as refused:
        create_pool(world, a_pool("second", workers_max=4), None, now=START)
    assert "of the machine's 8 cores, 1 core is other pools': 1 core too many" in refused.value.faults[0].message


def test_what_runs_on_the_machine_is_not_promised_to_slices() -> None:
    world = a_ground()
    submit(world, LOCAL_TENANT, a_submission(cpu=3000), job=a_job_id(), now=START)
    assert place(world, now=START)
    with pytest.raises(Invalid) as refused:
        create_pool(world, a_pool(), None, now=START)
    assert "runs there hold 3 cores now: 1 core too many" in refused.value.faults[0].message


def test_every_fault_of_a_pool_is_named() -> None:
    bad = a_pool(workers_min=5, workers_max=2, idle_ms=Millis(0), worker=Resources(gpus=1))
    with pytest.raises(Invalid) as refused:
        create_pool(a_ground(), bad, None, now=START)
    fields = {fault.field for fault in refused.value.faults}
    assert fields >= {
        "spec.scaling.min",
        "spec.scaling.idle",
        "spec.scaling.worker.cpu",
        "spec.scaling.worker.memory",
        "spec.scaling.worker.gpu",
    }


def test_a_pool_with_workers_is_not_deleted_and_its_workers_not_resized() -> None:
    world = a_growing_world()
    grown(world, START, workers=1)
    with pytest.raises(Conflict, match="has 1 worker"):
        delete_pool(world, GROW, now=START)
    with pytest.raises(Conflict, match="has 1 worker"):
        change_pool(world, a_pool(worker=Resources(cpu_millis=1000, memory_bytes=GIB)), None, now=START)


def test_a_pools_price_is_in_the_one_list_and_goes_with_it() -> None:
    world, book = a_ground(), PriceBook(core_hour=7)
    create_pool(world, a_pool(), book, now=START)
    assert world.tables.prices.book("", GROW) == book
    delete_pool(world, GROW, now=START)
    assert world.tables.prices.book("", GROW) == PriceBook()


def test_a_pool_is_created_once_and_found_by_name() -> None:
    world = a_growing_world()
    with pytest.raises(Conflict, match="already"):
        create_pool(world, a_pool(), None, now=START)
    with pytest.raises(NotFound, match=r"no pool .grown."):
        delete_pool(world, PoolId("grown"), now=START)


# — who may use it —


def test_what_only_a_worker_to_come_could_run_is_accepted_and_waits() -> None:
    world = a_growing_world()
    wants(world, now=START)
    assert place(world, now=START) == []
    with pytest.raises(Invalid, match="no node could ever run this job") as refused:
        wants(world, cpu=2500, now=START)
    assert "a worker to come of pool grow, has 2" in refused.value.faults[0].message


def test_a_pool_of_named_tenants_takes_nobody_else() -> None:
    world = a_growing_world(ACME, BETA, tenants=(ACME,))
    with pytest.raises(Invalid) as refused:
        wants(world, tenant=BETA, now=START)
    assert refused.value.faults[0].message == "no node is in pool grow; there are: local"
    wants(world, tenant=ACME, now=START)
    grown(world, START, workers=1)
    assert [run.tenant for run in place(world, now=START)] == [ACME]


def test_a_pool_that_is_closed_later_is_shut_to_those_who_wait_already() -> None:
    world = a_growing_world(ACME, BETA)
    wants(world, tenant=ACME, now=START)
    wants(world, tenant=BETA, now=START)
    place(world, now=START)
    change_pool(world, a_pool(tenants=(ACME,)), None, now=START)
    grown(world, START, workers=2)
    assert [run.tenant for run in place(world, now=START)] == [ACME]
    change_pool(world, a_pool(), None, now=START)
    assert [run.tenant for run in place(world, now=START)] == [BETA]


def test_a_pools_labels_are_its_nodes_and_a_nodes_own_win() -> None:
    world, local, mine = a_ground(), PoolId("local"), a_job_id()
    tape = replace(world.tables.nodes[NodeId("n1")], id=NodeId("n2"), labels=(("disk", "tape"),))
    join_node(world, tape, now=START)
    create_pool(world, Pool(id=local), None, now=START)
    asked = replace(a_submission(), node_labels=(("disk", "ssd"),))
    with pytest.raises(Invalid, match="could ever run"):
        submit(world, LOCAL_TENANT, asked, job=a_job_id(), now=START)
    change_pool(world, Pool(id=local, labels=(("disk", "ssd"),)), None, now=START)
    planned = plan(world, LOCAL_TENANT, [asked], ids=[mine], now=START)
    job, _ = submit(world, LOCAL_TENANT, asked, job=mine, now=START)
    assert planned.items[0].starts_now
    change_pool(world, Pool(id=local), None, now=START)
    assert place(world, now=START) == []
    counts = (("label disk", 2),)
    assert world.tables.places.pick(job.shape) == Waiting(reasons=counts)
    (gate,) = [one for one in why(world, job, now=START).gates if one.name is GateName.NODE]
    assert gate.numbers == (("taking", 0), *counts)
    change_pool(world, Pool(id=local, labels=(("disk", "ssd"),)), None, now=START)
    assert [run.node for run in place(world, now=START)] == [NodeId("n1")]


def test_nodes_that_are_there_anyway_come_first() -> None:
    world = a_growing_world()
    grown(world, START, workers=1)
    for _ in range(3):
        submit(world, LOCAL_TENANT, a_submission(cpu=1000), job=a_job_id(), now=START)
    assert [run.node for run in place(world, now=START)].count(NodeId("n1")) == 2


# — workers come and go —


def test_queued_jobs_bring_workers_and_idleness_sends_them_away() -> None:
    world = a_growing_world(cooldown_up_ms=Millis(1000), cooldown_down_ms=Millis(1000))
    wants(world, 6, now=START)
    place(world, now=START)
    step = scale(world, GROW, now=START)
    assert step is not None
    assert (step.verdict.by, step.verdict.rule) == (3, "depth 6 ≥ 1, 1 for each worker")
    assert (step.seen.needed, step.verdict.held) == (3, ("maximum 3",))
    come(world, later(1))
    runs = place(world, now=later(1))
    assert len(runs) == 6
    assert scale(world, GROW, now=later(2)) is None
    for run in runs:
        over(world, run, later(3))
    given = scale(world, GROW, now=later(4))
    assert given is not None
    assert (given.verdict.by, given.verdict.rule) == (-3, "all measures at their lower marks")
    for worker in given.workers:
        assert bury(world, NodeId(worker), now=later(4))
    assert world.tables.fleet.workers == {}
    assert set(world.tables.nodes) == {NodeId("n1")}


def test_without_a_target_idle_workers_go_a_step_at_a_time() -> None:
    steps = (Trigger(measure=Measure.DEPTH, up=1, down=0, step_down=2),)
    world = a_growing_world(triggers=steps, cooldown_up_ms=Millis(0), cooldown_down_ms=Millis(1000))
    grown(world, START, workers=3)
    for second, by in ((1, -2), (2, -1)):
        given = scale(world, GROW, now=later(second))
        assert given is not None
        assert given.verdict.by == by


def test_by_hand_too_workers_being_given_back_count_against_the_maximum() -> None:
    world = a_growing_world()
    workers = grown(world, START, workers=3)
    for worker in workers[:2]:
        drain(world, worker, now=later(1))
    step = scale_by_hand(world, GROW, 3, now=later(2))
    assert (step.verdict.by, step.verdict.held) == (0, ("maximum 3, of which 2 are being given back",))
    assert bury(world, workers[0], now=later(3))
    assert scale_by_hand(world, GROW, 3, now=later(4)).verdict.by == 1


def test_a_worker_of_one_tenants_pool_is_paid_for_by_the_hour_to_the_micro_unit() -> None:
    world, hour = a_growing_world(ACME), 3_600_000
    change_pool(world, a_pool(tenants=(ACME,)), PriceBook(worker_hour=1_000_003), now=START)
    (worker,) = grown(world, START, workers=1)
    drain(world, worker, now=later(1))
    end = Millis(START + 30 * hour)
    assert bury(world, worker, now=end)
    (told,) = [one.new for one in world.journal.take(1 << 30) if isinstance(one.new, WorkerOver)]
    assert [part.day for part in told.segments] == [0, 1]
    assert sum(part.span_ms for part in told.segments) == 30 * hour
    assert sum(part.cost for part in told.segments) == 30 * 1_000_003
    totals = [world.tables.totals[total_id(ACME, Day(day))].pools[GROW].cost for day in (0, 1)]
    assert totals == [part.cost for part in told.segments]


def test_nobody_pays_for_a_worker_that_is_everybodys() -> None:
    world = a_growing_world(ACME)
    change_pool(world, a_pool(), PriceBook(worker_hour=3_600_000), now=START)
    (worker,) = grown(world, START, workers=1)
    drain(world, worker, now=later(1))
    assert bury(world, worker, now=later(2))
    (told,) = [one.new for one in world.journal.take(1 << 30) if isinstance(one.new, WorkerOver)]
    assert (told.worker.payer, [part.cost for part in told.segments], world.tables.totals) == ("", [2000], {})


def test_an_idle_time_out_gives_back_what_the_triggers_would_keep() -> None:
    world = a_growing_world(idle_ms=Millis(5000), cooldown_down_ms=Millis(0), triggers=())
    grown(world, START, workers=2)
    assert scale(world, GROW, now=later(4)) is None
    step = scale(world, GROW, now=later(5))
    assert step is not None
    assert (step.verdict.by, step.verdict.rule) == (-2, "2 idle for 5 s")


def test_what_holds_a_pool_back_is_told_once() -> None:
    world = a_growing_world(workers_max=1, cooldown_up_ms=Millis(1000))
    wants(world, 5, now=START)
    place(world, now=START)
    first = scale(world, GROW, now=START)
    assert first is not None
    held = scale(world, GROW, now=later(1), before=first)
    assert held is None or held.verdict.by == 0
    again = scale(world, GROW, now=later(2), before=held or first)
    assert again is None


def test_a_wish_that_is_held_is_told_once_however_the_time_that_is_left_is_said() -> None:
    world = a_growing_world(cooldown_up_ms=Millis(3_600_000), triggers=(Trigger(measure=Measure.WAIT, up=1, down=0),))
    told = scale_by_hand(world, GROW, 1, now=START)
    come(world, START)
    wants(world, now=START, cpu=2000)
    place(world, now=START)
    wants(world, now=START)
    place(world, now=START)
    lines = []
    for seconds in (1, 59, 60, 61, 3_540, 3_541, 3_599):
        step = scale(world, GROW, now=Millis(START + seconds * 1000), before=told)
        if step is not None:
            told = step
            lines.append(step.verdict.held)
    assert lines == [("cooldown, 59 min 59 s left",)]


def test_a_worker_takes_so_many_runs_and_then_no_more() -> None:
    world = a_growing_world(runs_per_worker=2)
    (worker,) = grown(world, START, workers=1)
    wants(world, 3, now=START)
    runs = place(world, now=START)
    assert [run.node for run in runs] == [worker, worker]
    assert world.tables.fleet.workers[worker].state is WorkerState.ENDING
    with pytest.raises(Conflict, match="still in use"):
        bury(world, worker, now=START)
    for run in runs:
        over(world, run, later(1))
    assert place(world, now=later(1)) == []
    assert bury(world, worker, now=later(1))


def test_every_way_a_worker_goes_stands_in_the_history_whose_lines_sum_to_the_size() -> None:
    world = a_growing_world(runs_per_worker=2, ready_within_ms=Millis(10_000))
    (served,) = grown(world, START, workers=1)
    wants(world, 2, now=START)
    place(world, now=START)
    drained = NodeId(scale_by_hand(world, GROW, 1, now=later(1)).workers[0])
    join_node(world, node_of(world.tables.fleet.workers[drained], world), now=later(1))
    growth.drain(world, drained, now=later(2))
    late = NodeId(scale_by_hand(world, GROW, 1, now=later(3)).workers[0])
    give_up(world, GROW, now=later(13))
    told = [entry.new for entry in world.journal.take(1 << 30) if isinstance(entry.new, ScalingStep)]
    assert sum(step.verdict.by for step in told) == 0
    assert [(step.verdict.rule, step.workers) for step in told if step.verdict.by < 0] == [
        (f"{served} has had its 2 runs", (served,)),
        (f"{drained} drained by hand", (drained,)),
        (f"{late} did not join within 10 s", (late,)),
    ]


def test_a_worker_that_does_not_come_in_time_is_given_up_and_cannot_join_any_more() -> None:
    world = a_growing_world(ready_within_ms=Millis(10_000))
    step = scale_by_hand(world, GROW, 1, now=START)
    worker = world.tables.fleet.workers[NodeId(step.workers[0])]
    assert give_up(world, GROW, now=later(9)) == []
    assert give_up(world, GROW, now=later(10)) == [worker.id]
    with pytest.raises(Conflict, match="asked for no worker"):
        join_node(world, node_of(worker, world), now=later(11))


def test_a_worker_nobody_asked_for_is_not_let_in() -> None:
    world = a_growing_world()
    with pytest.raises(Conflict) as refused:
        join_node(world, replace(world.tables.nodes[NodeId("n1")], id=NodeId("x"), pool=GROW), now=START)
    assert refused.value.code == "worker-unknown"


def test_scaling_by_hand_stays_within_bounds_and_ends_no_busy_worker() -> None:
    world = a_growing_world()
    grown(world, START, workers=2)
    wants(world, cpu=2000, now=START)
    (run,) = place(world, now=START)
    step = scale_by_hand(world, GROW, 0, now=START)
    assert (step.verdict.by, step.verdict.held) == (-1, ("the others are busy",))
    assert run.node not in step.workers
    with pytest.raises(Invalid, match="may have 0 to 3 workers, not 4"):
        scale_by_hand(world, GROW, 4, now=START)


def test_a_pool_with_a_minimum_is_emptied_and_deleted_as_its_refusals_say() -> None:
    world = a_ground()
    pool = create_pool(world, a_pool(workers_min=1), None, now=START)
    scale(world, GROW, now=START)
    come(world, START)
    with pytest.raises(Conflict) as busy:
        delete_pool(world, GROW, now=START)
    assert busy.value.hint == (
        "windlass pools pause grow, then windlass pools scale grow 0; it can go when its last worker has gone"
    )
    with pytest.raises(Invalid, match="may have 1 to 3 workers, not 0") as below:
        scale_by_hand(world, GROW, 0, now=START)
    assert str(below.value.hint).startswith("windlass pools pause grow first")

    change_pool(world, replace(pool, is_paused=True), None, now=START)
    (given_back,) = scale_by_hand(world, GROW, 0, now=START).workers
    assert scale(world, GROW, now=later(3600)) is None
    bury(world, NodeId(given_back), now=START)
    delete_pool(world, GROW, now=START)
    assert GROW not in world.tables.fleet.pools


def test_a_pool_that_was_emptied_has_its_minimum_again_when_it_is_resumed() -> None:
    world = a_ground()
    pool = create_pool(world, replace(a_pool(workers_min=1), is_paused=True), None, now=START)
    assert scale_by_hand(world, GROW, 0, now=START).verdict.by == 0
    change_pool(world, replace(pool, is_paused=False), None, now=START)
    step = scale(world, GROW, now=START)
    assert step is not None
    assert (step.verdict.by, step.verdict.rule) == (1, "at least the minimum")


def test_a_paused_pool_stays_as_it_is() -> None:
    world = a_ground()
    create_pool(world, replace(a_pool(), is_paused=True), None, now=START)
    wants(world, 5, now=START)
    place(world, now=START)
    assert scale(world, GROW, now=START) is None


def test_what_a_slice_writes_lies_on_its_machine_and_outlives_it() -> None:
    world = a_growing_world()
    (worker,) = grown(world, START, workers=1)
    asked = replace(a_submission(run_ttl_ms=60_000), pools=(GROW,))
    job, _ = submit(world, LOCAL_TENANT, asked, job=a_job_id(), now=START)
    (run,) = place(world, now=START)
    assert run.node == worker
    observe(world, VolumeMade(volume=job.volume_id, node=NodeId("n1")), now=START)
    over(world, run, later(1))
    drain(world, worker, now=later(1))
    assert bury(world, worker, now=later(1))
    volume = world.tables.volumes[job.volume_id]
    assert (volume.node, volume.state) == (NodeId("n1"), VolumeState.PRESENT)
    assert world.tables.runs[run.id].node == NodeId("n1")


# — cordon and drain —


def test_a_cordoned_node_takes_nothing_until_it_is_uncordoned_also_over_a_restart() -> None:
    world = a_ground()
    node = world.tables.nodes[NodeId("n1")]
    assert cordon(world, node.id, now=START).state is NodeState.CORDONED
    join_node(world, node, now=later(1))
    submit(world, LOCAL_TENANT, a_submission(), job=a_job_id(), now=later(1))
    assert place(world, now=later(1)) == []
    uncordon(world, node.id, now=later(2))
    assert len(place(world, now=later(2))) == 1


def test_a_drained_worker_stands_in_its_pools_history_once_and_with_the_reason() -> None:
    world = a_growing_world()
    first, _ = grown(world, START, workers=2)
    assert growth.drain(world, first, now=later(1)).state is NodeState.DRAINING
    growth.drain(world, first, now=later(2))
    growth.drain(world, NodeId("n1"), now=later(2))
    *_, step = told = [one.new for one in world.journal.take(1 << 30) if isinstance(one.new, ScalingStep)]
    assert [one.verdict.by for one in told] == [2, -1]
    assert (step.pool, step.at, step.workers) == (GROW, later(1), (first,))
    assert (step.verdict.by, step.verdict.wanted, step.verdict.rule) == (-1, 1, f"{first} drained by hand")
    assert (step.seen.ready, step.seen.idle) == (2, 2), "as it was before"


def test_a_drain_ends_when_the_last_run_is_over() -> None:
    world = a_growing_world()
    (worker,) = grown(world, START, workers=1)
    wants(world, 3, now=START)
    runs = place(world, now=START)
    assert drain(world, worker, now=START).state is NodeState.DRAINING
    with pytest.raises(Conflict, match="is being given back"):
        uncordon(world, worker, now=START)
    for run in runs:
        over(world, run, later(1))
    assert place(world, now=later(1)) == []
    assert bury(world, worker, now=later(1))
    assert worker not in world.tables.nodes


def test_a_static_pool_has_the_nodes_it_has() -> None:
    world = a_ground()
    create_pool(world, Pool(id=PoolId("local")), None, now=START)
    with pytest.raises(Conflict) as refused:
        scale_by_hand(world, PoolId("local"), 1, now=START)
    assert refused.value.code == "pool-static"
    with pytest.raises(Conflict, match="has 1 node"):
        delete_pool(world, PoolId("local"), now=START)
