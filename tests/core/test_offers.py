"""Room that grows is offered to one shape at a time, in the queue's order; nobody who could use it is left out."""

from random import Random

import pytest

from windlass.core.model.facts import RunEnded
from windlass.core.model.ids import LOCAL_TENANT, Millis, NodeId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.run import Run, RunState
from windlass.core.model.tenant import Quota, Tenant
from windlass.core.placement.nodes import Nodes
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOW = Millis(10_000_000)
A, B = TenantId("a"), TenantId("b")


class Asked:
    """Counts how often placement is asked for a place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        pick = Nodes.pick

        def counted(*args: object, **how: object) -> object:
            self.times += 1
            return pick(*args, **how)  # type: ignore[arg-type]

        monkeypatch.setattr(Nodes, "pick", counted)


def accept(world: World, *, tenant: TenantId = LOCAL_TENANT, cpu: int = 1000, memory: int = GIB) -> Job:
    return submit(world, tenant, a_submission(cpu=cpu, memory=memory), job=a_job_id(), now=NOW)[0]


def end(world: World, run: Run) -> None:
    fact = RunEnded(run=run.id, token=run.token, state=RunState.EXITED, exit_code=0, ran_ms=Millis(1000))
    observe(world, fact, now=NOW)


def asks_for_each_placing(shapes: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """On a full fleet, with as many parked shapes, each of which would fit into whatever becomes free."""
    world = a_world(*(a_node(NodeId(f"n{at}"), cpu=1000, memory=64 * GIB) for at in range(4)))
    first = [accept(world).id for _ in range(4)]
    running = place(world, now=NOW)
    assert [run.job for run in running] == first
    waiting = [accept(world, cpu=1000 - at).id for at in range(shapes)]
    assert place(world, now=NOW) == []
    assert len(world.tables.queue.parked()) == shapes
    with monkeypatch.context() as patch:
        asked, served = Asked(patch), list[str]()
        while len(served) < 20:
            end(world, running.pop(0))
            placed = place(world, now=NOW)
            running += placed
            served += [run.job for run in placed]
    assert served == waiting[:20]  # in their order
    return asked.times / len(served)


def test_a_placing_asks_no_more_shapes_however_many_would_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asks_for_each_placing(30, monkeypatch) <= 2
    assert asks_for_each_placing(600, monkeypatch) <= 2


def test_what_is_left_beside_the_first_is_offered_to_the_next() -> None:
    world = a_world(a_node(cpu=4000, memory=64 * GIB))
    whole = accept(world, cpu=4000)
    (run,) = place(world, now=NOW)
    assert run.job == whole.id
    two, three, one = accept(world, cpu=2000), accept(world, cpu=3000), accept(world, cpu=1500)
    assert place(world, now=NOW) == []
    end(world, run)
    assert [run.job for run in place(world, now=NOW, limit=1)] == [two.id]
    assert place(world, now=NOW) == []  # the three are first now, and promised the node
    requests_left = {job.id for job in (three, one)}
    assert {job.id for job in world.tables.jobs.values() if job.is_waiting} == requests_left


def test_a_shape_whose_tenant_was_held_while_room_grew_is_asked_when_it_is_let_go() -> None:
    world = a_world(a_node(cpu=2000, memory=64 * GIB), tenants=(A, B))
    accept(world, tenant=A)
    other = accept(world, tenant=B)
    runs = {run.job: run for run in place(world, now=NOW)}
    waits = accept(world, tenant=A, cpu=900)
    assert place(world, now=NOW) == []
    assert len(world.tables.queue.parked()) == 1
    world.set_tenant(Tenant(id=A, quota=Quota(jobs=1)), now=NOW)
    end(world, runs[other.id])
    assert place(world, now=NOW) == []  # there is room, but not within its quota
    world.set_tenant(Tenant(id=A), now=NOW)
    assert [run.job for run in place(world, now=NOW)] == [waits.id]


@pytest.mark.parametrize("seed", range(20))
def test_nobody_who_could_use_what_is_free_is_left_parked(seed: int) -> None:
    chance = Random(seed)
    world = a_world(*(a_node(NodeId(f"n{at}"), cpu=4000, memory=8 * GIB) for at in range(chance.randrange(1, 5))))
    running: list[Run] = []
    for _ in range(60):
        for _ in range(chance.randrange(4)):
            accept(world, cpu=chance.randrange(100, 4000), memory=chance.randrange(1, 8) * GIB)
        chance.shuffle(running)
        for _ in range(min(len(running), chance.randrange(4))):
            end(world, running.pop())
        while len(placed := place(world, now=NOW, limit=2)) == 2:
            running += placed
        running += placed
        places = world.tables.places
        left = [band for band in world.tables.queue.parked() if not band.yields]
        assert not [band for band in left if places.could_use_any(band.shape, list(places))]
        assert not world.tables.grown
