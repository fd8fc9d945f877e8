"""The one safe fetcher, on aiohttp: resolves by itself, checks every address, connects to the very one it checked.

A name is resolved once for each hop, and the connection is made from that answer, so a name that changes its mind between check
and use (DNS rebinding) gains nothing. If any address of a name is out of bounds the name is: a mixed answer has no innocent
reason. Proxies of the environment are not used, cookies not kept, bodies not decompressed.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_network
from typing import Any, Final
from urllib.parse import urljoin

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct
from yarl import URL

from windlass.adapters.fetcher.addresses import Network, is_reachable
from windlass.core.errors import Invalid, TooLarge
from windlass.ports.fetcher import Fetched, FetchFailed
from windlass.wire.urls import port_of, split_url

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""A host name to its addresses, as texts. OSError when there are none."""

REDIRECTS_MAX: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CHUNK: Final = 1 << 18
_ADDRESSES_MAX: Final = 32
_AGENT: Final = "windlass"
_LOCALHOST: Final = (ip_address("127.0.0.1"), ip_address("::1"))
"""Names that mean this machine wherever they are asked for (RFC 6761)."""


class Patience(Struct, frozen=True, kw_only=True):
    """Seconds. An address that is slow in a way that never ends must not hold a connection for ever."""

    resolve: float = 10
    connect: float = 10
    idle: float = 30
    total: float = 3600
    post: float = 15


class HttpFetcher:
    """`allowed_networks` are reachable besides the globally routable ones: the administrator's word, for a mirror in the house."""

    def __init__(
        self,
        *,
        allowed_networks: Sequence[str] = (),
        resolve: Resolve | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._allowed: tuple[Network, ...] = tuple(ip_network(network) for network in allowed_networks)
        self._resolve = resolve or _system_resolve
        self._patience = patience or Patience()

    def may_reach(self, url: str) -> bool:
        try:
            host = split_url(url).hostname or ""
            addresses = _LOCALHOST if _is_localhost(host) else (ip_address(host),)
        except ValueError:
            return True
        return any(is_reachable(address, allowed=self._allowed) for address in addresses)

    @asynccontextmanager
    async def get(self, url: str, *, bytes_max: int) -> AsyncIterator[Fetched]:
        patience = self._patience
        timeout = aiohttp.ClientTimeout(total=patience.total, sock_connect=patience.connect, sock_read=patience.idle)
        for _ in range(REDIRECTS_MAX + 1):
            async with self._request("GET", url, timeout) as response:
                if response.status not in _REDIRECTS:
                    _check_status(response)
                    yield _Body(url, response, bytes_max)
                    return
                url = _next(url, response)
        raise FetchFailed(f"the address redirects more than {REDIRECTS_MAX} times", code="redirects")

    async def post(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> int:
        timeout = aiohttp.ClientTimeout(total=self._patience.post, sock_connect=self._patience.connect)
        async with self._request("POST", url, timeout, data=body, headers=headers) as response:
            return response.status

    @asynccontextmanager
    async def _request(
        self, method: str, url: str, timeout: aiohttp.ClientTimeout, *, data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:  # fmt: skip
        """One hop, on a connection of its own that can only go to addresses checked for it."""
        addresses = await self._checked(url)
        connector = aiohttp.TCPConnector(resolver=_Pinned(addresses), use_dns_cache=False, force_close=True, limit=1)
        own = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            trust_env=False,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=own | dict(headers or {}),
        ) as session:
            with _failures():
                response = await session.request(method, URL(url, encoded=True), data=data, allow_redirects=False)
            try:
                self._check_peer(response)
                yield response
            finally:
                response.close()

    async def _checked(self, url: str) -> tuple[str, ...]:
        """The addresses the URL leads to, all of them in bounds. Invalid with code `url` or `address`."""
        try:
            parts = split_url(url)
        except ValueError as exc:
            raise Invalid(f"the address cannot be fetched: {exc}", code="url") from None
        host = parts.hostname or ""
        try:
            found: Sequence[str] = [str(ip_address(host))]
        except ValueError:
            found = await self._look_up(host, port_of(parts))
        if not all(is_reachable(ip_address(address), allowed=self._allowed) for address in found):
            raise Invalid(
                "the address leads to a private or special network, and `fetch_networks` does not allow it",
                code="address",
                hint="the administrator may allow a network of this house by name",
            )
        return tuple(found)

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        try:
            async with asyncio.timeout(self._patience.resolve):
                found = await self._resolve(host, port)
        except (OSError, UnicodeError, TimeoutError):
            raise FetchFailed("the host name leads nowhere", code="host-unknown") from None
        if not found:
            raise FetchFailed("the host name leads nowhere", code="host-unknown")
        return found[:_ADDRESSES_MAX]

    def _check_peer(self, response: aiohttp.ClientResponse) -> None:
        """Belt and braces: whom we are really talking to."""
        transport = response.connection.transport if response.connection else None
        peer = transport.get_extra_info("peername") if transport else None
        if peer is not None and not is_reachable(ip_address(peer[0]), allowed=self._allowed):
            raise Invalid("the connection leads to a private or special network", code="address")


class _Body:
    def __init__(self, url: str, response: aiohttp.ClientResponse, bytes_max: int) -> None:
        self.url = url
        self._response = response
        self._bytes_max = bytes_max
        if (response.content_length or 0) > bytes_max:
            raise self._too_large()

    async def chunks(self) -> AsyncIterator[bytes]:
        size = 0
        with _failures():
            async for chunk in self._response.content.iter_chunked(_CHUNK):
                size += len(chunk)
                if size > self._bytes_max:
                    raise self._too_large()
                yield chunk
        expected = self._response.content_length
        if expected is not None and size != expected:
            raise FetchFailed("the answer was cut short", code="fetch-short")

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the file has more than {self._bytes_max} bytes", code="fetch-too-large")


class _Pinned(AbstractResolver):
    """Answers with what was checked, whoever asks and for whatever name."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        return None


class _failures:  # noqa: N801 — reads as a context at its use
    """What goes wrong on the way, in our words; the library's may name addresses inside."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: Any) -> None:
        if isinstance(exc, TimeoutError):
            raise FetchFailed("the address was too slow", code="fetch-slow") from None
        if isinstance(exc, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
            raise FetchFailed("the address has no certificate that holds", code="fetch-tls") from None
        if isinstance(exc, aiohttp.ClientError | OSError | ValueError):
            raise FetchFailed("the address did not answer as it should", code="fetch-failed") from None


def _is_localhost(host: str) -> bool:
    name = host.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")


def _check_status(response: aiohttp.ClientResponse) -> None:
    if response.status != 200:
        raise FetchFailed(f"the address answered {response.status}", code="fetch-status")


def _next(url: str, response: aiohttp.ClientResponse) -> str:
    """Where a redirect leads: checked anew on the next hop, and never from https down to http."""
    location = response.headers.get("Location", "")
    try:
        target = urljoin(url, location)
    except ValueError:
        target = ""
    if not location or not target:
        raise FetchFailed("the address redirects to nowhere", code="redirects")
    if url.startswith("https:") and not target.startswith("https:"):
        raise Invalid("the address redirects from https to something less", code="url")
    return target


async def _system_resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))
