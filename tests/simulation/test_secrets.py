"""Secrets while things break: servers and agents killed, messages lost and late, a store in doubt, keys rotated meanwhile.

Each value says whose it is, so a run that started tells whether it was handed its own tenant's, and only such as were ever set.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from tests.simulation.scenario import TENANTS, _has_joined, _is_quiet, _logs_into, _machine_options, _until
from tests.simulation.trouble import Trouble
from windlass.control.janitor import Retention
from windlass.core.errors import WindlassError
from windlass.core.model.ids import TenantId
from windlass.core.model.job import JobSpec
from windlass.core.model.resources import Resources
from windlass.core.model.secret import SecretVariable
from windlass.core.model.submission import Submission
from windlass.core.world.policy import Policy
from windlass.core.world.records import Table, decode, table_prefix
from windlass.testing.builders import a_node
from windlass.testing.cluster import Cluster
from windlass.testing.virtual import VirtualLoop, run_virtual

CHAOS_SECONDS = 300
NAMES = ("x", "y", "z")


class Witness:
    """Every start on every machine, with the tenant and what it found in its variable."""

    def __init__(self, cluster: Cluster) -> None:
        self.starts: list[tuple[TenantId, str, str]] = []
        for agent in cluster.agents.values():
            agent.machine.start = self._noticing(agent.machine.start)  # type: ignore[method-assign]

    def _noticing(self, start: Callable[..., None]) -> Callable[..., None]:
        def started(container: Any, steps: Any, environ: dict[str, str]) -> None:
            (wanted,) = container.assignment.spec.secret_env
            self.starts.append((container.assignment.tenant, wanted.secret, environ.get("TOKEN", "nothing")))
            start(container, steps, environ)

        return started


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_run_is_handed_its_own_tenants_values_whatever_breaks(seed: int) -> None:
    async def main(loop: VirtualLoop) -> None:
        nodes = tuple(a_node(name, cpu=6000, memory=32 << 30) for name in ("n1", "n2"))
        cluster = Cluster(
            loop, seed, nodes=nodes, tenants=TENANTS, policy=Policy(), retention=Retention(),
            machine_options=_machine_options,
        )  # fmt: skip
        with _logs_into(cluster):
            await story(cluster, Witness(cluster))

    run_virtual(main)


async def story(cluster: Cluster, witness: Witness) -> None:
    cluster.start()
    assert await _until(lambda: _has_joined(cluster), seconds_max=60)
    trouble = Trouble(cluster)
    trouble.begin()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(trouble.run)
        for number, tenant in enumerate(TENANTS):
            tasks.start_soon(live, cluster, tenant.id, cluster.chance_of(f"secrets-{number}"))
        await anyio.sleep(CHAOS_SECONDS)
        tasks.cancel_scope.cancel()
    cluster.heal()
    assert await _until(lambda: _is_quiet(cluster), seconds_max=900)
    await ask(cluster, lambda plane: plane.secrets.rotate())
    await once_more(cluster, witness)
    assert cluster.faults == []
    strange = [start for start in witness.starts if not start[2].startswith(f"{start[0]}/{start[1]}/")]
    assert strange == []
    check_boxes(cluster)


async def once_more(cluster: Cluster, witness: Witness) -> None:
    """In calm, what was set last is what is handed over."""
    for tenant in TENANTS:
        value = f"{tenant.id}/x/last".encode()
        await ask(
            cluster, lambda plane, tenant=tenant, value=value: plane.secrets.set(tenant.id, "x", {"value": value})
        )
        submission = Submission(
            spec=replace(a_spec("x", cluster.chance), image="here")
        )  # a registry may be lost for good
        await ask(cluster, lambda plane, tenant=tenant, asked=submission: plane.intake.submit(tenant.id, asked))
    assert await _until(lambda: _is_quiet(cluster), seconds_max=900)
    assert (TENANTS[1].id, "x", f"{TENANTS[1].id}/x/last") in witness.starts


async def live(cluster: Cluster, tenant: TenantId, chance: Random) -> None:
    """Sets, removes, rotates and submits, and is not told of everything that came of it."""
    version = 0
    while True:
        name, what = chance.choice(NAMES), chance.random()
        version += 1
        value = f"{tenant}/{name}/{version}".encode()
        if what < 0.3 or version <= len(NAMES):
            await ask(cluster, lambda plane, name=name, value=value: plane.secrets.set(tenant, name, {"value": value}))
        elif what < 0.35:
            await ask(cluster, lambda plane, name=name: plane.secrets.remove(tenant, name))
        elif what < 0.4:
            await ask(cluster, lambda plane: plane.secrets.rotate())
        else:
            submission = Submission(spec=a_spec(name, chance), retries=chance.choice((0, 2)))
            await ask(cluster, lambda plane, submission=submission: plane.intake.submit(tenant, submission))
        await anyio.sleep(chance.uniform(0, 4))


def a_spec(name: str, chance: Random) -> JobSpec:
    return JobSpec(
        image=chance.choice(("here", "slow", "flaky")),
        command=("do", f"sleep {chance.choice((0, 1, 5))}"),
        needs=Resources(cpu_millis=500, memory_bytes=1 << 30),
        secret_env=(SecretVariable(name="TOKEN", secret=name),),
    )


async def ask(cluster: Cluster, work: Any) -> None:
    try:
        await cluster.network.request(work)
    except WindlassError:
        return  # refused, or nobody knows: both happen to clients


def check_boxes(cluster: Cluster) -> None:
    """After a rotation in calm: only the newest key is left, and everything in the store is sealed with it."""
    newest = cluster.sealer.newest
    assert cluster.sealer.oldest == newest
    for table in (Table.SECRETS, Table.LOGINS, Table.SEALED):
        records = [decode(table, item.value) for item in cluster.truth.items_below(table_prefix(table))]
        assert {getattr(one, "sealed_with", None) or one.key for one in records} <= {newest}
