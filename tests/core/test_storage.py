"""Stored volumes are paid for once, to the micro-unit, from when a node has them until they go; over moves, days and restarts."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from windlass.core.model.calendar import DAY_MS, Day
from windlass.core.model.facts import RunEnded, VolumeGone, VolumeMade
from windlass.core.model.ids import Millis, PoolId, TenantId, VolumeId
from windlass.core.model.job import Job
from windlass.core.model.money import Micros, PriceBook, Prices
from windlass.core.model.run import Run, RunState
from windlass.core.model.tenant import Budget, Tenant
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.finish import doom
from windlass.core.world.place import place
from windlass.core.world.records import KEPT, PRICES_KEY, Table, VolumeStored, decode, encode
from windlass.core.world.spending import total_id
from windlass.core.world.submit import submit
from windlass.core.world.tenants import delete_tenant
from windlass.core.world.workers import cordon, uncordon
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOON = Millis(20_000 * DAY_MS + DAY_MS // 2)
HOUR = 3_600_000
GB = 10**9
ACME = TenantId("acme")
LOCAL = PoolId("local")
FREE = PriceBook(core_hour=0, gigabyte_hour=0, gpu_hour=0)


def a_home(*, price: int = 1_000_000, budget: Budget | None = None) -> World:
    world = a_world(a_node("n1", cpu=64_000, memory=64 * GIB), a_node("n2", cpu=64_000, memory=64 * GIB), tenants=())
    world.set_tenant(Tenant(id=ACME, budget=budget), now=NOON)
    set_price(world, price, NOON)
    return world


def set_price(world: World, price: int, now: Millis) -> None:
    with world.decision(now):
        world.put(Table.PRICES, PRICES_KEY, Prices(every=replace(FREE, stored_gigabyte_hour=price)))


def begin(world: World, now: Millis, *, size: int = GB, retries: int = 0) -> tuple[Job, Run]:
    """A job whose node has its volume."""
    asked = replace(a_submission(retries=retries), volume_ttl_ms=Millis(10 * DAY_MS))
    job, _ = submit(world, ACME, asked, job=a_job_id(), now=now)
    (run,) = place(world, now=now)
    made(world, job, run, now, size=size)
    return job, run


def made(world: World, job: Job, run: Run, now: Millis, *, size: int = GB) -> None:
    observe(world, VolumeMade(volume=job.volume_id, node=run.node, size_bytes=size), now=now)


def end(world: World, run: Run, now: Millis, *, code: int = 0) -> None:
    observe(world, RunEnded(run=run.id, token=run.token, state=RunState.EXITED, exit_code=code), now=now)


def delete(world: World, volume: VolumeId, now: Millis) -> None:
    with world.decision(now):
        doom(world, world.tables.volumes[volume], now)


def ledger(world: World) -> list[VolumeStored]:
    return [entry.new for entry in world.journal.entries if isinstance(entry.new, VolumeStored)]


def by_day(world: World) -> dict[Day, int]:
    return {one.day: one.cost for one in world.tables.totals.values() if one.cost}


def test_a_volume_costs_its_size_by_the_hour_cut_at_midnight_and_once() -> None:
    world = a_home()
    job, run = begin(world, NOON, size=2 * GB)
    end(world, run, Millis(NOON + HOUR))
    made(world, job, run, Millis(NOON + 2 * HOUR), size=5 * GB)  # told again: nothing new
    until = Millis(NOON + 14 * HOUR)
    delete(world, job.volume_id, until)
    delete(world, job.volume_id, Millis(until + HOUR))
    observe(world, VolumeGone(volume=job.volume_id, node=run.node), now=Millis(until + HOUR))
    today = Day(NOON // DAY_MS)
    assert by_day(world) == {today: 24_000_000, Day(today + 1): 4_000_000}
    assert [sum(part.cost for part in one.segments) for one in ledger(world)] == [28_000_000]
    total = world.tables.totals[total_id(ACME, today)]
    assert list(total.pools) == [LOCAL]


def test_the_price_is_the_one_of_when_it_was_made_and_none_is_none() -> None:
    world = a_home(price=0)
    free, _ = begin(world, NOON)
    set_price(world, 1_000_000, NOON)
    dear, _ = begin(world, NOON)
    set_price(world, 7_000_000, NOON)
    for job in (free, dear):
        delete(world, job.volume_id, Millis(NOON + HOUR))
    assert by_day(world) == {Day(NOON // DAY_MS): 1_000_000}
    assert [one.volume.id for one in ledger(world)] == [dear.volume_id]


def test_a_time_to_live_that_is_over_and_a_tenant_that_is_deleted_end_it_too() -> None:
    world = a_home()
    job, run = begin(world, NOON)
    end(world, run, NOON)
    expire(world, now=Millis(NOON + 10 * DAY_MS))
    assert job.volume_id not in world.tables.stored
    assert sum(by_day(world).values()) == 240 * 1_000_000
    other, run = begin(world, Millis(NOON + 10 * DAY_MS))
    end(world, run, Millis(NOON + 10 * DAY_MS))
    delete_tenant(world, ACME, now=Millis(NOON + 10 * DAY_MS + HOUR))
    assert [one.volume.id for one in ledger(world)] == [job.volume_id, other.volume_id]
    assert (world.tables.totals, world.tables.stored) == ({}, {})


def test_a_budget_sees_what_is_stored_while_it_is() -> None:
    world = a_home(budget=Budget(per_month=Micros(2_000_000)))
    begin(world, NOON)
    due = world.next_due()
    assert due == NOON + HOUR, "at half of it"
    expire(world, now=due)
    assert [one.spent for one in world.tables.marks[ACME].passed] == [1_000_000]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 10**12),  # bytes
            st.lists(st.integers(60_000, 3 * DAY_MS), min_size=1, max_size=4),  # it moves after each but the last
            st.booleans(),  # with a restart in between
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 10**7),
)
def test_sums_are_those_of_every_stretch_whatever_moves_and_restarts(
    lives: Sequence[tuple[int, list[int], bool]], price: int
) -> None:
    world, now, expected = a_home(price=price), NOON, 0
    durable, written = Durable(), Counter[Day]()
    for size, spans, has_restart in lives:
        job, run = begin(world, now, size=size, retries=len(spans))
        for number, span in enumerate(spans, 1):
            assert world.tables.usage[ACME].live.rate(now) == size * price * 1000
            now = Millis(now + span)
            expected += span * size * price // (GB * HOUR)
            written.update(costs_of(world))
            world = durable.restarted(world) if has_restart else durable.kept(world)
            if number == len(spans):
                delete(world, job.volume_id, now)
                end(world, run, now)
            else:
                left, run = run.node, moved(world, run, now)
                made(world, job, run, now, size=size)
                uncordon(world, left, now=now)
    written.update(costs_of(world))
    assert by_day(world) == +written
    assert sum(written.values()) == expected
    assert not world.tables.stored
    assert not world.tables.usage[ACME].live.rate(now)


def moved(world: World, run: Run, now: Millis) -> Run:
    """Its attempt fails, and the next, at `now`, is elsewhere."""
    cordon(world, run.node, now=now)
    end(world, run, Millis(now - 60_000), code=1)
    expire(world, now=now)
    (again,) = place(world, now=now)
    assert again.node != run.node
    return again


def costs_of(world: World) -> Counter[Day]:
    """What its journal, until it is taken, writes into the ledger."""
    costs = Counter[Day]()
    for one in ledger(world):
        for part in one.segments:
            costs[part.day] += part.cost
    return costs


class Durable:
    """What a journal wrote, and a World made from it."""

    def __init__(self) -> None:
        self._records: dict[tuple[Table, str], bytes | None] = {}

    def kept(self, world: World) -> World:
        for entry in world.journal.take(1 << 30):
            self._records[entry.table, entry.key] = encode(entry.new) if entry.new is not None else None
        world.journal.settle()
        return world

    def restarted(self, world: World) -> World:
        self.kept(world)
        again = World(epoch=world.epoch + 1)
        again.number, again.tables.now = world.number, world.tables.now
        for table in KEPT:
            for (kind, key), value in self._records.items():
                if kind is table and value is not None:
                    again.load(table, key, decode(table, value))
        return again
