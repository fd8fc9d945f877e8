"""A network for each tenant: made with its first run, kept while runs come, removed when it has had none for a while.

The engine's own labels are the only record, so a crash at any step leaves what the next look finds: a network is listed before
one is made, its rules are in place before a container of it starts, and what is known here saves asking again. A network that
somebody removed by hand meanwhile is made anew under its name, which is all that a container knows of it.
"""

import base64
import hashlib
import re
from collections.abc import Collection, Mapping
from functools import partial
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Any, Final

import anyio
import anyio.to_thread
import structlog

from windlass.adapters.runtime.docker import rules as filtering
from windlass.adapters.runtime.docker.address import parse_address
from windlass.adapters.runtime.docker.engine import Engine
from windlass.adapters.runtime.docker.labels import TENANT, Owner
from windlass.adapters.runtime.docker.refusals import REFUSED
from windlass.adapters.runtime.docker.rules import Rules
from windlass.adapters.runtime.docker.subnets import Addresses, routes
from windlass.core.errors import Conflict, Invalid, NotFound, OverLimit, Unavailable, WindlassError
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import LOCAL_TENANT, Millis, TenantId
from windlass.ports.clock import Clock
from windlass.ports.failpoints import NONE as NO_FAILPOINTS
from windlass.ports.failpoints import Failpoints

log = structlog.get_logger()

BRIDGE: Final = "com.docker.network.bridge.name"
SHARED: Final = "default"
NONE: Final = "none"
_TRIES: Final = 16
"""Subnets that the engine refuses, for networks that we cannot see, before it is believed that there is none."""
_TAKEN: Final = re.compile(r"overlaps|already used on the host", re.IGNORECASE)
_MISSING: Final = re.compile(r"\bnetwork\b.* not found", re.IGNORECASE)
_ELSEWHERE: Final = "the engine's bridges are not in the network the server is in"
_ENDED: Final = frozenset({"exited", "dead", "stopped"})


class Networks:
    def __init__(
        self,
        engine: Engine,
        owner: Owner,
        clock: Clock,
        addresses: Addresses | None,
        failpoints: Failpoints = NO_FAILPOINTS,
    ) -> None:
        """Without addresses all share the engine's default network."""
        self._engine = engine
        self._owner = owner
        self._clock = clock
        self._addresses = addresses
        self._failpoints = failpoints
        key = _digest(f"{owner.installation}/{owner.node}")
        self._key, self._prefix = key[:12], f"wdl{key[:4]}"
        self._ready: set[TenantId] = set()
        """Made, and with its rules in place, as far as this process knows."""
        self._used_at: dict[TenantId, Millis] = {}
        self._changing = anyio.Lock()
        self._is_held = True
        """There may be rules of ours; those of an earlier process too."""
        self._lack: str | None = None

    async def lack(self) -> str:
        """Why runs are not kept off the node, link-local and each other's networks by rules of ours; empty where they are."""
        if self._lack is None:
            self._lack = await look(self._engine, self._addresses)
        return self._lack

    async def mode(self, assignment: Assignment) -> str:
        """What the create call of a run says of its network, which is there then."""
        if not assignment.spec.wants_network:
            return NONE
        tenant = assignment.tenant
        if self._addresses is None or tenant == LOCAL_TENANT:
            return SHARED  # whoever runs the server has the machine anyway
        self._used_at[tenant] = self._clock.now()
        if tenant not in self._ready:
            await self._ensure(tenant)
        return self.name(tenant)

    async def start(self, container: str) -> None:
        """Docker looks for the network only now: one that is gone is made anew, and the container started on it."""
        path = f"/containers/{container}"
        try:
            await self._engine.call("POST", f"{path}/start")
        except NotFound as exc:
            if not _MISSING.search(exc.message):
                raise
            labels = (await self._engine.call("GET", f"{path}/json"))["Config"].get("Labels") or {}
            tenant = TenantId(labels.get(TENANT, ""))
            if not self.notice(tenant, exc):
                raise
            await self._ensure(tenant)
            await self._engine.call("POST", f"{path}/start")

    def notice(self, tenant: TenantId, refused: WindlassError) -> bool:
        """Whether a container was refused for want of the tenant's network: whoever asks for it again finds one. Podman looks
        for it when a container is made."""
        is_gone = refused.code == REFUSED and _MISSING.search(refused.message) and self.name(tenant) in refused.message
        if is_gone:
            log.warning("network.vanished", tenant=tenant, network=self.name(tenant))
            self._ready.discard(tenant)
        return bool(is_gone)

    async def tidy(self, *, idle_ms: Millis) -> None:
        """Remove those that have had no run for so long; put the rules of the others in place again."""
        async with self._changing:
            ours = await self._ours()
            busy = await self._busy() if ours else {}
            for tenant in tuple(ours):
                since = self._used_at.setdefault(tenant, self._clock.now())
                if tenant not in busy and self._clock.now() - since >= idle_ms:
                    await self._remove(tenant, ours)
            await self._hold(ours, running=[tenant for tenant, is_running in busy.items() if is_running])

    async def remove_all(self) -> None:
        async with self._changing:
            ours = await self._ours()
            for tenant in tuple(ours):
                await self._remove(tenant, ours, is_last=True)
            await self._hold(ours)

    def name(self, tenant: TenantId) -> str:
        return f"windlass-{self._key}-{_digest(tenant)[:16]}"

    def bridge(self, tenant: TenantId) -> str:
        """Fifteen characters are all the kernel has for a name; not `wl…`, which is a wireless card's."""
        return f"{self._prefix}{_digest(tenant)[:8]}"

    async def _ensure(self, tenant: TenantId) -> None:
        async with self._changing:
            if tenant in self._ready:
                return
            ours = await self._ours()
            if tenant not in ours:
                await self._make(tenant, ours)
            await self._hold(ours)
            self._ready.add(tenant)

    async def _make(self, tenant: TenantId, ours: dict[TenantId, str]) -> None:
        assert self._addresses is not None
        taken = await self._taken()
        for _ in range(_TRIES):
            subnet = self._addresses.first_free(taken)
            if subnet is None and await self._give_back(ours):
                taken = await self._taken()
                subnet = self._addresses.first_free(taken)
            if subnet is None:
                break
            try:
                ours[tenant] = await self._create(tenant, subnet)
                log.info("network.made", tenant=tenant, network=self.name(tenant), subnet=str(subnet))
                return await self._failpoints.reach("network.after_make_before_create")
            except (Unavailable, Conflict, Invalid) as exc:
                if exc.code != REFUSED or not _TAKEN.search(exc.message):
                    raise
                taken.append(subnet)
        raise OverLimit(
            f"no subnet is free for the tenant's network: {self._addresses.range} is used up",
            code="networks-used-up",
            hint="give tenants a larger range, or smaller subnets: network_range, network_size",
        )

    async def _create(self, tenant: TenantId, subnet: IPv4Network) -> str:
        name, bridge, labels = self.name(tenant), self.bridge(tenant), self._owner.labels | {TENANT: tenant}
        if await self._engine.is_podman():
            # By its own call: the compatible one loses the isolation, and turns on a name server on the node's address.
            body: dict[str, Any] = {
                "name": name,
                "driver": "bridge",
                "network_interface": bridge,
                "subnets": [{"subnet": str(subnet)}],
                "ipv6_enabled": False,
                "dns_enabled": False,
                "options": {"isolate": "true"},
                "labels": labels,
            }
            return str((await self._engine.call("POST", "/libpod/networks/create", body=body))["id"])
        body = {
            "Name": name,
            "Driver": "bridge",
            "CheckDuplicate": True,
            "EnableIPv6": False,
            "IPAM": {"Config": [{"Subnet": str(subnet)}]},
            "Options": {BRIDGE: bridge},
            "Labels": labels,
        }
        return str((await self._engine.call("POST", "/networks/create", body=body))["Id"])

    async def _hold(self, ours: Collection[TenantId], running: Collection[TenantId] = ()) -> None:
        """The rules, for as long as there is one to have them for."""
        if await self.lack() or not (ours or self._is_held):
            return
        rules = Rules(self._key, self._prefix)
        await anyio.to_thread.run_sync(partial(rules.hold, map(self.bridge, ours)) if ours else rules.drop)
        self._is_held = bool(ours)
        # Docker makes a bridge with its network, Podman with the first container.
        bridges = [self.bridge(tenant) for tenant in (running if await self._engine.is_podman() else ours)]
        if bridges and not any(map(filtering.is_here, bridges)):
            self._lack = _ELSEWHERE
            log.warning("network.rules-elsewhere", lack=self._lack)
            await anyio.to_thread.run_sync(rules.drop)

    async def _remove(self, tenant: TenantId, ours: dict[TenantId, str], *, is_last: bool = False) -> None:
        self._ready.discard(tenant)
        try:
            await self._engine.call("DELETE", f"/networks/{ours[tenant]}")
        except NotFound:
            pass
        except (Unavailable, Conflict) as exc:
            if exc.code != REFUSED or is_last:
                raise
            return  # something of it is still there after all
        del ours[tenant]
        self._used_at.pop(tenant, None)
        log.info("network.removed", tenant=tenant, network=self.name(tenant))

    async def _give_back(self, ours: dict[TenantId, str]) -> bool:
        """The range is used up: those without a run go at once. Not those that were just asked for, whose run is on its way."""
        busy, just_now = await self._busy(), Millis(self._clock.now() - 60_000)
        before = len(ours)
        for tenant in tuple(ours):
            if tenant not in busy and self._used_at.get(tenant, just_now) <= just_now:
                await self._remove(tenant, ours)
        return len(ours) < before

    async def _ours(self) -> dict[TenantId, str]:
        """The engine's id of each tenant's."""
        listed = await self._engine.call("GET", "/networks", params=self._owner.filters(TENANT))
        found = ((network, network.get("Labels") or {}) for network in listed or ())
        return {
            TenantId(labels[TENANT]): str(network["Id"])
            for network, labels in found
            if self._owner.owns(labels) and TENANT in labels
        }

    async def _busy(self) -> dict[TenantId, bool]:
        """Tenants with a run here that is not over, and whether one of these runs."""
        params = self._owner.filters(TENANT) | {"all": "true"}
        listed = await self._engine.call("GET", "/containers/json", params=params)
        found: dict[TenantId, bool] = {}
        for row in listed or ():
            tenant, state = TenantId(row["Labels"][TENANT]), str(row.get("State")).lower()
            if state not in _ENDED:
                found[tenant] = found.get(tenant, False) or state == "running"
        return found

    async def _taken(self) -> list[IPv4Network]:
        assert self._addresses is not None
        listed = await self._engine.call("GET", "/networks")
        subnets = [row.get("Subnet") for one in listed or () for row in (one.get("IPAM") or {}).get("Config") or ()]
        seen = await anyio.to_thread.run_sync(routes) if self._engine.address.is_local else []
        return [*filter(None, map(_network, subnets)), *self._addresses.routed(seen)]


async def networks_lack(docker_host: str, environ: Mapping[str, str], addresses: Addresses | None) -> str:
    """As `Networks.lack`, of an engine that nobody here has open."""
    engine = Engine(parse_address(docker_host, environ))
    try:
        return await look(engine, addresses)
    finally:
        await engine.close()


async def look(engine: Engine, addresses: Addresses | None) -> str:
    """Podman has no bridge before its first container: where that is not here, `Networks.tidy` notices."""
    if addresses is None:
        return "all tenants share the engine's default network, as the settings say"
    facts = await engine.facts()
    lack = await anyio.to_thread.run_sync(filtering.why_not, engine.address, facts)
    if lack or facts.is_podman:
        return lack
    listed = await engine.call("GET", "/networks")
    bridges = [bridge for network in listed or () if (bridge := (network.get("Options") or {}).get(BRIDGE))]
    return _ELSEWHERE if bridges and not any(map(filtering.is_here, bridges)) else ""


def _network(subnet: str | None) -> IPv4Network | None:
    try:
        return IPv4Network(subnet or "", strict=False)
    except (AddressValueError, NetmaskValueError, ValueError):  # none, or of version 6
        return None


def _digest(text: str) -> str:
    """Says whose it is to nobody who does not know already."""
    return base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()
