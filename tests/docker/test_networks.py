"""Networks of tenants on real engines: one each, as many as there are tenants, made once, made anew, given back."""

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from tests.contracts.runtime_suite import RealClock
from tests.docker.test_engine import an_assignment
from tests.parts.dockerd import DockerEngine
from tests.parts.engine_api import EngineApi
from tests.parts.podman import PodmanService
from windlass.adapters.runtime.docker import Addresses, DockerRuntime
from windlass.core.errors import OverLimit, Unavailable
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import Millis, TenantId
from windlass.ports.runtime import Phase

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

ADDRESSES = Addresses("10.99.0.0/16", 24)
"""Not the default: engines of other tests, in the machine's own network, have subnets of that."""
INSTALLATION = f"networks-{secrets.token_hex(4)}"


class AheadClock(RealClock):
    """Time as it passes, and more of it when a test says so."""

    ahead = 0

    def now(self) -> Millis:
        return Millis(super().now() + self.ahead)


CLOCK = AheadClock()


@pytest.fixture(scope="module", params=["docker", "podman"])
def engine(request: pytest.FixtureRequest) -> Iterator[EngineApi]:
    """Apart from the machine's network: what is made here meets nobody."""
    with DockerEngine(own_network=True) if request.param == "docker" else PodmanService() as own:
        own.import_busybox()
        yield own


@pytest.fixture
async def runtime(engine: EngineApi) -> AsyncIterator[DockerRuntime]:
    async with opened(engine) as runtime:
        try:
            yield runtime
        finally:
            await runtime.remove_all()
            assert networks(engine) == {}


def opened(engine: EngineApi, addresses: Addresses | None = ADDRESSES) -> AbstractAsyncContextManager[DockerRuntime]:
    return DockerRuntime.open(engine.host, installation=INSTALLATION, node="n1", clock=CLOCK, addresses=addresses)


def of(tenant: str, name: str = "", script: str = "true") -> Assignment:
    return replace(an_assignment(name or f"of-{tenant}", script), tenant=TenantId(tenant))


def networks(engine: EngineApi) -> dict[str, dict[str, Any]]:
    """By tenant."""
    ours = (one for one in engine.ask("/networks") if "windlass.dev/installation" in (one.get("Labels") or {}))
    return {one["Labels"]["windlass.dev/tenant"]: one for one in ours}


@pytest.mark.parametrize("engine", ["docker", pytest.param("podman", marks=pytest.mark.soak)], indirect=True)
async def test_forty_tenants_have_forty_networks_on_one_engine(runtime: DockerRuntime, engine: EngineApi) -> None:
    """Docker's own ranges would end at the thirty-first. Podman has no such end, and takes seconds for each."""
    await check_networks_of_their_own(runtime, engine, tenants=40)


@pytest.mark.parametrize("engine", ["podman"], indirect=True)
async def test_ten_tenants_have_ten_networks_on_one_engine(runtime: DockerRuntime, engine: EngineApi) -> None:
    await check_networks_of_their_own(runtime, engine, tenants=10)


async def check_networks_of_their_own(runtime: DockerRuntime, engine: EngineApi, *, tenants: int) -> None:
    for number in range(tenants):
        await runtime.create(of(f"tenant-{number}"))
    found = networks(engine)
    subnets = {one["IPAM"]["Config"][0]["Subnet"] for one in found.values()}
    assert (len(found), len(subnets)) == (tenants, tenants)
    assert all(one["Labels"]["windlass.dev/node"] == "n1" for one in found.values())
    assert not any("tenant" in one["Name"] for one in found.values())


async def test_runs_that_start_at_once_make_one_network(runtime: DockerRuntime, engine: EngineApi) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(runtime.create, of("acme", f"run-{number}"))
    everything = [one["Name"] for one in engine.ask("/networks") if one["Name"].startswith("windlass-")]
    assert len(everything) == len(networks(engine)) == 1


async def test_a_successor_uses_the_network_it_finds(runtime: DockerRuntime, engine: EngineApi) -> None:
    await runtime.create(of("acme", "first"))
    before = networks(engine)["acme"]["Id"]
    async with opened(engine) as successor:
        await successor.create(of("acme", "second"))
    assert [one["Id"] for one in networks(engine).values()] == [before]


async def test_a_network_that_somebody_removed_is_made_anew(runtime: DockerRuntime, engine: EngineApi) -> None:
    """By `docker network prune`, say, which takes those that nothing runs in."""
    await runtime.create(of("acme", "first"))
    await runtime.remove(of("acme", "first").run)
    engine.call("DELETE", f"/networks/{networks(engine)['acme']['Name']}")
    second = of("acme", "second")
    try:
        await runtime.create(second)
    except Unavailable:  # Podman looks for it now, and an agent asks again
        await runtime.create(second)
    await runtime.start(second.run)  # Docker looks for it now
    assert (await runtime.wait(second.run)).exit_code == 0
    assert list(networks(engine)) == ["acme"]


async def test_a_network_goes_when_it_was_idle_for_long_and_no_sooner(
    runtime: DockerRuntime, engine: EngineApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, idle = of("busy", script="sleep 600"), of("idle")
    for one in (busy, idle):
        await runtime.create(one)
        await runtime.start(one.run)
    await runtime.wait(idle.run)
    await runtime.remove(idle.run)
    await runtime.tidy()
    assert sorted(networks(engine)) == ["busy", "idle"]
    monkeypatch.setattr(CLOCK, "ahead", 3_600_000)
    await runtime.tidy()
    assert sorted(networks(engine)) == ["busy"]
    assert (await runtime.observe(busy.run)).phase is Phase.RUNNING


async def test_a_range_that_is_used_up_is_said_so_and_idle_networks_make_room(
    engine: EngineApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(engine, Addresses("10.99.0.0/23", 24)) as runtime:
        try:
            for tenant in ("one", "two"):
                await runtime.create(of(tenant))
            with pytest.raises(OverLimit) as refused:
                await runtime.create(of("three"))
            assert refused.value.code == "networks-used-up"
            assert "10.99.0.0/23" in refused.value.message
            await runtime.remove(of("one").run)
            monkeypatch.setattr(CLOCK, "ahead", 120_000)
            await runtime.create(of("three"))
            assert sorted(networks(engine)) == ["three", "two"]
        finally:
            await runtime.remove_all()


async def test_a_subnet_of_a_stranger_is_passed_over(engine: EngineApi) -> None:
    stranger = {"Name": "stranger", "IPAM": {"Config": [{"Subnet": "10.99.0.0/24"}]}}
    engine.call("POST", "/networks/create", body=stranger)
    async with opened(engine) as runtime:
        try:
            await runtime.create(of("acme"))
            assert networks(engine)["acme"]["IPAM"]["Config"][0]["Subnet"] == "10.99.1.0/24"
        finally:
            await runtime.remove_all()
            assert "stranger" in str(engine.ask("/networks"))
            engine.call("DELETE", "/networks/stranger")


async def test_whoever_wants_no_network_makes_none(runtime: DockerRuntime, engine: EngineApi) -> None:
    await runtime.create(an_assignment("alone", "true", wants_network=False))
    assert networks(engine) == {}


async def test_without_a_range_all_share_the_engines_own(engine: EngineApi) -> None:
    async with opened(engine, None) as runtime:
        try:
            await runtime.create(of("acme"))
            assert networks(engine) == {}
            assert "as the settings say" in (await runtime.machine()).networks_lack
        finally:
            await runtime.remove_all()


async def test_in_the_steady_state_a_run_asks_the_engine_nothing_more(
    runtime: DockerRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await runtime.create(of("acme", "first"))
    asked: list[str] = []
    call = runtime._engine.call

    async def noted(method: str, path: str, **options: Any) -> Any:
        asked.append(path)
        return await call(method, path, **options)

    monkeypatch.setattr(runtime._engine, "call", noted)
    await runtime.create(of("acme", "second"))
    assert not [path for path in asked if "networks" in path]
