"""What is told of a job does not depend on how many of its steps one commit held."""

from windlass.core.model.ids import LOCAL_TENANT, Millis
from windlass.core.model.narrate import narrate
from windlass.core.model.tenant import Tenant
from windlass.core.world.place import place
from windlass.core.world.submit import submit
from windlass.core.world.world import Policy, World
from windlass.testing.builders import a_job_id, a_node, a_submission

NOW = Millis(1_000)


def test_an_acceptance_has_no_place_also_when_the_job_was_placed_in_the_same_commit() -> None:
    world = World(epoch=1, policy=Policy())
    world.set_tenant(Tenant(id=LOCAL_TENANT), now=NOW)
    world.set_node(a_node("n1"), now=NOW)
    accepted, _ = submit(world, LOCAL_TENANT, a_submission(), job=a_job_id(), now=NOW)
    place(world, now=NOW, limit=1)
    placed = world.tables.jobs[accepted.id]
    apart = [*narrate(None, accepted, revision=1), *narrate(accepted, placed, revision=1)]
    assert [(event.kind, event.node, event.attempt) for event in apart] == [("Accepted", "", 0), ("Scheduled", "n1", 1)]
    assert list(narrate(None, placed, revision=1)) == apart
