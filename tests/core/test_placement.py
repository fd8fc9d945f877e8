"""Where: the indexed pick against a search of all nodes, and deserved against received."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from windlass.core.fairness.standings import MARK_MS, Standings
from windlass.core.model.ids import JobId, Millis, NodeId, PoolId, RunId, TenantId
from windlass.core.model.node import Node, NodeState
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run, Token
from windlass.core.model.shape import Shape
from windlass.core.placement.nodes import Nodes
from windlass.core.placement.rooms import Room, Rooms
from windlass.core.placement.spot import Spot, Waiting
from windlass.testing.builders import GIB, a_node

A, B, C = TenantId("a"), TenantId("b"), TenantId("c")
NOW = Millis(1_000_000)

needs = st.builds(
    Resources,
    cpu_millis=st.sampled_from([100, 250, 1000, 3000]),
    memory_bytes=st.sampled_from([GIB // 4, GIB, 6 * GIB]),
    gpus=st.sampled_from([0, 0, 0, 1, 2]),
)
shapes = st.builds(
    Shape,
    needs=needs,
    pools=st.sampled_from([(), (), (PoolId("local"),), (PoolId("other"),)]),
    labels=st.sampled_from([(), (), (("disk", "ssd"),)]),
    node=st.sampled_from([None, None, None, NodeId("n1")]),
)
nodes = st.builds(
    lambda number, cpu, memory, gpus, pool, state, labels, hands_on, slots: replace(
        a_node(f"n{number}", cpu=cpu, memory=memory, gpu_ids=tuple(f"g{at}" for at in range(gpus))),
        pool=pool,
        state=state,
        labels=labels,
        hands_on_labels=hands_on,
        runs_max=slots,
    ),
    st.integers(0, 12),
    st.sampled_from([1000, 4000]),
    st.sampled_from([2 * GIB, 8 * GIB]),
    st.sampled_from([0, 0, 2]),
    st.sampled_from([PoolId("local"), PoolId("other")]),
    st.sampled_from([NodeState.ACTIVE, NodeState.ACTIVE, NodeState.CORDONED]),
    st.sampled_from([(), (("disk", "ssd"),)]),
    st.sampled_from([False, False, True]),
    st.sampled_from([2, 10_000]),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(nodes, min_size=1, max_size=12),
    st.lists(shapes, min_size=1, max_size=60),
    st.lists(st.sampled_from([(), (("disk", "ssd"),), (("disk", "tape"),)]), min_size=9, max_size=9),
)
def test_the_index_picks_the_node_and_counts_the_reasons_that_a_search_does(
    fleet: list[Node], asked: list[Shape], pool_labels: list[tuple[tuple[str, str], ...]]
) -> None:
    places, held, given = Nodes(), dict[RunId, Run](), dict[PoolId, dict[str, str]]()
    for node in fleet:
        places.set(node, [run for run in held.values() if run.node == node.id])
    for number, shape in enumerate(asked):
        if number % 7 == 0:
            labels = pool_labels[number // 7]
            places.set_pool(PoolId("other"), worker=None, is_closed=False, labels=labels)
            given[PoolId("other")] = dict(labels)
        expected = _search(places, shape, given)
        found = places.pick(shape)
        assert found == expected if isinstance(expected, Spot) else isinstance(found, Waiting)
        if isinstance(found, Waiting) and isinstance(expected, Waiting):
            assert dict(found.reasons) == dict(expected.reasons)
        if isinstance(found, Spot):
            run = _run(number, found, shape)
            held[run.id] = run
            places.hold(run)
            slot = places.slot(found.node)
            assert slot is not None
            assert slot.free.cpu_millis >= 0 <= slot.free.memory_bytes
            assert slot.free.gpus >= 0
        if number % 3 == 2 and held:
            places.release(held.pop(next(iter(held))))
        if number % 7 == 6:
            node = fleet[number % len(fleet)]
            places.set(replace(node, labels=()), [run for run in held.values() if run.node == node.id])


@pytest.mark.parametrize("looked_at", [0, 100], ids=["counted", "looked at"])
def test_nodes_that_are_too_small_are_told_from_those_in_use(looked_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, however many; how those in use divide is exact as long as the others are few."""
    monkeypatch.setattr("windlass.core.placement.nodes._LOOKED_AT_MAX", looked_at)
    places = Nodes()
    for name, cpu, memory in (("a", 1000, 8), ("b", 2000, 8), ("c", 8000, 1), ("d", 8000, 8), ("e", 8000, 8)):
        places.set(a_node(name, cpu=cpu, memory=memory * GIB), [])
    shape = Shape(needs=Resources(cpu_millis=4000, memory_bytes=4 * GIB))
    for number, node in enumerate("cde"):
        places.hold(_run(number, Spot(node=NodeId(node)), Shape(needs=Resources(cpu_millis=6000))))
    found = places.pick(shape)
    assert isinstance(found, Waiting)
    assert dict(found.reasons) == {"cpu too small": 2, "memory too small": 1, "cpu in use": 2}
    assert found.scarce == "cpu"
    places.set(a_node("f", cpu=4000, memory=4 * GIB), [])
    assert places.pick(shape) == Spot(node=NodeId("f"))


def test_of_a_cordoned_node_the_reason_that_lasts_longer_is_told() -> None:
    shape = Shape(needs=Resources(cpu_millis=4000, memory_bytes=GIB), labels=(("disk", "ssd"),))
    places = Nodes()
    for name, cpu, labels in (("a", 8000, ()), ("b", 1000, shape.labels), ("c", 8000, shape.labels)):
        node = replace(a_node(name, cpu=cpu, memory=8 * GIB), labels=labels)
        places.set(replace(node, state=NodeState.CORDONED), [])
        places.set(replace(node, id=NodeId(f"{name}2")), [])
    places.hold(_run(0, Spot(node=NodeId("c2")), Shape(needs=Resources(cpu_millis=6000))))
    told = {"label disk": 2, "cpu too small": 2, "node cordoned": 1, "cpu in use": 1}
    for found in (places.pick(shape), places.pick(shape, among=[slot.node.id for slot in places])):
        assert isinstance(found, Waiting)
        assert dict(found.reasons) == told, "by classes and node by node"


def test_labels_pass_a_node_that_hands_them_on_if_its_pool_is_named() -> None:
    """Who names no pool is placed by the labels that are known here: whether the cluster has such a node is not."""
    asks = Shape(needs=Resources(cpu_millis=100), labels=(("disk", "ssd"),))
    places = Nodes()
    places.set(a_node("here", cpu=4000), [])
    places.set(replace(a_node("cluster", cpu=64_000), pool=PoolId("cluster"), hands_on_labels=True), [])
    assert places.pick(replace(asks, pools=(PoolId("cluster"),))) == Spot(node=NodeId("cluster"))
    assert places.pick(asks) == Waiting(reasons=(("label disk", 2),))
    assert places.could_ever_fit(asks) == ("label disk",)
    assert places.pick(replace(asks, pools=(PoolId("local"),))) == Waiting(reasons=(("label disk", 1), ("pool", 1)))


def _search(places: Nodes, shape: Shape, given: dict[PoolId, dict[str, str]]) -> Spot | Waiting:
    refused: Counter[str] = Counter()
    fits = []
    for slot in places:
        reason = places.refusal(shape, slot)
        has = given.get(slot.node.pool, {}) | dict(slot.node.labels)
        passes = slot.node.hands_on_labels and slot.node.pool in shape.pools
        is_labelled = passes or all(has.get(key) == value for key, value in shape.labels)
        assert is_labelled if reason is None else not (is_labelled and reason.startswith("label "))
        if reason is None:
            fits.append(slot)
        else:
            refused[reason] += 1
    if not fits:
        return Waiting(reasons=tuple(refused.items()) or (("no node", 0),))
    best = min(fits, key=lambda one: (one.free.gpus, one.free.cpu_millis, one.free.memory_bytes, one.node.id))
    return Spot(node=best.node.id, gpu_ids=tuple(best.free_gpus[: shape.needs.gpus]))


def _run(number: int, spot: Spot, shape: Shape) -> Run:
    return Run(
        id=RunId(f"r{number}"),
        job=JobId(f"j{number}"),
        tenant=A,
        node=spot.node,
        attempt=1,
        token=Token(1, number),
        needs=shape.needs,
        gpu_ids=spot.gpu_ids,
        since=NOW,
        assigned_at=NOW,
    )


def test_deserved_is_the_part_by_weight_of_what_was_served_while_it_waited() -> None:
    weights = {A: 1000, B: 3000, C: 1000}
    standings = Standings(weights.__getitem__)
    for tenant in (A, B):
        standings.waits(tenant, True)
    standings.serve(A, 400_000, NOW)
    standings.waits(A, False)
    standings.serve(B, 100_000, NOW)
    standings.waits(C, True)
    standings.serve(C, 400_000, NOW)
    since, all_of_them = standings.all(NOW)
    told = {one.tenant: (one.deserved, one.received) for one in all_of_them}
    assert since == NOW
    assert {tenant: (round(deserved, -1), received) for tenant, (deserved, received) in told.items()} == {
        A: (100_000, 400_000),  # a quarter of the first
        B: (700_000, 100_000),  # three quarters of it, all of the second, three quarters of the third
        C: (100_000, 400_000),
    }
    assert abs(sum(one.lag for one in all_of_them)) <= 3


happenings = st.one_of(
    st.tuples(st.just("waits"), st.sampled_from([A, B, C]), st.booleans()),
    st.tuples(st.just("serves"), st.sampled_from([A, B, C]), st.integers(1, 10**15)),
    st.tuples(st.just("corrects"), st.sampled_from([A, B, C]), st.integers(-(10**15), 10**15)),
)


@given(st.lists(happenings, max_size=80))
def test_what_all_deserved_is_what_all_received_however_often_charges_are_corrected(all_of_them: list[Any]) -> None:
    standings, waiting = Standings({A: 500, B: 3000, C: 10_000}.__getitem__), set[TenantId]()
    for what, tenant, value in all_of_them:
        if what == "waits" and value is not (tenant in waiting):
            standings.waits(tenant, value)
            waiting ^= {tenant}
        elif what == "serves":
            standings.serve(tenant, value, NOW)
        elif what == "corrects":
            standings.correct(tenant, value, NOW, charged_at=NOW)
    told = standings.all(NOW)[1]
    assert all(one.received >= 0 <= one.deserved for one in told)
    received = sum(one.received for one in told)
    assert abs(sum(one.deserved for one in told) - received) <= 3 + received // 10**9


def test_a_charge_that_was_far_too_high_takes_nothing_from_who_came_since() -> None:
    """A run alone is charged a minute and takes a moment; then others wait, by their weights, and are served."""
    standings = Standings({A: 1000, B: 3000, C: 1000}.__getitem__)
    standings.serve(C, 60_000, NOW)
    for tenant in (A, B):
        standings.waits(tenant, True)
    standings.correct(C, -59_000, NOW, charged_at=NOW)
    for tenant in (B, A, B, B):
        standings.serve(tenant, 1_000, NOW)
    told = {one.tenant: (one.deserved, one.received) for one in standings.all(NOW)[1]}
    assert told == {A: (1_000, 1_000), B: (3_000, 3_000), C: (1_000, 1_000)}


def test_whoever_is_served_last_and_waits_no_more_deserved_its_part() -> None:
    standings = Standings(lambda tenant: 1000)
    standings.serve(A, 1_000, NOW)
    standings.correct(A, -400, NOW, charged_at=NOW)
    ((one,),) = [standings.all(NOW)[1]]
    assert (one.deserved, one.received, one.lag) == (600, 600, 0)


def test_a_charge_from_before_the_leadership_is_not_corrected_in_it() -> None:
    standings = Standings(lambda tenant: 1000)
    before = Millis(NOW - 1)
    standings.correct(A, -900, NOW, charged_at=before)
    assert standings.all(NOW)[1] == []
    standings.serve(A, 1_000, NOW)
    standings.correct(A, -900, NOW, charged_at=before)
    standings.correct(B, -900, NOW, charged_at=NOW)  # a clock that was set back: nothing of it was counted
    told = {one.tenant: (one.deserved, one.received) for one in standings.all(NOW)[1]}
    assert told == {A: (1_000, 1_000), B: (0, 0)}


def test_a_window_in_which_more_is_taken_back_than_charged_shows_nothing_and_not_less() -> None:
    standings = Standings(lambda tenant: 1000)
    standings.serve(A, 1_000, NOW)
    later = Millis(NOW + MARK_MS)
    standings.correct(A, -400, later, charged_at=NOW)
    (one,) = standings.all(Millis(later + MARK_MS), window_ms=MARK_MS)[1]
    assert (one.deserved, one.received) == (0, 0)
    (one,) = standings.all(later)[1]
    assert (one.deserved, one.received) == (600, 600)


def test_a_weight_that_changes_counts_from_then_on() -> None:
    weights = {A: 1000, B: 1000}
    standings = Standings(weights.__getitem__)
    for tenant in (A, B):
        standings.waits(tenant, True)
    standings.serve(A, 100_000, NOW)
    weights[B] = 4000
    standings.weigh(B)
    standings.serve(A, 100_000, NOW)
    told = {one.tenant: round(one.deserved, -1) for one in standings.all(NOW)[1]}
    assert told == {A: 70_000, B: 130_000}


def test_a_window_shows_only_what_came_since_its_mark() -> None:
    standings = Standings(lambda tenant: 1000)
    for at in range(20):
        standings.serve(A, 1_000, Millis(NOW + at * MARK_MS))
    now = Millis(NOW + 20 * MARK_MS)
    since, (one,) = standings.all(now, window_ms=Millis(2 * MARK_MS))
    assert (since, one.received) == (NOW + 18 * MARK_MS, 2_000)
    assert standings.all(now)[1][0].received == 20_000


def test_counting_begins_with_the_leadership_and_not_with_the_first_service() -> None:
    standings = Standings(lambda tenant: 1000)
    standings.begin(NOW)
    first = Millis(NOW + 7 * MARK_MS)
    standings.serve(A, 1_000, first)
    since, (one,) = standings.all(first)
    assert (since, one.received) == (NOW, 1_000)
    since, (one,) = standings.all(first, window_ms=Millis(2 * MARK_MS))
    assert (since, one.received) == (NOW + 5 * MARK_MS, 1_000)
    since, (one,) = standings.all(first, window_ms=Millis(60 * MARK_MS))
    assert (since, one.received) == (NOW, 1_000), "a window longer than the leadership is the leadership"


def test_a_quiet_window_is_empty_however_long_ago_the_last_mark_was() -> None:
    standings = Standings(lambda tenant: 1000)
    standings.begin(NOW)
    standings.serve(A, 1_000, NOW)
    standings.serve(A, 1_000, Millis(NOW + MARK_MS // 2))
    now = Millis(NOW + 9 * MARK_MS)
    since, (one,) = standings.all(now, window_ms=MARK_MS)
    assert (since, one.received) == (NOW + 8 * MARK_MS, 0)
    standings.serve(A, 5_000, now)
    since, (one,) = standings.all(now, window_ms=MARK_MS)
    assert (since, one.received) == (NOW + 8 * MARK_MS, 5_000)


def test_rooms_find_and_count_nodes_as_a_sorted_list_of_them_would() -> None:
    chance, rooms, held = random.Random(5), Rooms(), list[tuple[Room, NodeId]]()
    for step in range(6_000):
        if held and chance.random() < (0.3 if step < 3_000 else 0.7):  # more rooms than a block has, then nearly none
            rooms.remove(*held.pop(chance.randrange(len(held))))
        else:
            held.append(((chance.randrange(2), chance.randrange(40), chance.randrange(40)), NodeId(f"n{step}")))
            rooms.add(*held[-1])
        if step % 50:
            continue
        listed = sorted(held)
        bound = (chance.randrange(2), chance.randrange(40))
        assert len(rooms) == len(listed)
        assert list(rooms.descending()) == [node for _, node in reversed(listed)]
        assert rooms.below(bound) == sum(room < bound for room, _ in listed)
        first = next((one for one in listed if one[0] >= bound), None)
        found = rooms.at_least(bound)
        assert found == (first[0] if first is not None else None)
        if first is not None and found is not None:
            others = [node for room, node in listed if room == found and node != first[1]]
            assert rooms.first_in(found) == first[1]
            assert rooms.first_in(found, besides=first[1]) == (others[0] if others else None)
