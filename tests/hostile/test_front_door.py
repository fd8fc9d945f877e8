"""Hostile input through the API: a clear 4xx each time, and not a trace left. Each area ends with a control that must succeed."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.api.home import ApiHome, api_home, manifest
from tests.hostile.canary import ALLOWED, FORBIDDEN, canary
from tests.hostile.test_archives import HOSTILE as ARCHIVES
from tests.hostile.test_fetching import LITERALS, hello, redirecting
from windlass.adapters.fetcher.http import HttpFetcher

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
YAML = {"Content-Type": "application/yaml"}


def text(**spec: Any) -> bytes:
    return json.dumps(manifest("true", **spec)).encode()


def with_raw(field: str, value: str) -> bytes:
    """A manifest with a piece of JSON that no honest writer would produce."""
    return text(retries=12345).replace(b'"retries": 12345', f'"{field}": {value}'.encode())


BODIES: dict[str, bytes] = {
    "NaN": with_raw("resources", '{"cpu": NaN}'),
    "Infinity": with_raw("resources", '{"memory": Infinity}'),
    "ten to the four hundredth": with_raw("retries", "1" + "0" * 400),
    "one with an exponent of 400": with_raw("timeoutSeconds", "1e400"),
    "a negative number": with_raw("timeoutSeconds", "-1"),
    "minus zero point five cores": with_raw("resources", '{"cpu": -0.5}'),
    "a number of five thousand digits": with_raw("priority", "9" * 5000),
    "a key twice": with_raw("image", '"evil"'),
    "half a surrogate": with_raw("env", '{"A": "\\ud800"}'),
    "a NUL in a variable": with_raw("env", '{"A": "\\u0000"}'),
    "a newline in a variable's name": with_raw("env", '{"A\\nB": "x"}'),
    "a thousand levels": with_raw("env", "[" * 1000 + "]" * 1000),
    "a hundred thousand levels": b"[" * 100_000,
    "an image that is an option": text(image="--privileged"),
    "an image with a command": text(image="busybox;id"),
    "a workdir that climbs": text(workdir="/../../etc"),
    "unlimited pids": text(pidsLimit=-1),
    "a webhook that hides its host behind a user name": text(webhook={"url": "http://169.254.169.254@x/"}),
    "a body that is a list": b"[]",
    "a body that is a text": b'"job"',
    "a body that is nothing": b"",
    "a body of zeros": bytes(1000),
    "a job of another tenant": json.dumps({**manifest("true"), "tenant": "other"}).encode(),
    "a node of its own choice": text(node="n1"),
    "privileges": text(privileged=True),
    "a host path": text(volumes=["/:/host"]),
    "a name that is a path": text(name="../../x"),
    "a name with a newline": text(name="a\n"),
    "a name of a thousand letters": text(name="a" * 1000),
    "a name in full-width letters": text(name="ａｂｃ"),
    "a cursor": b'{"cursor": "x"}',
}


@pytest.fixture
async def api() -> AsyncIterator[ApiHome]:
    async with api_home() as home:
        yield home


async def check_alive(api: ApiHome) -> None:
    assert (await api.client.get("/healthz")).status_code == 200
    assert (await api.submit("true", suspend=True))["status"]["state"] == "PENDING"


async def test_no_hostile_body_is_accepted_and_none_leaves_a_trace(api: ApiHome) -> None:
    before = await api.trace()
    for case, body in BODIES.items():
        for path in ("/api/v1/jobs", "/api/v1/jobs/bulk", "/api/v1/volumes/x/copy-file", "/api/v1/volumes/cleanup"):
            answer = await api.client.post(path, content=body or b" ", headers=JSON)
            assert 400 <= answer.status_code < 500, (case, path, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
            assert "Traceback" not in answer.text
        answer = await api.client.put("/api/v1/jobs/put", content=body, headers=JSON)
        assert 400 <= answer.status_code < 500, case
    assert await api.trace() == before
    await check_alive(api)


YAMLS: dict[str, bytes] = {
    "a bomb of aliases": b"\n".join(
        [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        + [b"a%d: &a%d [%s]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 10)]
    ),
    "a python object": b"!!python/object/apply:os.system ['touch /tmp/windlass-pwned']",
    "an alias to itself": b"&a [*a]",
    "a merge bomb": b"a: &a {x: 1}\nb: {<<: *a}",
    "two documents": b"a: 1\n---\nb: 2\n",
    "no document": b"# only a comment\n",
    "a tab": b"a:\n\t- b\n",
    "binary": bytes(range(256)),
    "deep": b"[" * 20_000,
    "an implicit truth": b"apiVersion: windlass.dev/v1\nkind: Job\nspec: {image: busybox, suspend: yes}\n",
    "an octal": b"apiVersion: windlass.dev/v1\nkind: Job\nspec: {image: busybox, retries: 010}\n",
    "a number as a variable": b"apiVersion: windlass.dev/v1\nkind: Job\nspec: {image: busybox, env: {A: 1}}\n",
}


async def test_no_hostile_yaml_is_accepted_and_none_leaves_a_trace(api: ApiHome) -> None:
    before = await api.trace()
    for case, body in YAMLS.items():
        answer = await api.client.post("/api/v1/jobs", content=body, headers=YAML)
        assert 400 <= answer.status_code < 500, (case, answer.text)
    assert await api.trace() == before
    good = json.dumps(manifest("true", suspend=True)).encode()
    assert (await api.client.post("/api/v1/jobs", content=good, headers=YAML)).status_code == 201


async def test_no_hostile_archive_is_accepted_and_none_leaves_a_trace(api: ApiHome) -> None:
    await api.submit("true", name="target", suspend=True)
    before = await api.trace()
    for case, make in ARCHIVES.items():
        headers = {"Content-Type": "application/x-tar"}
        answer = await api.client.put("/api/v1/jobs/target/artifacts?unpack=true", content=make(), headers=headers)
        assert 400 <= answer.status_code < 500, (case, answer.text)
    assert await api.trace() == before
    assert (await api.client.put("/api/v1/jobs/target/artifacts?path=ok", content=b"fine")).status_code == 200


REFS = [
    "...", "..%2f..%2fetc", "a%00b", "'%20OR%201=1--", "%", "*", "%F0%9F%98%80", "a" * 64, "%0d%0aX:y", "-", "a;b", "$(id)",
    "%c0%ae",
]  # fmt: skip


async def test_no_hostile_reference_finds_anything(api: ApiHome) -> None:
    await api.submit("true", name="real", suspend=True)
    before = await api.trace()
    for ref in REFS:
        for method, path in (
            ("GET", "{}"), ("POST", "{}/cancel"), ("POST", "{}/release"), ("DELETE", "{}"), ("GET", "{}/logs"),
            ("GET", "{}/events"),
            ("GET", "{}/artifacts"), ("PUT", "{}/artifacts?path=x"),
        ):  # fmt: skip
            answer = await api.client.request(method, "/api/v1/jobs/" + path.format(ref))
            assert answer.status_code in (400, 404, 405), (method, path, ref, answer.text)
        answer = await api.client.delete(f"/api/v1/volumes/{ref}")
        assert answer.status_code in (400, 404, 405), (ref, answer.text)
    assert await api.trace() == before
    assert (await api.client.get("/api/v1/jobs/real")).status_code == 200


async def test_no_address_inside_is_copied_from_and_none_leaves_a_trace() -> None:
    names = {"files.example": ALLOWED, "inside.example": FORBIDDEN, "localhost": FORBIDDEN, "example.com": ALLOWED}

    async def resolve(host: str, port: int) -> list[str]:
        if host not in names:
            raise OSError("no such name")
        return [names[host]]

    fetcher = HttpFetcher(allowed_networks=[f"{ALLOWED}/32"], resolve=resolve)
    async with canary(redirecting("http://inside.example:PORT/")) as bird, api_home(fetcher=fetcher) as api:  # type: ignore[arg-type]
        before = await api.trace()
        for url in [
            *LITERALS,
            "http://inside.example:PORT/",
            "http://files.example:PORT/redirects",
            "http://nowhere.example/",
        ]:
            body = {"url": url.replace("PORT", str(bird.port))}
            answer = await api.client.post("/api/v1/volumes/job/copy-file", json=body)
            assert answer.status_code == 400, (url, answer.text)
            assert FORBIDDEN not in answer.json()["detail"]
        assert await api.trace() == before
        assert bird.hits == []


async def test_no_webhook_to_an_address_inside_is_accepted_and_none_leaves_a_trace() -> None:
    fetcher = HttpFetcher(allowed_networks=[f"{ALLOWED}/32"])
    async with api_home(fetcher=fetcher) as api:
        before = await api.trace()
        for url in [one for one in LITERALS if one != "http://metadata.google.internal/"]:
            asked = manifest("true", webhook={"url": url.replace("PORT", "8000")})
            answers = {
                "": await api.client.post("/api/v1/jobs", json=asked),
                "items[0].": await api.client.post("/api/v1/jobs/bulk", json={"items": [asked]}),
            }
            applied = await api.client.put("/api/v1/jobs/told", json=asked)
            planned = await api.client.post("/api/v1/plan", json={"items": [asked]})
            for under, answer in (*answers.items(), ("", applied), ("items[0].", planned)):
                assert answer.status_code == 400, (url, answer.text)
                assert [fault["field"] for fault in answer.json()["faults"]] == [f"{under}spec.webhook.url"], url
        assert await api.trace() == before
        await api.submit("true", suspend=True, webhook={"url": f"http://{ALLOWED}:8000/"})
        await api.submit("true", suspend=True, webhook={"url": "https://hooks.example/"})


@pytest.mark.parametrize("target", ["../x", "/etc/passwd", "/artifacts", "sub/", "a/../b", "", "a\0b", "x" * 2000])
async def test_a_copy_to_elsewhere_is_refused(api: ApiHome, target: str) -> None:
    body = {"url": "http://example.com/", "targetPath": target}
    answer = await api.client.post("/api/v1/volumes/job/copy-file", json=body)
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (400, "targetPath")


async def test_an_honest_file_is_copied_into_the_volume_of_a_job_to_come() -> None:
    fetcher = HttpFetcher(allowed_networks=[f"{ALLOWED}/32"])
    async with canary(hello) as bird, api_home(fetcher=fetcher) as api:
        body = {"url": f"http://{ALLOWED}:{bird.port}/x.jpg", "targetPath": "in/x.jpg"}
        answer = await api.client.post("/api/v1/volumes/infer/copy-file", json=body)
        assert answer.status_code == 201, answer.text
        assert answer.json()["path"] == "/artifacts/in/x.jpg"
        assert answer.json()["volume"] == "artifacts-infer"
        await api.submit("show", "in/x.jpg", name="infer")
        await api.until("infer")
        log = await api.client.get("/api/v1/jobs/infer/logs", headers={"Accept": "text/plain"})
        assert log.text.strip() == "hello"
