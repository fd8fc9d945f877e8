"""Tokens of an OIDC issuer: a real one on loopback, whose keys change, which falls over, and which lies."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwk, jwt
from pydantic import ValidationError

from tests.api.home import api_home, manifest
from tests.parts.issuer import DISCOVERY, LoopbackIssuer, loopback_issuer, rsa_key
from windlass.adapters.fetcher.http import HttpFetcher, Patience
from windlass.api.auth import Authenticator, Identity
from windlass.api.issuers import Issuer
from windlass.api.jwks import FLOOR_SECONDS, FRESH_SECONDS
from windlass.core.errors import Unauthenticated, Unavailable
from windlass.wire.identity import OidcIssuer

pytestmark = pytest.mark.anyio

OURS = jwk.OKPKey.generate_key("Ed25519", {"kid": "ours"})


class Desk:
    """An authenticator that trusts the issuer, and the hand on its clock."""

    def __init__(self, issuer: LoopbackIssuer, **settings: Any) -> None:
        self.now = 1000.0
        self.issuer = issuer
        self.settings = OidcIssuer(issuer=issuer.url, audience="windlass", **settings)
        self.auth = Authenticator([OURS.as_dict(private=False)], issuers=[self.verifier()])

    def verifier(self) -> Issuer:
        fetcher = HttpFetcher(allowed_networks=("127.0.0.1/32",), patience=Patience(total=10))
        return Issuer(self.settings, fetcher, monotonic=lambda: self.now)

    async def identify(self, token: str) -> Identity:
        return await self.auth.identify([f"Bearer {token}"])

    async def refused(self, token: str) -> None:
        with pytest.raises(Unauthenticated) as error:
            await self.identify(token)
        assert error.value.code in ("token-invalid", "unauthenticated")


@pytest.fixture
async def issuer() -> AsyncIterator[LoopbackIssuer]:
    async with loopback_issuer() as made:
        yield made


async def test_a_token_of_an_issuer_says_who_it_is(issuer: LoopbackIssuer) -> None:
    identity = await Desk(issuer).identify(issuer.sign())
    assert (identity.subject, identity.tenant, identity.roles, identity.token_id) == ("ada", "other", {"member"}, "j-1")
    assert issuer.fetches == [DISCOVERY, "/keys"]


@pytest.mark.parametrize("kind", ["RSA", "EC", "OKP", "OKP by its new name"])
async def test_each_kind_of_key_that_is_taken_holds(issuer: LoopbackIssuer, kind: str) -> None:
    made: dict[str, Callable[[], Any]] = {
        "RSA": lambda: rsa_key("first"),
        "EC": lambda: jwk.ECKey.generate_key("P-256", {"kid": "e"}),
        "OKP": lambda: jwk.OKPKey.generate_key("Ed25519", {"kid": "o"}),
    }
    issuer.keys = [made[kind.split()[0]]()]
    header = {"alg": "Ed25519"} if "new" in kind else {}
    assert (await Desk(issuer).identify(issuer.sign(header=header))).subject == "ada"


def hmac_signed(issuer: LoopbackIssuer, secret: bytes) -> str:
    """The classic confusion: the public key, which everybody has, as the secret of an HMAC."""
    head = _part({"alg": "HS256", "kid": issuer.keys[-1].kid}) + "." + _part(issuer.claims())
    return f"{head}." + _encoded(hmac.digest(secret, head.encode(), hashlib.sha256))


def _part(document: dict[str, Any]) -> str:
    return _encoded(json.dumps(document).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def pem(issuer: LoopbackIssuer) -> bytes:
    key = rsa_key("first").get_op_key("verify")
    return bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


NOW = time.time
FORGERIES: dict[str, Callable[[LoopbackIssuer], str]] = {
    "no algorithm": lambda i: f"{_part({'alg': 'none'})}.{_part(i.claims())}.",
    "no algorithm, under a key's name": lambda i: f"{_part({'alg': 'None', 'kid': 'first'})}.{_part(i.claims())}.",
    "an HMAC under the public key": lambda i: hmac_signed(i, pem(i)),
    "an HMAC under the public JWK": lambda i: hmac_signed(i, json.dumps(i.keys[-1].as_dict(private=False)).encode()),
    "an HMAC under nothing": lambda i: hmac_signed(i, b""),
    "another's key under its name": lambda i: i.sign(key=rsa_key("thief"), header={"kid": "first"}),
    "an unknown key": lambda i: i.sign(key=rsa_key("thief")),
    "a key that comes along": lambda i: i.sign(
        key=rsa_key("thief"), header={"kid": "first", "jwk": rsa_key("thief").as_dict(private=False)}
    ),
    "a key at an address": lambda i: i.sign(key=rsa_key("thief"), header={"kid": "first", "jku": f"{i.url}/evil"}),
    "a certificate at an address": lambda i: i.sign(
        key=rsa_key("thief"), header={"kid": "first", "x5u": f"{i.url}/evil"}
    ),
    "an algorithm of the same key that is not taken": lambda i: jwt.encode(
        {"alg": "RS512", "kid": "first"}, i.claims(), rsa_key("first"), algorithms=["RS512"]
    ),
    "a probabilistic one": lambda i: jwt.encode(
        {"alg": "PS256", "kid": "first"}, i.claims(), rsa_key("first"), algorithms=["PS256"]
    ),
    "an algorithm of another kind of key": lambda i: i.sign(header={"alg": "RS256"}).replace(
        i.sign().split(".")[0], _part({"alg": "ES256", "kid": "first"})
    ),
    "another audience": lambda i: i.sign(aud="somebody-else"),
    "no audience": lambda i: i.sign(aud=...),
    "another issuer": lambda i: i.sign(iss="https://evil.example"),
    "its own address with a slash more": lambda i: i.sign(iss=f"{i.url}/"),
    "our own name": lambda i: i.sign(iss="windlass"),
    "no issuer": lambda i: i.sign(iss=...),
    "long over": lambda i: i.sign(iat=1, exp=2),
    "no end": lambda i: i.sign(exp=...),
    "an end that is a text": lambda i: i.sign(exp="never"),
    "not yet": lambda i: i.sign(nbf=int(NOW()) + 600),
    "from the future": lambda i: i.sign(iat=int(NOW()) + 600),
    "no subject": lambda i: i.sign(sub=...),
    "a subject that is a list": lambda i: i.sign(sub=["ada"]),
    "a subject without end": lambda i: i.sign(sub="a" * 201),
    "no tenant": lambda i: i.sign(tenant=...),
    "a tenant that is a path": lambda i: i.sign(tenant="../other"),
    "two tenants": lambda i: i.sign(tenant=["local", "other"]),
    "oversized": lambda i: i.sign(padding="x" * 9000),
    "a changed body": lambda i: ".".join(
        (i.sign().split(".")[0], _part({**i.claims(), "roles": ["admin"]}), i.sign().split(".")[2])
    ),
}


@pytest.mark.parametrize("case", FORGERIES)
async def test_a_forged_token_is_nobody(issuer: LoopbackIssuer, case: str) -> None:
    desk = Desk(issuer)
    await desk.refused(FORGERIES[case](issuer))
    assert "/evil" not in issuer.fetches
    assert (await desk.identify(issuer.sign())).subject == "ada", "and a good one still comes in"


async def test_our_own_tokens_are_not_the_issuers_to_sign_and_its_are_not_ours(issuer: LoopbackIssuer) -> None:
    desk = Desk(issuer)
    issuer.keys = [OURS]
    claims = {**issuer.claims(), "iss": "windlass", "aud": "windlass"}
    ours = jwt.encode({"alg": "Ed25519", "kid": "ours"}, claims, OURS, algorithms=["Ed25519"])
    assert (await desk.identify(ours)).subject == "ada", "the control: by our key and in our name"
    assert issuer.fetches == []
    stolen = jwt.encode(
        {"alg": "Ed25519", "kid": "first"}, claims, jwk.OKPKey.generate_key("Ed25519"), algorithms=["Ed25519"]
    )
    await desk.refused(stolen)


async def test_a_rotation_is_noticed_by_the_first_token_of_the_new_key(issuer: LoopbackIssuer) -> None:
    desk = Desk(issuer)
    await desk.identify(issuer.sign())
    issuer.keys = [rsa_key("second")]
    desk.now += FLOOR_SECONDS + 1
    assert (await desk.identify(issuer.sign(jti="j-2"))).token_id == "j-2"
    await desk.refused(issuer.sign(key=rsa_key("first"), jti="j-3"))


async def test_made_up_key_names_make_no_more_than_one_look_in_a_while(issuer: LoopbackIssuer) -> None:
    desk = Desk(issuer)
    await desk.identify(issuer.sign())
    looked = len(issuer.fetches)
    for number in range(50):
        await desk.refused(issuer.sign(key=rsa_key("thief"), header={"kid": f"made-up-{number}"}))
    assert len(issuer.fetches) == looked
    desk.now += FLOOR_SECONDS + 1
    for number in range(50):
        await desk.refused(issuer.sign(key=rsa_key("thief"), header={"kid": f"made-up-{number}"}))
    assert len(issuer.fetches) == looked + 2


async def test_many_first_tokens_at_once_make_one_look(issuer: LoopbackIssuer) -> None:
    desk, found = Desk(issuer), list[Identity]()

    async def one(number: int) -> None:
        found.append(await desk.identify(issuer.sign(jti=f"j-{number}")))

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(one, number)
    assert len(found) == 20
    assert issuer.fetches == [DISCOVERY, "/keys"]


async def test_while_the_issuer_is_away_the_keys_it_had_go_on_counting(issuer: LoopbackIssuer) -> None:
    desk = Desk(issuer)
    await desk.identify(issuer.sign())
    issuer.is_down = True
    desk.now += 100 * FRESH_SECONDS
    assert (await desk.identify(issuer.sign(jti="j-2"))).token_id == "j-2"
    await desk.refused(issuer.sign(key=rsa_key("thief"), jti="j-3"))
    issuer.is_down, issuer.keys = False, [rsa_key("second")]
    desk.now += FLOOR_SECONDS + 1
    assert (await desk.identify(issuer.sign(jti="j-4"))).token_id == "j-4"


async def test_without_any_key_a_token_cannot_be_judged_and_that_is_said(issuer: LoopbackIssuer) -> None:
    desk = Desk(issuer)
    issuer.is_down = True
    with pytest.raises(Unavailable) as error:
        await desk.identify(issuer.sign())
    assert (error.value.code, error.value.retry_after_seconds) == ("issuer-unavailable", 30)
    issuer.is_down = False
    with pytest.raises(Unavailable):
        await desk.identify(issuer.sign())
    desk.now += FLOOR_SECONDS + 1
    assert (await desk.identify(issuer.sign())).subject == "ada"


LIES: dict[str, Callable[[LoopbackIssuer], tuple[str, Any]]] = {
    "a discovery of another issuer": lambda i: (DISCOVERY, {"issuer": "https://x", "jwks_uri": f"{i.url}/keys"}),
    "a discovery that is a page": lambda i: (DISCOVERY, b"<html>"),
    "a discovery without keys": lambda i: (DISCOVERY, {"issuer": i.url}),
    "a discovery that leads inside": lambda i: (DISCOVERY, {"issuer": i.url, "jwks_uri": "http://127.0.0.9:2379/keys"}),
    "a redirect inside": lambda i: ("/keys", "http://169.254.169.254/keys"),
    "keys that are a list": lambda i: ("/keys", []),
    "keys that are texts": lambda i: ("/keys", {"keys": ["a", "b"]}),
    "no keys": lambda i: ("/keys", {"keys": []}),
    "five megabytes": lambda i: ("/keys", b'{"keys": [' + b" " * (5 << 20) + b"]}"),
    "a hundred thousand levels": lambda i: ("/keys", b"[" * 100_000),
    "a shared secret": lambda i: ("/keys", {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first", "alg": "HS256"}]}),
    "a short key": lambda i: ("/keys", {"keys": [rsa_key("short", 1024).as_dict(private=False)]}),
    "a key for something else": lambda i: (
        "/keys",
        {"keys": [{**rsa_key("first").as_dict(private=False), "use": "enc"}]},
    ),
    "a key that is none": lambda i: ("/keys", {"keys": [{"kty": "RSA", "kid": "first", "n": "AQ", "e": "AQAB"}]}),
}


@pytest.mark.parametrize("case", LIES)
async def test_an_issuer_that_lies_makes_nobody_anybody(issuer: LoopbackIssuer, case: str) -> None:
    desk = Desk(issuer)
    path, lie = LIES[case](issuer)
    issuer.lies[path] = lie
    for token in (issuer.sign(), hmac_signed(issuer, b"secret")):
        with pytest.raises((Unavailable, Unauthenticated)):
            await desk.identify(token)
    issuer.lies.clear()
    desk.now += FLOOR_SECONDS + 1
    assert (await desk.identify(issuer.sign())).subject == "ada"


async def test_a_key_is_bound_to_the_algorithm_it_was_published_for(issuer: LoopbackIssuer) -> None:
    issuer.lies["/keys"] = {"keys": [{**rsa_key("first").as_dict(private=False), "alg": "PS256"}]}
    await Desk(issuer).refused(issuer.sign())


async def test_a_token_that_names_no_key_needs_there_to_be_one_only(issuer: LoopbackIssuer) -> None:
    desk = Desk(issuer)
    nameless = jwt.encode({"alg": "RS256"}, issuer.claims(), rsa_key("first"), algorithms=["RS256"])
    assert (await desk.identify(nameless)).subject == "ada"
    issuer.keys = [rsa_key("first"), rsa_key("second")]
    again = Desk(issuer)
    await again.refused(nameless)


async def test_only_the_algorithms_that_were_allowed_hold(issuer: LoopbackIssuer) -> None:
    await Desk(issuer, algorithms=("ES256",)).refused(issuer.sign())


async def test_claims_are_read_as_the_settings_say(issuer: LoopbackIssuer) -> None:
    desk = Desk(
        issuer,
        tenant_claim="org.team",
        tenants={"Computer Vision": "vision"},
        role_claim="groups",
        roles={"ops": "admin", "all": "viewer"},
    )
    token = issuer.sign(org={"team": "Computer Vision"}, groups="all ops nonsense", roles=["member"])
    identity = await desk.identify(token)
    assert (identity.tenant, identity.roles) == ("vision", {"admin", "viewer"})
    await desk.refused(issuer.sign(org={"team": "vision"}, groups="all"))
    await desk.refused(issuer.sign(org="Computer Vision", groups="all"))
    assert (await desk.identify(issuer.sign(org={"team": "Computer Vision"}, groups={"x": 1}))).roles == frozenset()


async def test_no_issuer_makes_an_admin_unless_it_was_mapped_by_name(issuer: LoopbackIssuer) -> None:
    assert (await Desk(issuer).identify(issuer.sign(roles=["admin", "viewer"]))).roles == {"viewer"}


@pytest.mark.parametrize(
    "broken",
    [{"issuer": "http://login.example.com"}, {"issuer": "ftp://x"}, {"jwks": "http://10.0.0.1/keys"}, {"audience": ""},
     {"algorithms": ("HS256",)}, {"algorithms": ("none",)}, {"algorithms": ()}, {"roles": {"x": "root"}},
     {"tenants": {"x": "../y"}}, {"secret": "x"}],
)  # fmt: skip
async def test_settings_that_would_weaken_it_do_not_hold(broken: dict[str, Any]) -> None:
    good = {"issuer": "https://login.example.com", "audience": "windlass"}
    assert OidcIssuer(**good).issuer
    with pytest.raises(ValidationError):
        OidcIssuer(**{**good, **broken})


async def test_through_the_door_it_is_a_caller_like_any_other_and_can_be_revoked(issuer: LoopbackIssuer) -> None:
    async with api_home(issuers=[Desk(issuer).verifier()]) as api:
        theirs = {"Authorization": f"Bearer {issuer.sign()}"}
        made = await api.client.post("/api/v1/jobs", json=manifest("true", suspend=True), headers=theirs)
        assert made.status_code == 201
        assert (await api.client.get("/api/v1/whoami", headers=theirs)).json()["tenant"] == "other"
        stranger = {"Authorization": f"Bearer {issuer.sign(tenant='nobody', jti='j-9')}"}
        assert (await api.client.get("/api/v1/jobs", headers=stranger)).json()["code"] == "tenant-unknown"
        nameless = {"Authorization": f"Bearer {issuer.sign(jti=...)}"}
        named = (await api.client.get("/api/v1/whoami", headers=nameless)).json()["token"]
        assert named.startswith("sha256-")
        admin = api.bearer(roles=("admin",))
        for token, headers in (("j-1", theirs), (named, nameless)):
            gone = await api.client.delete(f"/api/v1/tenants/other/tokens/{token}", headers=admin)
            assert gone.status_code == 200
            refused = await api.client.get("/api/v1/whoami", headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (401, "token-revoked")
