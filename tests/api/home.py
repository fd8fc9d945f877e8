"""The real application over a whole home in memory, and ways to speak to it."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx2
from fastapi import FastAPI

from windlass.adapters.keys.directory import KeyDirectory
from windlass.api.app import create_app
from windlass.api.auth import Authenticator
from windlass.api.context import ApiLimits
from windlass.api.issuers import Issuer
from windlass.api.rates import Rates
from windlass.core.model.ids import TenantId
from windlass.ports.fetcher import Fetched, Fetcher
from windlass.testing.plane import MemoryHome, NoFetcher, memory_home

IMAGE = "windlass-test/busybox:1"
DEADLINE_SECONDS = 120
_MOVING = ("w/number", "w/outbox/audit-")
"""What a refused request does leave behind: its record in the audit."""


@dataclass(frozen=True, kw_only=True)
class ApiHome:
    app: FastAPI
    home: MemoryHome
    keys: KeyDirectory
    client: httpx2.AsyncClient
    """Speaks as a member of tenant `local`."""

    def token(self, *, tenant: str = "local", roles: tuple[str, ...] = ("member",), lifetime: int = 3600) -> str:
        return self.keys.issue(
            subject="tester",
            tenant=tenant,
            roles=roles,
            token_id=self.home.plane.ids.uuid7(),
            now=time.time(),
            lifetime_seconds=lifetime,
        )

    def bearer(self, **who: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(**who)}"}

    async def submit(self, *command: str, **spec: Any) -> dict[str, Any]:
        answer = await self.client.post("/api/v1/jobs", json=manifest(*command, **spec))
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def until(self, uid: str, *states: str) -> dict[str, Any]:
        """The job, once it is in one of the states (by default: over)."""
        wanted = states or ("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED")
        with anyio.fail_after(DEADLINE_SECONDS):
            async with self.home.plane.read_model.follow(tenant=None) as changes:
                while True:
                    job: dict[str, Any] = (await self.client.get(f"/api/v1/jobs/{uid}")).json()
                    if job["status"]["state"] in wanted:
                        return job
                    await anext(changes)

    async def trace(self) -> tuple[Any, ...]:
        """All that a refused request must leave as it was: jobs, volumes, blobs, containers, the store."""
        plane, machine = self.home.plane, self.home.machine
        assert await plane.read_model.caught_up(timeout=DEADLINE_SECONDS)
        return (
            await plane.read_model.counts(),
            len(await plane.read_model.volumes(None)),
            await plane.blobs.digests(),
            sorted(machine.containers),
            [item for item in (await self.home.store.range("w/")).items if not item.key.startswith(_MOVING)],
        )


class Giving(NoFetcher):
    """Finds a few bytes at every address."""

    url = "http://192.0.2.1/x"

    @asynccontextmanager
    async def get(self, url: str, *, bytes_max: int) -> AsyncIterator[Fetched]:
        yield self

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"some bytes"


def manifest(*command: str, name: str | None = None, kind: str = "Job", **spec: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": "windlass.dev/v1",
        "kind": kind,
        "spec": {"image": IMAGE, "command": list(command or ("true",)), **spec},
    }
    if name is not None:
        document["metadata"] = {"name": name}
    return document


@asynccontextmanager
async def api_home(
    *,
    fetcher: Fetcher | None = None,
    limits: ApiLimits | None = None,
    hosts: tuple[str, ...] = (),
    rates: Rates | None = None,
    has_open_metrics: bool = True,
    issuers: Sequence[Issuer] = (),
    headers: Mapping[str, str] | None = None,
    patience_seconds: float = DEADLINE_SECONDS,
) -> AsyncIterator[ApiHome]:
    with TemporaryDirectory(prefix="windlass-keys-") as directory:
        keys = KeyDirectory(Path(directory))
        tenants = (TenantId("local"), TenantId("other"))
        async with memory_home(tenants=tenants, patience_seconds=patience_seconds) as home:
            app = create_app(
                home.plane,
                Authenticator(keys.public_keys(), issuers=issuers),
                fetcher=fetcher or NoFetcher(),
                signer=keys,
                rates=rates,
                has_open_metrics=has_open_metrics,
                version="0.0.test",
                limits=limits,
                hosts=hosts,
            )
            transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                made = ApiHome(app=app, home=home, keys=keys, client=client)
                client.headers.update(made.bearer() | dict(headers or {}))
                yield made
