"""Registry logins with a real engine and a real registry that wants one: two tenants, one node, one image.

The whole of `windlass up` in this process, because a second tenant is needed; the API is called as over the wire.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from fastapi import FastAPI

from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.registry import READERS, Registry
from tests.parts.waiting import wait_until
from windlass.adapters.keys.directory import KeyDirectory
from windlass.boot.application import make_application
from windlass.boot.installation import Installation
from windlass.boot.local import open_local
from windlass.boot.settings import Settings
from windlass.core.model.ids import TenantId
from windlass.core.model.tenant import Tenant

pytestmark = pytest.mark.anyio

DEADLINE = 240
_HELLO = b"\x16\x03"
"""Of TLS, which an engine tries first."""
A, B = TenantId("a"), TenantId("b")


class Home:
    def __init__(self, app: FastAPI, keys: KeyDirectory, client: httpx2.AsyncClient, now: float) -> None:
        self._app, self._keys, self._client, self._now = app, keys, client, now

    async def call(self, tenant: TenantId, method: str, path: str, body: Any = None) -> Any:
        token = self._keys.issue(
            subject="tester", tenant=tenant, roles=("member",), token_id="t", now=self._now, lifetime_seconds=3600
        )
        headers = {"Authorization": f"Bearer {token}"}

        async def served() -> httpx2.Response | None:
            answer = await self._client.request(method, f"/api/v1/{path}", json=body, headers=headers)
            return answer if answer.status_code != 503 else None  # busy; it did nothing

        answer = await wait_until(served, DEADLINE, "a server that is not too busy")
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def log_in(self, tenant: TenantId, registry: str, user: str, password: str) -> None:
        await self.call(tenant, "PUT", f"registries/{registry}", {"username": user, "password": password})

    async def run(self, tenant: TenantId, image: str) -> dict[str, Any]:
        """The status of a job with that image, at its end."""
        spec = {"image": image, "command": ["true"], "retries": 0}
        made = await self.call(tenant, "POST", "jobs", {"apiVersion": "windlass.dev/v1", "kind": "Job", "spec": spec})
        uid = made["metadata"]["uid"]

        async def over() -> dict[str, Any]:
            status: dict[str, Any] = (await self.call(tenant, "GET", f"jobs/{uid}"))["status"]
            return status if status["finishedAt"] else {}

        return await wait_until(over, DEADLINE, f"the end of {image} for {tenant}")


@asynccontextmanager
async def home_at(directory: Path, engine: DockerEngine) -> AsyncIterator[Home]:
    settings, installation = Settings(data_dir=directory, docker_host=engine.host), Installation(directory)
    async with open_local(settings, installation, {}) as local, anyio.create_task_group() as tasks:
        tasks.start_soon(local.run)
        app, _ = await make_application(local, settings, installation)
        clock, brain = local.plane.clock, local.plane.brain
        for tenant in (A, B):
            await brain.decide(lambda now, tenant=tenant: brain.world.set_tenant(Tenant(id=tenant), now=now))  # type: ignore[misc]
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield Home(app, KeyDirectory(installation.keys), client, clock.wall(clock.now()))
        tasks.cancel_scope.cancel()


@pytest.fixture
async def home(tmp_path: Path, docker_engine: DockerEngine) -> AsyncIterator[Home]:
    async with home_at(tmp_path / "data", docker_engine) as made:
        yield made


@pytest.fixture(scope="module")
def guarded() -> Iterator[Registry]:
    with Registry(wants_login=True) as registry:
        yield registry


@pytest.fixture
def image(guarded: Registry, docker_engine: DockerEngine) -> Iterator[str]:
    """In the registry, and not on the node."""
    name = f"{guarded.address}/team/private:1"
    docker_engine.tag(IMAGE, name)
    docker_engine.push(name, user="alice", password=READERS["alice"][0])
    docker_engine.remove_image(name)
    yield name
    if name in docker_engine.images():
        docker_engine.remove_image(name)


async def test_an_image_one_tenant_pulled_needs_the_others_own_login(
    home: Home, image: str, guarded: Registry, docker_engine: DockerEngine
) -> None:
    refused = await home.run(A, image)
    assert (refused["state"], refused["reason"]) == ("FAILED", "ImagePull")
    assert "windlass registries login" in refused["message"]
    await home.log_in(A, guarded.address, "alice", READERS["alice"][0])
    assert (await home.run(A, image))["state"] == "SUCCEEDED"
    assert image in docker_engine.images(), "the node has it now"
    for case, user, password in (("no login", "", ""), ("a wrong one", "alice", "guess")):
        if user:
            await home.log_in(B, guarded.address, user, password)
        refused = await home.run(B, image)
        assert (refused["state"], refused["reason"]) == ("FAILED", "ImagePull"), case
        assert "windlass registries login" in refused["message"], case
    await home.log_in(B, guarded.address, "hatter", READERS["hatter"][0])
    assert (await home.run(B, image))["state"] == "SUCCEEDED"
    assert (await home.run(A, image))["state"] == "SUCCEEDED", "the first one's right is as it was"


async def test_the_guard_stands_after_the_login_is_gone_and_the_server_began_anew(
    tmp_path: Path, image: str, guarded: Registry, docker_engine: DockerEngine
) -> None:
    data = tmp_path / "data"
    async with home_at(data, docker_engine) as home:
        await home.log_in(A, guarded.address, "alice", READERS["alice"][0])
        assert (await home.run(A, image))["state"] == "SUCCEEDED"
        await home.call(A, "DELETE", f"registries/{guarded.address}")
    async with home_at(data, docker_engine) as home:
        assert (await home.call(A, "GET", "registries"))["items"] == []
        assert (await home.run(B, image))["reason"] == "ImagePull"
        assert (await home.run(A, image))["reason"] == "ImagePull", "nor has the first one any right left"


async def test_a_login_goes_to_its_own_registry_and_to_no_other(
    home: Home, image: str, guarded: Registry, docker_engine: DockerEngine
) -> None:
    """A registry of the same host and another port hears nothing of it; and an open one is open to those without a login."""
    await home.log_in(A, guarded.address, "alice", READERS["alice"][0])
    async with listening() as (address, heard):
        assert (await home.run(A, f"{address}/team/private:1"))["reason"] == "ImagePull"
    assert [request for request in heard if request.startswith((b"GET /v2/", b"HEAD /v2/"))], "the engine asked there"
    assert not [request for request in heard if b"authorization" in request.lower()]
    with Registry() as unguarded:
        name = f"{unguarded.address}/team/public:1"
        docker_engine.tag(IMAGE, name)
        docker_engine.push(name)
        await home.log_in(A, unguarded.address, "anybody", "anything")
        assert (await home.run(B, name))["state"] == "SUCCEEDED", "the registry lets everybody read it"
        docker_engine.remove_image(name)


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A registry that knows nothing and writes down what it is asked."""
    heard: list[bytes] = []
    body = json.dumps({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}).encode()
    head = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: "

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            request = b""
            while b"\r\n\r\n" not in request and not request.startswith(_HELLO):
                try:
                    request += await stream.receive()
                except anyio.EndOfStream:
                    return
            heard.append(request)
            if request.startswith(_HELLO):
                return
            await stream.send(head + str(len(body)).encode() + b"\r\n\r\n" + body)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        yield f"127.0.0.1:{port}", heard
        tasks.cancel_scope.cancel()
