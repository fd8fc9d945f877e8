"""What is told of a job does not depend on how many of its steps one commit held."""

from msgspec import json
from msgspec.structs import replace

from windlass.adapters.readmodel.sqlite import SqliteReadTables
from windlass.core.model.ids import LOCAL_TENANT, Millis
from windlass.core.model.job import JobState
from windlass.core.model.narrate import narrate, narrate_node
from windlass.core.model.node import NodeState
from windlass.core.model.tenant import Tenant
from windlass.core.model.views import EventQuery
from windlass.core.world.place import place
from windlass.core.world.policy import Policy
from windlass.core.world.records import NUMBER_KEY, Mark, Table, encode, store_key
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.ports.store import Change
from windlass.testing.builders import a_job_id, a_node, a_submission

NOW = Millis(1_000)
SOON = Millis(2_000)
LATER = Millis(3_000)


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


def test_a_change_that_leaves_no_moment_in_the_record_has_that_of_its_commit() -> None:
    world = World(epoch=1, policy=Policy())
    world.set_tenant(Tenant(id=LOCAL_TENANT), now=NOW)
    node = a_node("n1")
    world.set_node(node, now=NOW)
    running, _ = submit(world, LOCAL_TENANT, a_submission(), job=a_job_id(), now=NOW)
    asked = replace(running, is_cancelled=True)
    [told] = narrate(running, asked, revision=2, now=LATER)
    assert (told.kind, told.at) == ("CancelAsked", LATER)
    ended = replace(asked, state=JobState.CANCELLED, since=SOON)
    assert [event.at for event in narrate(running, ended, revision=2, now=LATER)] == [SOON, SOON]
    [changed] = narrate_node(node, replace(node, capacity=node.capacity * 2), revision=3, now=LATER)
    [removed] = narrate_node(node, None, revision=4, now=LATER)
    assert [(changed.kind, changed.at), (removed.kind, removed.at)] == [("NodeChanged", LATER), ("NodeRemoved", LATER)]
    [drained] = narrate_node(node, replace(node, state=NodeState.DRAINING, since=SOON), revision=5, now=LATER)
    assert drained.at == SOON


def test_the_read_model_takes_the_moment_from_the_number_that_every_commit_carries() -> None:
    tables = SqliteReadTables(":memory:")
    key, node = store_key(Table.NODES, "n1"), a_node("n1")
    tables.apply([Change(revision=1, key=key, value=encode(node))], 1)
    mark = Change(revision=2, key=NUMBER_KEY, value=json.encode(Mark(1, 7, LATER)))
    tables.apply([Change(revision=2, key=key, value=None), mark], 2)
    told = tables.events(EventQuery(tenants=None, subject="n1", limit=10))
    assert [(event.kind, event.at) for event in told] == [("NodeJoined", node.since), ("NodeRemoved", LATER)]
    tables.close()
