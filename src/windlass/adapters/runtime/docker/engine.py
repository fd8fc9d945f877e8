"""The engine's HTTP API: one shared session, the version both sides speak, refusals translated at the door.

Everything above it names paths and reads JSON. Plain aiohttp rather than a client library, because most of what is needed
here (split log frames, archives with their content type, half-closed hijacked streams) such libraries leave out.
"""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import anyio
import msgspec
from msgspec import Struct

from windlass.adapters.runtime.docker.address import Address
from windlass.adapters.runtime.docker.hijack import Hijacked, hijack
from windlass.adapters.runtime.docker.refusals import refusal
from windlass.core.errors import Unavailable
from windlass.ports.runtime import ENGINE_UNAVAILABLE

NEWEST_API: Final = (1, 51)
"""The newest version whose answers we know. An older engine is spoken to in its own; never older than it still accepts."""
CALL_SECONDS: Final = 60.0
CONNECT_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 600.0
"""Of a pull or an archive. A large layer is unpacked without a word for minutes."""

JSON: Final = "application/json"


class Facts(Struct, frozen=True, kw_only=True):
    """What the engine says of itself and its machine; asked once."""

    is_podman: bool
    version: str
    cpus: int
    memory_bytes: int
    log_drivers: frozenset[str] = frozenset()
    has_init: bool = True
    runtimes: frozenset[str] = frozenset()
    devices: tuple[str, ...] = ()
    """Names of CDI devices the engine discovered."""
    is_rootless: bool = False
    user_offset: int = 0
    """What the engine adds to a container's user ids to get the machine's (userns-remap)."""
    cgroup_driver: str = ""
    """`cgroupfs` or `systemd`: how it names the groups of its containers."""
    kernel: str = ""
    """That its containers run on."""

    @property
    def name(self) -> str:
        return f"{'podman' if self.is_podman else 'docker'} {self.version}"


class Engine:
    """A session with one engine. Opened lazily: an engine that is down now may be up at the next call."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._tls = address.tls()
        connector: aiohttp.BaseConnector
        # Followed logs and waits each hold a connection for as long as a run lives: no limit, or the 101st call hangs.
        if address.socket:
            connector = aiohttp.UnixConnector(address.socket, limit=0)
        else:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._tls or True)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            # Archives are passed on as they come; an engine that is offered gzip compresses them.
            headers={"Accept-Encoding": "identity"},
            auto_decompress=False,
        )
        self._version: _Version | None = None
        self._facts: Facts | None = None

    async def close(self) -> None:
        await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = CALL_SECONDS,
    ) -> Any:
        """One request, its JSON answer (None when empty). Raises by what was refused: see `refusals`; Unavailable."""
        data = None if body is None else msgspec.json.encode(body)
        async with self.stream(
            method, path, params=params, data=data, content_type=JSON, headers=headers, seconds=seconds
        ) as answer:
            raw = await answer.read()
        return msgspec.json.decode(raw) if raw else None

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        data: bytes | AsyncIterator[bytes] | None = None,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
        idle_seconds: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer whose body the caller reads, within `seconds` and with no silence longer than `idle_seconds`. A followed
        log and a wait have neither: they last as long as their run."""
        version = self._version or await self._negotiate()
        sent = {**(headers or {}), **({"Content-Type": content_type} if data is not None else {})}
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds)
        try:
            async with self._session.request(
                method,
                f"{self.address.base}{version.before(path)}{path}",
                params=params,
                data=data,
                headers=sent,
                timeout=timeout,
            ) as answer:
                if answer.status >= 400:
                    raise refusal(answer.status, await answer.read())
                yield answer
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as exc:
            self._version = None  # what answers next may be another version
            raise self._unavailable(exc) from exc

    @asynccontextmanager
    async def hijack(self, path: str, *, params: Mapping[str, str], body: object = None) -> AsyncIterator[Hijacked]:
        """As `open_stream`, closed at the end of the block."""
        stream = await self.open_stream(path, params=params, body=body)
        try:
            yield stream
        finally:
            await stream.aclose()

    async def open_stream(self, path: str, *, params: Mapping[str, str], body: object = None) -> Hijacked:
        """A POST whose connection becomes a duplex byte stream; the caller's to close."""
        version = self._version or await self._negotiate()
        try:
            with anyio.fail_after(CALL_SECONDS):
                return await hijack(self.address, self._tls, f"{version.before(path)}{path}", params=params, body=body)
        except (OSError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError) as exc:
            raise self._unavailable(exc) from exc

    async def attach(self, container: str, *streams: str) -> Hijacked:
        """To these streams of a container, from now on; the caller's to close."""
        params = {"stream": "true"} | dict.fromkeys(streams, "true")
        return await self.open_stream(f"/containers/{container}/attach", params=params)

    async def ping(self) -> None:
        """Unavailable unless a container engine answers."""
        await self._negotiate()

    async def facts(self) -> Facts:
        if self._facts is None:
            info = await self.call("GET", "/info")
            assert self._version is not None
            self._facts = read_facts(info, self._version)
        return self._facts

    async def forget_init(self) -> Facts:
        """The engine turned out to have no init program."""
        self._facts = msgspec.structs.replace(await self.facts(), has_init=False)
        return self._facts

    async def is_podman(self) -> bool:
        return (self._version or await self._negotiate()).is_podman

    async def _negotiate(self) -> "_Version":
        timeout = aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS)
        try:
            async with self._session.get(f"{self.address.base}/version", timeout=timeout) as answer:
                raw = await answer.read()
                if answer.status >= 400:
                    raise refusal(answer.status, raw)
        except (aiohttp.ClientError, OSError, TimeoutError) as exc:
            raise self._unavailable(exc) from exc
        try:
            self._version = negotiate(msgspec.json.decode(raw))
        except (msgspec.DecodeError, AttributeError, ValueError) as exc:
            raise Unavailable(
                f"what answers at {self.address.text} is no container engine", code=ENGINE_UNAVAILABLE
            ) from exc
        return self._version

    def _unavailable(self, exc: Exception) -> Unavailable:
        why = str(exc) or type(exc).__name__
        return Unavailable(
            f"the container engine at {self.address.text} does not answer: {why}", code=ENGINE_UNAVAILABLE
        )


class _Version(Struct, frozen=True, kw_only=True):
    prefix: str
    is_podman: bool
    engine: str

    def before(self, path: str) -> str:
        """Podman's own calls, beside the compatible ones, have its own version before them."""
        return f"/v{self.engine}" if path.startswith("/libpod/") else self.prefix


def negotiate(version: Mapping[str, Any]) -> _Version:
    """The API version to speak, from the engine's `/version`: the newest both know, at least the oldest it takes."""
    theirs = _numbers(str(version.get("ApiVersion") or "1.41"))
    least = _numbers(str(version.get("MinAPIVersion") or "1.24"))
    spoken = max(min(theirs, NEWEST_API), least)
    components = [str(part.get("Name", "")) for part in version.get("Components") or ()]
    return _Version(
        prefix=f"/v{spoken[0]}.{spoken[1]}",
        is_podman=any("podman" in name.lower() for name in components),
        engine=str(version.get("Version") or "?"),
    )


def read_facts(info: Mapping[str, Any], version: _Version) -> Facts:
    plugins = info.get("Plugins") or {}
    # A Docker Engine that could not run its init program says so by this word; Podman finds out at the first create.
    init = str((info.get("InitCommit") or {}).get("ID", ""))
    discovered = info.get("DiscoveredDevices") or ()
    security = " ".join(map(str, info.get("SecurityOptions") or ()))
    return Facts(
        is_podman=version.is_podman,
        version=version.engine,
        cpus=int(info.get("NCPU") or 0),
        memory_bytes=int(info.get("MemTotal") or 0),
        log_drivers=frozenset(plugins.get("Log") or ()),
        has_init=init != "N/A",
        runtimes=frozenset(info.get("Runtimes") or ()),
        devices=tuple(str(device.get("ID", "")) for device in discovered if device.get("Source") == "cdi"),
        is_rootless="name=rootless" in security,
        user_offset=_offset(str(info.get("DockerRootDir") or "")) if "name=userns" in security else 0,
        cgroup_driver=str(info.get("CgroupDriver") or ""),
        kernel=str(info.get("KernelVersion") or ""),
    )


def _offset(directory: str) -> int:
    """An engine that remaps users keeps its data apart for each mapping: the directory is called `100000.100000`."""
    found = re.fullmatch(r".*/(\d+)\.\d+/?", directory, re.ASCII)
    return int(found[1]) if found else 0


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor.partition(".")[0] or 0)
