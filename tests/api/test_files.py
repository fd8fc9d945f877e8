"""Files in and out: uploads that are checked, downloads that are whole, volumes that can be listed and dropped."""

import base64
import gzip
import hashlib
import io
import tarfile

import pytest

from tests.api.home import ApiHome, api_home
from tests.wire.archive_maker import archive
from windlass.api.context import ApiLimits
from windlass.wire.schema import VolumeList

pytestmark = pytest.mark.anyio

TAR = {"Content-Type": "application/x-tar"}


def digest(body: bytes) -> dict[str, str]:
    return {"Content-Digest": f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"}


async def test_an_uploaded_archive_is_what_the_job_finds(api: ApiHome) -> None:
    await api.submit("do", "show src/a.txt", "write out.txt done", name="built", suspend=True)
    body = archive({"src/a.txt": b"hello from a"})
    answer = await api.client.put("/api/v1/jobs/built/artifacts?unpack=true", content=body, headers=TAR | digest(body))
    assert answer.status_code == 200, answer.text
    assert answer.json()["entries"] == 1
    await api.client.post("/api/v1/jobs/built/release")
    over = await api.until("built")
    assert over["status"]["state"] == "SUCCEEDED", over
    log = await api.client.get("/api/v1/jobs/built/logs", headers={"Accept": "text/plain"})
    assert log.text.strip() == "hello from a"
    tar = await api.client.get("/api/v1/jobs/built/artifacts")
    assert tar.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(tar.content)) as files:
        assert {name.removeprefix("./").removeprefix("/") for name in files.getnames()} >= {"src/a.txt", "out.txt"}


async def test_one_file_goes_up_and_comes_down_byte_for_byte(api: ApiHome) -> None:
    await api.submit("true", name="single", suspend=True)
    body = bytes(range(256)) * 5000
    answer = await api.client.put("/api/v1/jobs/single/artifacts?path=data/x.bin", content=body, headers=digest(body))
    assert answer.json() == {"digest": f"sha256:{hashlib.sha256(body).hexdigest()}", "size": len(body), "entries": 1}
    await api.client.post("/api/v1/jobs/single/release")
    await api.until("single")
    down = await api.client.get("/api/v1/jobs/single/artifacts?path=/artifacts/data/x.bin&format=file")
    assert down.content == body
    assert "attachment" in down.headers["content-disposition"]


async def test_a_gzipped_archive_is_taken_too(api: ApiHome) -> None:
    await api.submit("true", name="zipped", suspend=True)
    body = gzip.compress(archive({"a": b"x" * 10_000}))
    headers = {"Content-Type": "application/gzip"} | digest(body)
    answer = await api.client.put("/api/v1/jobs/zipped/artifacts?unpack=true", content=body, headers=headers)
    assert (answer.status_code, answer.json()["entries"]) == (200, 1)


async def test_a_body_that_is_not_what_its_digest_says_leaves_no_trace(api: ApiHome) -> None:
    await api.submit("true", name="wrong", suspend=True)
    before = await api.trace()
    for query, body in (("path=a", b"hello"), ("unpack=true", archive({"a": b"x"}))):
        headers = TAR | digest(b"something else")
        answer = await api.client.put(f"/api/v1/jobs/wrong/artifacts?{query}", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "digest-mismatch")
    assert await api.trace() == before


@pytest.mark.parametrize(
    "value", ["sha-256=abc", "sha-256=::", "sha-256=:AAAA:", "sha-256=:" + "A" * 44 + ":, sha-256=:x:"]
)
async def test_a_digest_that_is_none_is_refused(api: ApiHome, value: str) -> None:
    await api.submit("true", name="a", suspend=True)
    answer = await api.client.put("/api/v1/jobs/a/artifacts?path=x", content=b"x", headers={"Content-Digest": value})
    assert (answer.status_code, answer.json()["code"]) == (400, "digest-malformed")


async def test_a_job_that_is_not_suspended_takes_no_upload(api: ApiHome) -> None:
    await api.submit("sleep", "60", name="going", graceSeconds=0)
    answer = await api.client.put("/api/v1/jobs/going/artifacts?path=x", content=b"x")
    assert (answer.status_code, answer.json()["code"]) == (409, "not-suspended")


@pytest.mark.parametrize("path", ["", "../x", "/etc/passwd", "a/../../b", "a%00b", "a//b"])
async def test_an_upload_to_elsewhere_is_refused(api: ApiHome, path: str) -> None:
    await api.submit("true", name="a", suspend=True)
    answer = await api.client.put(f"/api/v1/jobs/a/artifacts?path={path}", content=b"x")
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (400, "path")


async def test_what_is_to_be_unpacked_must_say_that_it_is_an_archive(api: ApiHome) -> None:
    await api.submit("true", name="a", suspend=True)
    answer = await api.client.put(
        "/api/v1/jobs/a/artifacts?unpack=true", content=b"x", headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 415


async def test_an_upload_past_the_bound_is_too_large_and_leaves_no_trace() -> None:
    async with api_home(limits=ApiLimits(upload_bytes_max=1000)) as api:
        await api.submit("true", name="a", suspend=True)
        before = await api.trace()
        answer = await api.client.put("/api/v1/jobs/a/artifacts?path=x", content=b"x" * 1001)
        assert answer.status_code == 413

        async def chunks():  # type: ignore[no-untyped-def]
            for _ in range(20):
                yield b"x" * 100

        answer = await api.client.put("/api/v1/jobs/a/artifacts?path=x", content=chunks())
        assert answer.status_code == 413
        answer = await api.client.put(
            "/api/v1/jobs/a/artifacts?unpack=true", content=archive({"a": b"x" * 1001}), headers=TAR
        )
        assert answer.status_code == 413
        assert await api.trace() == before


async def test_a_directory_is_no_single_file_and_what_is_absent_is_not_found(api: ApiHome) -> None:
    made = await api.submit("do", "write d/x.txt hello", name="tree")
    await api.until(made["metadata"]["uid"])
    answer = await api.client.get("/api/v1/jobs/tree/artifacts?path=d&format=file")
    assert (answer.status_code, answer.json()["code"]) == (400, "not-a-file")
    assert (await api.client.get("/api/v1/jobs/tree/artifacts?path=nothing")).status_code == 404
    assert (await api.client.get("/api/v1/jobs/tree/artifacts?path=../x")).status_code == 400
    assert (await api.client.get("/api/v1/jobs/tree/artifacts?format=file")).status_code == 400


async def test_a_job_that_has_not_run_has_nothing_to_download(api: ApiHome) -> None:
    await api.submit("true", name="young", suspend=True)
    answer = await api.client.get("/api/v1/jobs/young/artifacts")
    assert (answer.status_code, answer.headers["content-type"]) in (
        (404, "application/problem+json"),
        (409, "application/problem+json"),
    )


async def test_volumes_are_listed_and_another_tenant_reaches_none(api: ApiHome) -> None:
    made = await api.submit("true", name="vol")
    await api.until(made["metadata"]["uid"])
    listed = (await api.client.get("/api/v1/volumes")).json()
    VolumeList.model_validate(listed)
    assert [(item["name"], item["job"]) for item in listed["items"]] == [("artifacts-vol", "vol")]
    theirs = api.bearer(tenant="other")
    assert (await api.client.get("/api/v1/volumes", headers=theirs)).json()["items"] == []
    assert (await api.client.delete("/api/v1/volumes/artifacts-vol", headers=theirs)).status_code == 404
    assert (await api.client.get("/api/v1/jobs/vol/artifacts", headers=theirs)).status_code == 404
    assert (await api.client.delete("/api/v1/volumes/artifacts-vol")).status_code == 202


async def test_cleaning_up_says_what_stays_and_why(api: ApiHome) -> None:
    made = await api.submit("true", name="kept")
    await api.until(made["metadata"]["uid"])
    quiet = (await api.client.post("/api/v1/volumes/cleanup")).json()
    assert quiet == {"deleted": 0, "skipped": 1, "items": []}
    loud = (await api.client.post("/api/v1/volumes/cleanup", json={"verbose": True})).json()
    assert loud["items"][0]["action"] == "skipped"
    assert (await api.client.post("/api/v1/volumes/cleanup", json={"loud": True})).status_code == 400
