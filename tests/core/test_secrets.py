"""Secrets in the World: whatever was decided, taken back or loaded again, records, boxes and users say the same."""

from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.errors import Invalid, NotFound
from windlass.core.model.ids import JobId, Millis, TenantId
from windlass.core.model.job import JobSpec
from windlass.core.model.resources import Resources
from windlass.core.model.secret import RegistryLogin, Sealed, Secret, SecretVariable
from windlass.core.model.submission import Submission
from windlass.core.model.tenant import Tenant
from windlass.core.world import requests
from windlass.core.world.records import KEPT, Record, Table, decode, encode
from windlass.core.world.secrets import box_key, remove_login, remove_secret, reseal, set_login, set_secret
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import a_node

TENANTS = (TenantId("a"), TenantId("b"))
NAMES = ("x", "y")
NOW = Millis(1)
Stored = dict[tuple[Table, str], Record]

acts = st.tuples(
    st.sampled_from(("set", "remove", "login", "logout", "submit", "cancel", "reseal")),
    st.sampled_from(TENANTS),
    st.sampled_from(NAMES),
    st.booleans(),
)


def a_world() -> World:
    world = World(epoch=1)
    for tenant in TENANTS:
        world.set_tenant(Tenant(id=tenant), now=NOW)
    world.set_node(a_node("n1"), now=NOW)
    return world


def seal(record: Secret | RegistryLogin) -> Sealed:
    return Sealed(key=1, box=box_key(record).encode())


def act(world: World, what: str, tenant: TenantId, name: str, number: int) -> None:
    vault = world.tables.vault
    match what:
        case "set":
            set_secret(world, tenant, name, {"value": b"v"}, seal=seal, now=NOW)
        case "remove":
            remove_secret(world, tenant, name, now=NOW)
        case "login":
            set_login(world, tenant, f"{name}.example.com", "ci", seal=seal, now=NOW)
        case "logout":
            remove_login(world, tenant, f"{name}.example.com", now=NOW)
        case "submit":
            spec = JobSpec(
                image="i:1",
                needs=Resources(cpu_millis=1, memory_bytes=1),
                secret_env=(SecretVariable(name="T", secret=name),),
            )
            submit(world, tenant, Submission(spec=spec), job=JobId(f"{number:012x}"), now=NOW)
        case "cancel":
            for job in sorted(vault.users(tenant, name)):
                requests.cancel(world, tenant, job, now=NOW)
        case "reseal":
            for record in [*vault.sealed_before(2)]:
                reseal(world, record, Sealed(key=2, box=b"anew"), now=NOW)


def commit(world: World, stored: Stored) -> None:
    while len(world.journal):
        for entry in world.journal.take(1000):
            if entry.new is None:
                stored.pop((entry.table, entry.key), None)
            else:
                stored[entry.table, entry.key] = decode(entry.table, encode(entry.new))
        world.journal.settle()


def seen(world: World) -> object:
    vault = world.tables.vault
    registries = [f"{name}.example.com" for name in NAMES]
    return (
        {tenant: dict(records) for tenant, records in vault.secrets.items() if records},
        {tenant: dict(records) for tenant, records in vault.logins.items() if records},
        {(tenant, name): vault.users(tenant, name) for tenant in TENANTS for name in NAMES},
        [vault.is_guarded(registry) for registry in registries],
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(acts, max_size=30))
def test_what_is_decided_taken_back_or_loaded_again_says_the_same(steps: list[tuple[str, TenantId, str, bool]]) -> None:
    world, stored = a_world(), Stored()
    commit(world, stored)
    for number, (what, tenant, name, is_refused) in enumerate(steps):
        before = seen(world)
        try:
            act(world, what, tenant, name, number)
        except (NotFound, Invalid):
            assert seen(world) == before, "a refusal changes nothing"
        if is_refused:
            world.undo_uncommitted()
            assert seen(world) == before, "a commit that the store refused did not happen"
        commit(world, stored)
    vault = world.tables.vault
    records = [
        *(one for mine in vault.secrets.values() for one in mine.values()),
        *(one for mine in vault.logins.values() for one in mine.values()),
    ]
    boxes = {key: record for (table, key), record in stored.items() if table is Table.SEALED}
    assert set(boxes) == {box_key(record) for record in records}, "a box for every record, and none beside"
    assert all(boxes[box_key(record)].key == record.sealed_with for record in records)  # type: ignore[union-attr]
    again = World(epoch=2)
    for (table, key), record in stored.items():
        if table in KEPT:
            again.load(table, key, record)
    assert seen(again) == seen(world)
