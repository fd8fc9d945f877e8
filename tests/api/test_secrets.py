"""Secrets and logins through the API: who sees which, what a job may refer to, and what a run is handed."""

import base64
from typing import Any

import pytest

from tests.api.home import ApiHome, manifest
from windlass.core.model.ids import RunId
from windlass.core.model.secret import Handed

pytestmark = pytest.mark.anyio

OTHER = {"tenant": "other"}


def data(**values: bytes) -> dict[str, Any]:
    return {"data": {key: base64.b64encode(value).decode() for key, value in values.items()}}


async def put(api: ApiHome, name: str, **values: bytes) -> dict[str, Any]:
    answer = await api.client.put(f"/api/v1/secrets/{name}", json=data(**values))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def handed(api: ApiHome, uid: str) -> Handed:
    await api.until(uid, "RUNNING")
    return api.home.machine.containers[RunId(f"{uid}-1")].handed


async def test_a_secret_is_known_by_its_name_keys_version_and_users(api: ApiHome) -> None:
    assert (await put(api, "hub", token=b"1"))["version"] == 1
    assert (await put(api, "hub", token=b"2", user=b"me"))["version"] == 2
    for name in ("first", "second"):
        await api.submit("true", name=name, suspend=True, env={"T": {"secret": "hub", "key": "token"}})
    (shown,) = (await api.client.get("/api/v1/secrets")).json()["items"]
    assert set(shown) == {"name", "keys", "version", "updatedAt", "usedBy", "usedByCount"}
    assert (shown["name"], shown["keys"], shown["version"]) == ("hub", ["token", "user"], 2)
    assert (shown["usedBy"], shown["usedByCount"]) == (["first", "second"], 2)
    await api.client.post("/api/v1/jobs/first/cancel")
    assert (await api.client.delete("/api/v1/secrets/hub")).json()["usedBy"] == ["second"]
    assert (await api.client.get("/api/v1/secrets")).json() == {"items": []}
    assert (await api.client.delete("/api/v1/secrets/hub")).status_code == 404


async def test_a_run_is_handed_the_newest_values_with_its_start(api: ApiHome) -> None:
    await put(api, "hub", value=b"old", config=b"\0\xff")
    job = await api.submit(
        "sleep 600", suspend=True, env={"PLAIN": "p", "TOKEN": {"secret": "hub"}},
        secretFiles={"conf": {"secret": "hub", "key": "config"}},
    )  # fmt: skip
    assert job["spec"]["env"] == {"PLAIN": "p", "TOKEN": {"secret": "hub", "key": "value"}}
    assert job["spec"]["secretFiles"] == {"conf": {"secret": "hub", "key": "config"}}
    await put(api, "hub", value=b"new", config=b"\0\xfe")
    uid = job["metadata"]["uid"]
    await api.client.post(f"/api/v1/jobs/{uid}/release")
    given = await handed(api, uid)
    assert (given.variables, given.files) == ((("TOKEN", "new"),), (("conf", b"\0\xfe"),))
    assert "new" not in f"{given} {given!r}"


async def test_what_a_job_refers_to_must_be_there_and_every_absence_is_named(api: ApiHome) -> None:
    await put(api, "hub", text=b"t", blob=b"\0", long=b"x" * 131_072)
    await api.client.put("/api/v1/secrets/theirs", json=data(value=b"v"), headers=api.bearer(**OTHER))
    before = await api.trace()
    env = {
        "A": {"secret": "hub", "key": "text"},
        "B": {"secret": "no-such"},
        "C": {"secret": "hub"},
        "D": {"secret": "theirs"},
        "E": {"secret": "hub", "key": "blob"},
        "F": {"secret": "hub", "key": "long"},
    }
    files = {"good": {"secret": "hub", "key": "blob"}, "bad": {"secret": "theirs"}}
    answer = await api.client.post("/api/v1/jobs", json=manifest("true", env=env, secretFiles=files))
    assert (answer.status_code, answer.json()["code"]) == (400, "secret-missing")
    faults = {fault["field"]: fault["message"] for fault in answer.json()["faults"]}
    assert set(faults) == {"spec.env.B", "spec.env.C", "spec.env.D", "spec.env.E", "spec.env.F", "spec.secretFiles.bad"}
    assert faults["spec.env.D"].replace("theirs", "no-such") == faults["spec.env.B"], "another's looks like none"
    only = manifest("true", env={"E": env["E"], "F": env["F"]})
    answer = await api.client.post("/api/v1/jobs", json=only)
    assert (answer.status_code, answer.json()["code"]) == (400, "secret-unfit")
    assert [fault["field"] for fault in answer.json()["faults"]] == ["spec.env.E", "spec.env.F"]
    assert "secretFiles" in answer.json()["hint"]
    assert await api.trace() == before


async def test_another_tenants_secrets_and_logins_are_not_there(api: ApiHome) -> None:
    other = api.bearer(**OTHER)
    await put(api, "hub", value=b"mine")
    login = {"username": "u", "password": "p"}
    assert (await api.client.put("/api/v1/registries/r.example.com", json=login)).status_code == 200
    for path in ("secrets", "registries"):
        assert (await api.client.get(f"/api/v1/{path}", headers=other)).json() == {"items": []}
    for path in ("secrets/hub", "registries/r.example.com"):
        assert (await api.client.delete(f"/api/v1/{path}", headers=other)).status_code == 404
    theirs = await api.client.put("/api/v1/secrets/hub", json=data(value=b"theirs"), headers=other)
    assert theirs.json()["version"] == 1
    job = await api.submit("sleep 600", env={"T": {"secret": "hub"}})
    assert (await handed(api, job["metadata"]["uid"])).variables == (("T", "mine"),)


async def test_a_login_goes_along_with_images_of_its_registry_only(api: ApiHome) -> None:
    login = {"username": "ci", "password": "p"}
    assert (await api.client.put("/api/v1/registries/R.Example.com:5000", json=login)).json()["registry"] == (
        "r.example.com:5000"
    )
    (shown,) = (await api.client.get("/api/v1/registries")).json()["items"]
    assert set(shown) == {"registry", "username", "version", "updatedAt"}
    for image, user in (("r.example.com:5000/a:1", "ci"), ("r.example.com/a:1", None), ("busybox", None)):
        uid = (await api.submit("sleep 600", image=image))["metadata"]["uid"]
        credentials = (await handed(api, uid)).credentials
        assert (credentials.username if credentials else None) == user, image
    gone = await api.client.delete("/api/v1/registries/r.example.com:5000")
    assert gone.json()["username"] == "ci"
    assert (await api.client.get("/api/v1/registries")).json() == {"items": []}


async def test_only_an_admin_changes_the_data_key_and_nothing_is_lost_by_it(api: ApiHome) -> None:
    await put(api, "hub", value=b"kept")
    answer = await api.client.post("/api/v1/secrets/rotate-key")
    assert (answer.status_code, answer.json()["code"]) == (403, "not-admin")
    admin = api.bearer(roles=("admin",))
    assert (await api.client.post("/api/v1/secrets/rotate-key", headers=admin)).json() == {"key": 2, "left": 0}
    job = await api.submit("sleep 600", env={"T": {"secret": "hub"}})
    assert (await handed(api, job["metadata"]["uid"])).variables == (("T", "kept"),)
    assert (await api.client.get("/api/v1/secrets")).json()["items"][0]["version"] == 1


async def test_a_tenant_has_a_bounded_number_of_secrets_and_may_still_change_those_it_has(api: ApiHome) -> None:
    for n in range(100):
        login = {"username": "u", "password": "p"}
        assert (await api.client.put(f"/api/v1/registries/r{n}.example.com", json=login)).status_code == 200
    answer = await api.client.put("/api/v1/registries/one-more.example.com", json=login)
    assert (answer.status_code, answer.json()["code"]) == (429, "vault-full")
    assert int(answer.headers["retry-after"]) >= 3600, "no waiting makes room there"
    assert (await api.client.put("/api/v1/registries/r7.example.com", json=login)).json()["version"] == 2


async def test_every_change_leaves_one_record_and_no_record_holds_a_value(api: ApiHome) -> None:
    admin = api.bearer(roles=("admin",))
    await put(api, "hub", value=b"canary")
    await api.client.put("/api/v1/registries/r.example.com", json={"username": "ci", "password": "canary"})
    await api.client.post("/api/v1/secrets/rotate-key", headers=admin)
    await api.client.delete("/api/v1/registries/r.example.com")
    await api.client.delete("/api/v1/secrets/hub")
    await api.client.delete("/api/v1/secrets/hub")
    answer = await api.client.get("/api/v1/audit?order=oldest", headers=admin)
    done = [one for one in answer.json()["items"] if one["outcome"] == "done"]
    assert [(one["verb"], one["kind"], one["name"]) for one in done] == [
        ("set", "Secret", "hub"),
        ("login", "RegistryLogin", "r.example.com"),
        ("rotate", "DataKey", "2"),
        ("logout", "RegistryLogin", "r.example.com"),
        ("remove", "Secret", "hub"),
    ]
    assert "canary" not in answer.text


SECRETS: dict[str, tuple[str, Any, int]] = {
    "a name in capitals": ("UP", data(value=b"v"), 400),
    "a name of 64 letters": ("a" * 64, data(value=b"v"), 400),
    "a name with a NUL": ("a%00b", data(value=b"v"), 400),
    "a name with a line's end": ("a%0d%0ab", data(value=b"v"), 400),
    "a name that climbs": ("..%2f..%2fx", data(value=b"v"), 400),
    "a name with a slash": ("a%2fb", data(value=b"v"), 400),
    "no data": ("x", {}, 400),
    "no keys": ("x", {"data": {}}, 400),
    "too many keys": ("x", data(**{f"k{n}": b"v" for n in range(65)}), 400),
    "a key that is a path": ("x", {"data": {"../../etc/passwd": "dg=="}}, 400),
    "a hidden key": ("x", {"data": {".ssh": "dg=="}}, 400),
    "a key with a NUL": ("x", {"data": {"a\0b": "dg=="}}, 400),
    "an empty key": ("x", {"data": {"": "dg=="}}, 400),
    "a key of a thousand letters": ("x", {"data": {"k" * 1000: "dg=="}}, 400),
    "no base64": ("x", {"data": {"value": "not base64!"}}, 400),
    "base64 with a line's end": ("x", {"data": {"value": "dg==\r\n"}}, 400),
    "a number": ("x", {"data": {"value": 7}}, 400),
    "a field of its own": ("x", data(value=b"v") | {"tenant": "other"}, 400),
    "a value over the bound": ("x", data(value=b"x" * (256 * 1024 + 1)), 400),
    "values over the bound together": ("x", data(a=b"x" * 200_000, b=b"x" * 200_000), 400),
    "a body over the bound": ("x", data(value=b"x" * (1 << 20)), 413),
}
REGISTRIES: dict[str, tuple[str, Any, int]] = {
    "a scheme": ("https:%2f%2fr.example.com", {}, 400),
    "a path": ("r.example.com%2fteam", {}, 400),
    "a user": ("user@r.example.com", {}, 400),
    "a user and a password": ("user:pass@r.example.com", {}, 400),
    "an empty port": ("r.example.com:", {}, 400),
    "a port too high": ("r.example.com:65536", {}, 400),
    "a line's end": ("r.example.com%0d%0aX-Evil:%20y", {}, 400),
    "a NUL": ("r.example.com%00", {}, 400),
    "a word that is no host": ("team", {}, 400),
    "a host of 300 letters": ("a" * 300 + ".com", {}, 400),
    "an empty user": ("r.example.com", {"username": ""}, 400),
    "a colon in the user": ("r.example.com", {"username": "a:b"}, 400),
    "a line's end in the user": ("r.example.com", {"username": "a\r\nX: y"}, 400),
    "an empty password": ("r.example.com", {"password": ""}, 400),
    "a line's end in the password": ("r.example.com", {"password": "p\r\nX: y"}, 400),
    "a NUL in the password": ("r.example.com", {"password": "p\0"}, 400),
    "a password of a megabyte": ("r.example.com", {"password": "p" * 500_000}, 400),
    "a password that is a list": ("r.example.com", {"password": ["p"]}, 400),
    "a tenant": ("r.example.com", {"tenant": "other"}, 400),
}


async def test_nothing_hostile_is_taken_for_a_secret_or_a_login(api: ApiHome) -> None:
    before = await api.trace()
    cases = [(case, f"secrets/{name}", body, status) for case, (name, body, status) in SECRETS.items()]
    login = {"username": "ci", "password": "p"}
    cases += [(case, f"registries/{host}", login | body, status) for case, (host, body, status) in REGISTRIES.items()]
    for case, path, body, status in cases:
        answer = await api.client.put(f"/api/v1/{path}", json=body)
        assert answer.status_code == status, (case, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert status != 400 or answer.json()["faults"][0]["field"], case
    twice = b'{"data": {"value": "dg==", "value": "dw=="}}'
    answer = await api.client.put("/api/v1/secrets/x", content=twice, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "duplicate-key")
    assert await api.trace() == before
    assert (await put(api, "x", value=b"v"))["version"] == 1
    assert (await api.client.put("/api/v1/registries/r.example.com", json=login)).status_code == 200


REFERENCES: dict[str, dict[str, Any]] = {
    "spec.env.A.secret": {"env": {"A": {"secret": "../x"}}},
    "spec.env.A.key": {"env": {"A": {"secret": "hub", "key": "../x"}}},
    "spec.env.A.value": {"env": {"A": {"secret": "hub", "value": "v"}}},
    "spec.env.A": {"env": {"A": ["hub"]}},
    "spec.secretFiles.a/b": {"secretFiles": {"a/b": {"secret": "hub"}}},
    "spec.secretFiles...": {"secretFiles": {"..": {"secret": "hub"}}},
    "spec.secretFiles.a": {"secretFiles": {"a": "hub"}},
    "spec.secretFiles": {"secretFiles": {f"f{n}": {"secret": "hub"} for n in range(65)}},
}


async def test_no_hostile_reference_is_accepted(api: ApiHome) -> None:
    await put(api, "hub", value=b"v")
    before = await api.trace()
    for field, spec in REFERENCES.items():
        answer = await api.client.post("/api/v1/jobs", json=manifest("true", **spec))
        assert answer.status_code == 400, field
        assert [fault["field"] for fault in answer.json()["faults"]] == [field]
    assert await api.trace() == before
