"""Who may: tokens that hold, tokens that do not, and what a tenant says of itself elsewhere."""

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwk, jwt

from tests.api.home import ApiHome, manifest
from windlass.adapters.keys.directory import KeyDirectory
from windlass.api.auth import Authenticator, Identity
from windlass.core.errors import Invalid, Unauthenticated

NOW = 1_800_000_000.0


def claims(**changes: Any) -> dict[str, Any]:
    base = {
        "iss": "windlass", "aud": "windlass", "sub": "eve", "tenant": "local", "roles": ["admin"], "jti": "j1",
        "iat": int(NOW), "exp": int(NOW) + 3600,
    }  # fmt: skip
    return {name: value for name, value in {**base, **changes}.items() if value is not ...}


class Desk:
    """A key of ours, the authenticator that trusts it, and a forger's tools."""

    def __init__(self, directory: Path) -> None:
        self.keys = KeyDirectory(directory)
        self.now = NOW
        self.auth = Authenticator(self.keys.public_keys(), wall=lambda: self.now)
        self.key = jwk.OKPKey.import_key(json.loads((directory / "signing-key.json").read_text()))

    def identify(self, *headers: str) -> Identity:
        return anyio.run(self.auth.identify, headers)

    def sign(self, header: dict[str, Any] | None = None, key: Any = None, **changes: Any) -> str:
        alg = (header or {}).get("alg", "Ed25519")
        full = {"alg": "Ed25519", "kid": self.key.kid, **(header or {})}
        return jwt.encode(full, claims(**changes), key or self.key, algorithms=[alg])

    def raw(self, header: dict[str, Any], body: dict[str, Any], signature: bytes) -> str:
        def part(data: bytes) -> str:
            return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

        return ".".join((part(json.dumps(header).encode()), part(json.dumps(body).encode()), part(signature)))

    def signed_by_public_key(self) -> str:
        """The classic confusion: the public key, which everybody has, as the secret of an HMAC."""
        head = self.raw({"alg": "HS256", "kid": self.key.kid}, claims(), b"").rsplit(".", 1)[0]
        secret = json.dumps(self.key.as_dict(private=False)).encode()
        return (
            f"{head}."
            + base64.urlsafe_b64encode(hmac.digest(secret, head.encode(), hashlib.sha256)).rstrip(b"=").decode()
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def stranger() -> jwk.OKPKey:
    return jwk.OKPKey.generate_key("Ed25519", auto_kid=True)


FORGERIES: dict[str, Callable[[Desk], str]] = {
    "no algorithm": lambda desk: desk.raw({"alg": "none"}, claims(), b""),
    "no algorithm, oddly written": lambda desk: desk.raw({"alg": "nOnE", "kid": desk.key.kid}, claims(), b""),
    "an HMAC under the public key": Desk.signed_by_public_key,
    "another's key": lambda desk: desk.sign(key=stranger()),
    "another's key under our name": lambda desk: desk.sign({"kid": desk.key.kid}, key=stranger()),
    "a key that comes along": lambda desk: desk.sign({"jwk": (own := stranger()).as_dict(private=False)}, key=own),
    "a key at an address": lambda desk: desk.sign({"jku": "http://169.254.169.254/keys"}, key=stranger()),
    "an unknown key name": lambda desk: desk.sign({"kid": "../../etc/passwd"}),
    "another audience": lambda desk: desk.sign(aud="somebody-else"),
    "no audience": lambda desk: desk.sign(aud=...),
    "another issuer": lambda desk: desk.sign(iss="evil"),
    "no issuer": lambda desk: desk.sign(iss=...),
    "no end": lambda desk: desk.sign(exp=...),
    "an end that is a text": lambda desk: desk.sign(exp="never"),
    "an end beyond numbers": lambda desk: desk.raw({"alg": "Ed25519"}, claims(exp=1e308), b"x"),
    "long over": lambda desk: desk.sign(iat=0, exp=1),
    "not yet begun": lambda desk: desk.sign(iat=int(NOW) + 3600, exp=int(NOW) + 7200),
    "not before tomorrow": lambda desk: desk.sign(nbf=int(NOW) + 86_400),
    "no tenant": lambda desk: desk.sign(tenant=...),
    "a tenant that is a path": lambda desk: desk.sign(tenant="../other"),
    "a tenant that is a list": lambda desk: desk.sign(tenant=["local"]),
    "roles that are a text": lambda desk: desk.sign(roles="admin"),
    "no roles": lambda desk: desk.sign(roles=...),
    "no token id": lambda desk: desk.sign(jti=...),
    "a changed body": lambda desk: (t := desk.sign(roles=["viewer"]).split("."))[0] + "." + desk.sign().split(".")[1] + "." + t[2],
    "a cut signature": lambda desk: desk.sign()[:-4],
    "no signature": lambda desk: desk.sign().rsplit(".", 1)[0] + ".",
    "two parts": lambda desk: desk.sign().rsplit(".", 1)[0],
    "an encrypted form": lambda desk: "a.b.c.d.e",
    "a critical extension": lambda desk: desk.raw({"alg": "Ed25519", "crit": ["x"], "x": 1}, claims(), b"x"),
    "a header that is a list": lambda desk: "W10." + desk.sign().split(".", 1)[1],
    "nothing": lambda desk: " ",
    "noise": lambda desk: "é" * 50,
    "a novel": lambda desk: "a" * 9000,
}  # fmt: skip


@pytest.mark.parametrize("case", FORGERIES)
def test_a_forged_token_is_nobody(desk: Desk, case: str) -> None:
    with pytest.raises(Unauthenticated):
        desk.identify(f"Bearer {FORGERIES[case](desk)}")


@pytest.mark.parametrize("headers", [[], [""], ["Bearer"], ["Bearer "], ["Basic YTpi"], ["token"]])
def test_no_token_is_nobody(desk: Desk, headers: list[str]) -> None:
    with pytest.raises(Unauthenticated):
        desk.identify(*headers)


def test_two_tokens_are_nobody(desk: Desk) -> None:
    good = f"Bearer {desk.sign()}"
    with pytest.raises(Unauthenticated):
        desk.identify(good, good)


@given(st.text(max_size=100))
def test_no_text_is_more_than_refused(text: str) -> None:
    auth = Authenticator([stranger().as_dict(private=False)])
    with pytest.raises(Unauthenticated):
        anyio.run(auth.identify, [f"Bearer {text}"])


def test_a_good_token_says_who_it_is(desk: Desk) -> None:
    token = desk.keys.issue(
        subject="ada", tenant="acme", roles=("member", "wizard"), token_id="t1", now=NOW, lifetime_seconds=60
    )
    identity = desk.identify(f"bearer {token}")
    assert (identity.subject, identity.tenant, identity.roles) == ("ada", "acme", {"member"})


def test_a_remembered_token_still_ends_when_its_time_is_up(desk: Desk) -> None:
    token = f"Bearer {desk.sign()}"
    desk.identify(token)
    desk.now += 3600 + 29
    assert desk.identify(token).subject == "eve"
    desk.now += 2
    with pytest.raises(Unauthenticated, match="expired"):
        desk.identify(token)


def test_the_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    first = KeyDirectory(tmp_path / "keys").public_keys()
    assert KeyDirectory(tmp_path / "keys").public_keys() == first
    assert "d" not in first[0]
    (file,) = (tmp_path / "keys").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    keys = KeyDirectory(tmp_path)
    keys.public_keys()
    (tmp_path / "signing-key.json").chmod(0o644)
    with pytest.raises(Invalid, match="read by others"):
        keys.public_keys()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"kty": "oct", "k": "AAAA"}', "not json"])
def test_a_damaged_key_is_named_as_such(tmp_path: Path, text: str) -> None:
    file = tmp_path / "signing-key.json"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(Invalid, match="holds no"):
        KeyDirectory(tmp_path).public_keys()


GOVERNING = [
    ("POST", "/api/v1/tenants"), ("PUT", "/api/v1/tenants/x"), ("PATCH", "/api/v1/tenants/x"), ("DELETE", "/api/v1/tenants/x"),
    ("GET", "/api/v1/tenants/x/tokens"), ("POST", "/api/v1/tenants/x/tokens"), ("DELETE", "/api/v1/tenants/x/tokens/x"),
    ("POST", "/api/v1/secrets/rotate-key"), ("GET", "/api/v1/audit"), ("GET", "/api/v1/audit/export"),
]  # fmt: skip


def doors(api: ApiHome, ref: str = "x") -> list[tuple[str, str]]:
    """Every route there is, so that none can be forgotten here."""
    return [
        (method.upper(), re.sub(r"{\w+}", ref, path))
        for path, item in api.app.openapi()["paths"].items()
        for method in item
        if path.startswith("/api/v1")
    ]


@pytest.mark.anyio
async def test_no_door_opens_without_a_token(api: ApiHome) -> None:
    for method, path in doors(api):
        answer = await api.client.request(method, path, headers={"Authorization": ""})
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["code"] == "unauthenticated"


@pytest.mark.anyio
async def test_a_member_is_no_admin(api: ApiHome) -> None:
    before = await api.trace()
    for method, path in [*GOVERNING, ("GET", "/api/v1/metrics/prometheus")]:
        answer = await api.client.request(method, path.replace("/x", "/local"))
        assert (answer.status_code, answer.json()["code"]) == (403, "not-admin"), path
    assert await api.trace() == before


@pytest.mark.anyio
async def test_a_viewer_looks_and_changes_nothing(api: ApiHome) -> None:
    await api.submit("true", name="shown", suspend=True)
    viewer = api.bearer(roles=("viewer",))
    before = await api.trace()
    assert (await api.client.get("/api/v1/jobs/shown", headers=viewer)).status_code == 200
    for method, path in doors(api, "shown"):
        if method == "GET" or path == "/api/v1/plan":
            continue
        answer = await api.client.request(method, path, headers=viewer)
        assert answer.status_code == 403, path
        assert answer.json()["code"] in ("read-only", "not-admin"), path
    assert await api.trace() == before


@pytest.mark.anyio
async def test_a_tenant_in_header_query_or_body_counts_for_nothing(api: ApiHome) -> None:
    await api.submit("true", name="theirs", suspend=True)
    other, body = api.bearer(tenant="other"), manifest("true", name="mine", suspend=True)
    for header in ("X-Tenant", "Windlass-Tenant"):
        told = await api.client.get("/api/v1/jobs/theirs", headers=other | {header: "local"})
        assert (told.status_code, told.json()["code"]) == (403, "tenant-header")
        assert (await api.client.post("/api/v1/jobs", json=body, headers=other | {header: "local"})).status_code == 403
        assert (await api.client.get("/api/v1/jobs", headers=other | {header: "other"})).status_code == 200
    other |= {"X-Forwarded-User": "local"}
    assert (await api.client.get("/api/v1/jobs/theirs", headers=other)).status_code == 404
    assert (await api.client.get("/api/v1/jobs?tenant=local", headers=other)).status_code == 400
    assert (await api.client.post("/api/v1/jobs", json={**body, "tenant": "local"}, headers=other)).status_code == 400
    assert (await api.client.post("/api/v1/jobs", json=body, headers=other)).status_code == 201
    names = [item["metadata"]["name"] for item in (await api.client.get("/api/v1/jobs")).json()["items"]]
    assert names == ["theirs"]


@pytest.mark.anyio
async def test_a_tenant_that_does_not_exist_is_told_so_without_a_trace(api: ApiHome) -> None:
    before = await api.trace()
    answer = await api.client.post("/api/v1/jobs", json=manifest("true"), headers=api.bearer(tenant="nobody"))
    assert answer.status_code == 403
    assert await api.trace() == before


@pytest.mark.anyio
async def test_whoami_says_what_the_token_says(api: ApiHome) -> None:
    answer = (await api.client.get("/api/v1/whoami", headers=api.bearer(tenant="other", roles=("viewer",)))).json()
    assert (answer["subject"], answer["tenant"], answer["roles"]) == ("tester", "other", ["viewer"])
    assert answer["expiresAt"] > time.strftime("%Y-%m-%d", time.gmtime())
