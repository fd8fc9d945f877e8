"""Addresses that mean harm: private networks, metadata, odd spellings, redirects, names that change their mind."""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import ClassVar

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile.canary import ALLOWED, FORBIDDEN, canary
from windlass.adapters.fetcher.addresses import is_reachable
from windlass.adapters.fetcher.http import HttpFetcher, Patience, _next
from windlass.core.errors import Invalid, TooLarge
from windlass.ports.fetcher import FetchFailed

PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
    "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.8", "192.0.0.170",
    "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
    "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::7f00:1", "::169.254.169.254",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::169.254.169.254", "64:ff9b::8.8.8.8", "64:ff9b:1::10.0.0.1", "100::1", "2001::1", "2001:2::1",
    "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:808:808::1", "3fff::1",
    "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::5efe:7f00:1", "2606:4700::5efe:7f00:1",
    "2606:4700::200:5efe:169.254.169.254", "fec0::1", "ff02::1", "4000::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.32.0.1", "192.0.1.1", "223.255.255.255",
          "2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "2001:200::1", "2400::1"]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_or_special_address_is_out_of_reach(address: str) -> None:
    assert not is_reachable(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_in_reach(address: str) -> None:
    assert is_reachable(ip_address(address))


def test_the_administrator_may_allow_a_network_and_nothing_beside_it() -> None:
    allowed = (ip_network("10.1.0.0/16"), ip_network("fd00::/8"))
    assert is_reachable(ip_address("10.1.2.3"), allowed=allowed)
    assert is_reachable(ip_address("::ffff:10.1.2.3"), allowed=allowed)
    assert is_reachable(ip_address("fd00::1"), allowed=allowed)
    assert not is_reachable(ip_address("10.2.0.1"), allowed=allowed)
    assert not is_reachable(ip_address("::ffff:10.2.0.1"), allowed=allowed)


@given(st.integers(0, 2**32 - 1))
def test_an_address_that_python_calls_private_is_never_reached(number: int) -> None:
    address = ip_address(number)
    if (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
    ):
        assert not is_reachable(address)


def a_fetcher(names: dict[str, Sequence[str]] | None = None, **patience: float) -> tuple[HttpFetcher, list[str]]:
    """Reaches the allowed loopback address only; `names` are what the world's DNS would say, one answer per question."""
    asked: list[str] = []
    left = {name: list(answers) for name, answers in (names or {}).items()}

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        if host not in left:
            raise OSError("no such name")
        answer = left[host].pop(0) if len(left[host]) > 1 else left[host][0]
        return answer.split(",")

    return HttpFetcher(allowed_networks=[f"{ALLOWED}/32"], resolve=resolve, patience=Patience(**patience)), asked


async def fetch(fetcher: HttpFetcher, url: str, *, bytes_max: int = 1 << 20) -> bytes:
    async with fetcher.get(url, bytes_max=bytes_max) as body:
        return b"".join([chunk async for chunk in body.chunks()])


async def hello(request: web.Request) -> web.StreamResponse:
    return web.Response(text="hello")


def redirecting(*targets: str, status: int = 302) -> object:
    """Each request is sent on to the next target; the last one is answered."""

    async def answer(request: web.Request) -> web.StreamResponse:
        step = int(request.query.get("step", "0"))
        if step < len(targets):
            return web.Response(
                status=status, headers={"Location": targets[step].replace("PORT", str(request.url.port))}
            )
        return web.Response(text="arrived")

    return answer


LITERALS = [
    "http://127.0.0.1:PORT/", "http://localhost:PORT/", "http://[::1]:PORT/", "http://[::ffff:127.0.0.1]:PORT/", "http://127.1:PORT/",
    "http://2130706433:PORT/", "http://0x7f000001:PORT/", "http://0177.0.0.1:PORT/", "http://0:PORT/", "http://0.0.0.0:PORT/",
    "http://127.0.0.1.:PORT/", "http://127.0.0.1%2f@example.com:PORT/", "http://example.com@127.0.0.1:PORT/",
    "http://127.0.0.1#@example.com:PORT/", "http://[::127.0.0.1]:PORT/", "http://[64:ff9b::7f00:1]:PORT/", "http://①②⑦.⓪.⓪.①:PORT/",
    "http://127。0。0。1:PORT/", "http://[0:0:0:0:0:ffff:7f00:1]:PORT/", "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/latest/meta-data/", "http://metadata.google.internal/", "file:///etc/passwd", "ftp://127.0.0.1:PORT/",
    "http://127.0.0.1:PORT\\@example.com/", "http://127.0.0.1:PORT\r\nHost: x/", "unix:///var/run/docker.sock", "http:///", "",
]  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("url", LITERALS)
async def test_no_spelling_leads_inside(url: str) -> None:
    names = {"localhost": ["127.0.0.1"], "metadata.google.internal": ["169.254.169.254"], "example.com": [ALLOWED]}
    async with canary(hello) as bird:
        fetcher, _ = a_fetcher(names)
        with pytest.raises(Invalid):
            await fetch(fetcher, url.replace("PORT", str(bird.port)))
        with pytest.raises(Invalid):
            await fetcher.post(url.replace("PORT", str(bird.port)), b"x", headers={})
        assert bird.hits == []


@pytest.mark.anyio
async def test_an_allowed_address_is_fetched_by_name_and_by_number() -> None:
    async with canary(hello) as bird:
        fetcher, _ = a_fetcher({"files.example": [ALLOWED]})
        assert await fetch(fetcher, f"http://files.example:{bird.port}/a%20b?c=d%2Fe") == b"hello"
        assert await fetch(fetcher, f"http://{ALLOWED}:{bird.port}/") == b"hello"
        assert bird.asked[0].raw_path == "/a%20b?c=d%2Fe"
        assert bird.asked[0].headers["Host"] == f"files.example:{bird.port}"


@pytest.mark.anyio
async def test_a_name_that_changes_its_mind_gains_nothing() -> None:
    async with canary(hello) as bird:
        fetcher, asked = a_fetcher({"rebind.example": [ALLOWED, FORBIDDEN]})
        assert await fetch(fetcher, f"http://rebind.example:{bird.port}/") == b"hello"
        assert asked == ["rebind.example"]
        with pytest.raises(Invalid) as refusal:
            await fetch(fetcher, f"http://rebind.example:{bird.port}/")
        assert refusal.value.code == "address"
        assert bird.hits == []


@pytest.mark.anyio
async def test_a_name_with_one_address_inside_is_refused_as_a_whole() -> None:
    async with canary(hello) as bird:
        fetcher, _ = a_fetcher({"mixed.example": [f"{ALLOWED},{FORBIDDEN}"], "six.example": [f"{ALLOWED},::1"]})
        for name in ("mixed.example", "six.example"):
            with pytest.raises(Invalid):
                await fetch(fetcher, f"http://{name}:{bird.port}/")
        assert (bird.hits, bird.asked) == ([], [])


@pytest.mark.anyio
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target",
    [
        f"http://{FORBIDDEN}:PORT/", "http://inside.example:PORT/", "http://169.254.169.254/", "//127.0.0.1:PORT/", "file:///etc/passwd",
        "http://[::1]:PORT/", "gopher://127.0.0.1:PORT/", "http://user@files.example:PORT/", "http://files.example:22/", "http://[",
        "javascript:alert(1)",
    ],
)  # fmt: skip
async def test_a_redirect_inside_is_not_followed(status: int, target: str) -> None:
    async with canary(redirecting(target, status=status)) as bird:  # type: ignore[arg-type]
        fetcher, _ = a_fetcher({"files.example": [ALLOWED], "inside.example": [FORBIDDEN]})
        with pytest.raises(Invalid):
            await fetch(fetcher, f"http://files.example:{bird.port}/")
        assert bird.hits == []


@pytest.mark.anyio
async def test_an_honest_redirect_is_followed_and_one_too_many_is_not() -> None:
    hops = [f"http://files.example:PORT/?step={n + 1}" for n in range(5)]
    async with canary(redirecting(*hops)) as bird:  # type: ignore[arg-type]
        fetcher, asked = a_fetcher({"files.example": [ALLOWED]})
        assert await fetch(fetcher, f"http://files.example:{bird.port}/") == b"arrived"
        assert len(asked) == 6
    async with canary(redirecting(*([*hops, "/?step=6"]))) as bird:  # type: ignore[arg-type]
        with pytest.raises(FetchFailed) as refusal:
            await fetch(fetcher, f"http://files.example:{bird.port}/")
        assert refusal.value.code == "redirects"


@pytest.mark.anyio
async def test_a_redirect_to_a_name_that_moved_inside_meanwhile_is_refused() -> None:
    async with canary(redirecting("http://rebind.example:PORT/?step=1")) as bird:  # type: ignore[arg-type]
        fetcher, _ = a_fetcher({"rebind.example": [ALLOWED, FORBIDDEN]})
        with pytest.raises(Invalid):
            await fetch(fetcher, f"http://rebind.example:{bird.port}/")
        assert bird.hits == []


@pytest.mark.anyio
async def test_a_body_past_the_bound_is_cut_off_whatever_it_claims() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if request.query.get("claims"):
            response.content_length = 10**9
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    async with canary(endless) as bird:
        fetcher, _ = a_fetcher()
        for query in ("", "?claims=1"):
            with pytest.raises(TooLarge):
                await fetch(fetcher, f"http://{ALLOWED}:{bird.port}/{query}", bytes_max=1 << 20)


@pytest.mark.anyio
async def test_a_compressed_body_is_not_unpacked() -> None:
    async def zipped(request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(body=b"\x1f\x8bnot really", headers={"Content-Encoding": "gzip"})

    async with canary(zipped) as bird:
        assert await fetch(a_fetcher()[0], f"http://{ALLOWED}:{bird.port}/") == b"\x1f\x8bnot really"


@pytest.mark.anyio
async def test_an_answer_that_never_comes_or_never_ends_is_given_up() -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        if request.path == "/head":
            await asyncio.sleep(3600)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x")
        await asyncio.sleep(3600)
        return response

    async with canary(silent) as bird:
        fetcher, _ = a_fetcher(idle=0.2)
        for path in ("/head", "/body"):
            with pytest.raises(FetchFailed) as refusal:
                await fetch(fetcher, f"http://{ALLOWED}:{bird.port}{path}")
            assert refusal.value.code == "fetch-slow"
        with pytest.raises(FetchFailed):
            await a_fetcher(post=0.2)[0].post(f"http://{ALLOWED}:{bird.port}/head", b"", headers={})


@pytest.mark.anyio
async def test_a_name_server_that_never_answers_is_given_up() -> None:
    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(3600)
        return []

    fetcher = HttpFetcher(resolve=never, patience=Patience(resolve=0.1))
    with pytest.raises(FetchFailed) as refusal:
        await fetch(fetcher, "http://slow.example/")
    assert refusal.value.code == "host-unknown"


@pytest.mark.anyio
async def test_a_body_that_is_cut_short_is_no_success() -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"x" * 10)
        assert request.transport is not None
        request.transport.close()
        return response

    async with canary(cut) as bird:
        with pytest.raises(FetchFailed):
            await fetch(a_fetcher()[0], f"http://{ALLOWED}:{bird.port}/")


@pytest.mark.anyio
@pytest.mark.parametrize("status", [204, 206, 304, 401, 404, 500])
async def test_a_status_that_is_no_success_is_none(status: int) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status)

    async with canary(refuse) as bird:
        with pytest.raises(FetchFailed) as refusal:
            await fetch(a_fetcher()[0], f"http://{ALLOWED}:{bird.port}/")
        assert str(status) in refusal.value.message


@pytest.mark.anyio
async def test_nothing_listens_there() -> None:
    async with canary(hello) as bird:
        port = bird.port
    with pytest.raises(FetchFailed) as refusal:
        await fetch(a_fetcher()[0], f"http://{ALLOWED}:{port}/")
    assert ALLOWED not in refusal.value.message


@pytest.mark.anyio
async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with canary(hello) as bird:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://{FORBIDDEN}:{bird.port}")
        assert await fetch(a_fetcher()[0], f"http://{ALLOWED}:{bird.port}/") == b"hello"
        assert bird.hits == []


@pytest.mark.anyio
async def test_a_webhook_is_delivered_and_its_redirect_not_followed() -> None:
    bodies: list[bytes] = []

    async def take(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.read())
        return web.Response(status=307, headers={"Location": f"http://{FORBIDDEN}:{request.url.port}/"})

    async with canary(take) as bird:
        status = await a_fetcher()[0].post(f"http://{ALLOWED}:{bird.port}/hook", b'{"a":1}', headers={"X-Kind": "end"})
        assert (status, bodies) == (307, [b'{"a":1}'])
        assert bird.asked[0].headers["X-Kind"] == "end"
        assert bird.hits == []


def test_an_https_address_never_leads_down_to_http() -> None:
    class Answer:
        headers: ClassVar = {"Location": "http://files.example/"}

    with pytest.raises(Invalid):
        _next("https://files.example/", Answer())  # type: ignore[arg-type]
