"""Who is handed a secret, and what a box is worth elsewhere: the control plane with a real sealer over a store in memory."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from windlass.adapters.secrets.directory import KeyFiles
from windlass.control.plane import ControlPlane
from windlass.core.errors import Unavailable
from windlass.core.model.ids import LOCAL_TENANT, JobId, NodeId, RunId, TenantId, run_id
from windlass.core.model.job import Job, JobSpec, JobState
from windlass.core.model.resources import Resources
from windlass.core.model.run import Token
from windlass.core.model.secret import SecretVariable
from windlass.core.model.submission import Submission
from windlass.core.world.records import Table, decode, store_key
from windlass.ports.secrets import SecretMissing
from windlass.ports.store import Put
from windlass.testing.plane import MemoryHome, memory_home

pytestmark = pytest.mark.anyio

OTHER = TenantId("other")
IMAGE = "slow:1"


async def waiting_run(home: MemoryHome, *, tenant: TenantId = LOCAL_TENANT, secret: str = "hub") -> tuple[RunId, Token]:
    """Handed what it needs by its agent, and never past its pull."""
    accepted = await home.plane.intake.submit(tenant, Submission(spec=a_spec("true", secret=secret)))
    run = run_id(accepted.job.id, index=0, attempt=1)
    runs = home.plane.brain.world.tables.runs
    await until(lambda: run in runs and runs[run].progress)
    return run, runs[run].token


def a_spec(command: str, *, secret: str = "hub") -> JobSpec:
    return JobSpec(
        image=IMAGE,
        command=(command,),
        needs=Resources(cpu_millis=100, memory_bytes=1 << 20),
        secret_env=(SecretVariable(name="TOKEN", secret=secret),),
    )


async def until(fact: Any) -> Any:
    with anyio.fail_after(120):
        while not (found := fact()):
            await anyio.sleep(0.005)
    return found


@pytest.fixture
async def home(tmp_path: Path) -> Any:
    sealer = KeyFiles(tmp_path / "keys")
    async with memory_home(tenants=(LOCAL_TENANT, OTHER), sealer=sealer) as made:
        made.machine.images = set()
        made.machine.registry[IMAGE] = 3_600_000
        yield made


async def test_a_secret_is_handed_to_the_current_run_of_the_node_that_has_it(home: MemoryHome) -> None:
    secrets = home.plane.secrets
    await secrets.set(LOCAL_TENANT, "hub", {"value": b"canary"})
    run, token = await waiting_run(home)
    assert (await secrets.hand_over(NodeId("n1"), run, token)).variables == (("TOKEN", "canary"),)
    assert (await secrets.hand_over(NodeId("n1"), run, token)).variables == (("TOKEN", "canary"),), "asked again"
    stale = Token(token.epoch, token.n + 1)
    for node, asked, with_token in (("n2", run, token), ("n1", run, stale), ("n1", RunId("none"), token)):
        with pytest.raises(Unavailable) as refused:
            await secrets.hand_over(NodeId(node), asked, with_token)
        assert refused.value.code == "run-not-current"


async def test_a_run_that_has_started_is_handed_nothing_more(home: MemoryHome) -> None:
    await home.plane.secrets.set(LOCAL_TENANT, "hub", {"value": b"canary"})
    home.machine.registry[IMAGE] = 0
    accepted = await home.plane.intake.submit(LOCAL_TENANT, Submission(spec=a_spec("sleep 600")))
    job = accepted.job.id
    await until(lambda: state(home.plane, job) is JobState.RUNNING)
    run = run_id(job, index=0, attempt=1)
    token = home.plane.brain.world.tables.runs[run].token
    with pytest.raises(Unavailable):
        await home.plane.secrets.hand_over(NodeId("n1"), run, token)


async def test_a_box_moved_to_another_tenant_name_or_version_does_not_open(home: MemoryHome) -> None:
    plane, secrets = home.plane, home.plane.secrets
    await secrets.set(LOCAL_TENANT, "hub", {"value": b"first"})
    older = await box(home, LOCAL_TENANT, "hub")
    await secrets.set(LOCAL_TENANT, "hub", {"value": b"canary"})
    newer = await box(home, LOCAL_TENANT, "hub")
    for tenant, name in ((OTHER, "hub"), (LOCAL_TENANT, "elsewhere")):
        await secrets.set(tenant, name, {"value": b"its own"})
        run, token = await waiting_run(home, tenant=tenant, secret=name)
        await home.store.commit([Put(key_of(tenant, name), newer)])
        with pytest.raises(SecretMissing) as refused:
            await secrets.hand_over(NodeId("n1"), run, token)
        assert "canary" not in f"{refused.value.message} {refused.value.hint}"
    run, token = await waiting_run(home)
    await home.store.commit([Put(key_of(LOCAL_TENANT, "hub"), older)])
    with pytest.raises(SecretMissing):
        await secrets.hand_over(NodeId("n1"), run, token)
    await home.store.commit([Put(key_of(LOCAL_TENANT, "hub"), newer)])
    assert (await secrets.hand_over(NodeId("n1"), run, token)).variables == (("TOKEN", "canary"),), "back in its place"
    assert plane.brain.world.tables.vault.secret(LOCAL_TENANT, "hub") is not None


async def test_a_rotation_seals_everything_anew_while_secrets_are_set_and_removed(home: MemoryHome) -> None:
    secrets, count = home.plane.secrets, 90
    for n in range(count):
        await secrets.set(LOCAL_TENANT, f"s{n}", {"value": b"old %d" % n})
    await secrets.login(OTHER, "r.example.com", "ci", "word")
    before = {n: await box(home, LOCAL_TENANT, f"s{n}") for n in range(count)}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(secrets.rotate)
        for n in range(0, count, 10):
            tasks.start_soon(secrets.set, LOCAL_TENANT, f"s{n}", {"value": b"new %d" % n})
            tasks.start_soon(secrets.remove, LOCAL_TENANT, f"s{n + 1}")
    left = {view.secret.name: view.secret for view in secrets.list(LOCAL_TENANT)}
    assert len(left) == count - 9
    assert {one.sealed_with for one in left.values()} == {2}
    for n in (0, 2, 10, 89):
        run, token = await waiting_run(home, secret=f"s{n}")
        told = "new" if n % 10 == 0 else "old"
        assert (await secrets.hand_over(NodeId("n1"), run, token)).variables == (("TOKEN", f"{told} {n}"),)
        assert await box(home, LOCAL_TENANT, f"s{n}") != before[n]
    found = await secrets.credentials(OTHER, "r.example.com/app:1")
    assert found is not None
    assert (found.username, found.password) == ("ci", "word")


async def test_without_its_data_key_a_store_gives_nothing_away(tmp_path: Path) -> None:
    async with memory_home(sealer=KeyFiles(tmp_path / "keys")) as home:
        await home.plane.secrets.set(LOCAL_TENANT, "hub", {"value": b"canary"})
        store = home.store
    async with memory_home(store=store, sealer=KeyFiles(tmp_path / "other-keys")) as home:
        assert [view.secret.name for view in home.plane.secrets.list(LOCAL_TENANT)] == ["hub"]
        accepted = await home.plane.intake.submit(LOCAL_TENANT, Submission(spec=a_spec("true")))
        over = await ended(home.plane, accepted.job.id)
        assert (over.state, over.reason) == (JobState.FAILED, "SecretMissing")
        assert "canary" not in over.message


async def ended(plane: ControlPlane, job: JobId) -> Job:
    with anyio.fail_after(120):
        async with plane.read_model.follow(tenant=None) as changes:
            assert await plane.read_model.caught_up()
            while not (found := (await plane.read_model.find_job(LOCAL_TENANT, job)).job).is_over:
                await anext(changes)
            return found


def state(plane: ControlPlane, job: JobId) -> JobState | None:
    found = plane.brain.world.tables.jobs.get(job)
    return found.state if found is not None else None


def key_of(tenant: TenantId, name: str) -> str:
    return store_key(Table.SEALED, f"secrets/{tenant}/{name}")


async def box(home: MemoryHome, tenant: TenantId, name: str) -> bytes:
    item = await home.store.get(key_of(tenant, name))
    assert item is not None
    assert decode(Table.SEALED, item.value).box not in (b"", None)
    return item.value
