"""Tokens: issued by the server for a tenant, listed without themselves, revoked at once and for good."""

import json
from contextlib import suppress
from typing import Any

import anyio
import pytest

from tests.api.home import ApiHome, api_home, manifest
from tests.api.live import live_home
from windlass.control.brain import rebuild
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.token import IssuedToken
from windlass.core.world.policy import Policy
from windlass.core.world.tokens import FORGET_AFTER_SECONDS, forget_tokens
from windlass.wire.tenancy import NewToken, TokenList

pytestmark = pytest.mark.anyio

TOKENS = "/api/v1/tenants/other/tokens"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def issue(api: ApiHome, **asked: Any) -> NewToken:
    answer = await api.client.post(TOKENS, json=asked, headers=api.bearer(roles=("admin",)))
    assert answer.status_code == 201, answer.text
    return NewToken.model_validate_json(answer.content)


async def test_an_issued_token_is_of_its_tenant_and_role_and_nothing_more(api: ApiHome) -> None:
    made = await issue(api, role="viewer", subject="ci", ttl="1h")
    me = (await api.client.get("/api/v1/whoami", headers=bearer(made.token))).json()
    assert (me["tenant"], me["roles"], me["subject"], me["token"]) == ("other", ["viewer"], "ci", made.id)
    refused = await api.client.post("/api/v1/jobs", json=manifest("true"), headers=bearer(made.token))
    assert (refused.status_code, refused.json()["code"]) == (403, "read-only")


async def test_tokens_are_listed_by_what_they_are_and_never_shown_again(api: ApiHome) -> None:
    made = [await issue(api, role="member"), await issue(api, role="admin", subject="ops")]
    listed = await api.client.get(TOKENS, headers=api.bearer(roles=("admin",)))
    found = TokenList.model_validate_json(listed.content)
    assert [(one.id, one.subject, one.role) for one in found.items] == [
        (made[0].id, "other", "member"), (made[1].id, "ops", "admin"),
    ]  # fmt: skip
    for one in made:
        assert one.token not in listed.text
        assert one.token.split(".")[2] not in str((await api.home.store.range("")).items)


async def test_a_revoked_token_is_refused_at_once_and_after_a_restart(api: ApiHome) -> None:
    made, kept = await issue(api), await issue(api)
    assert (await api.client.get("/api/v1/jobs", headers=bearer(made.token))).status_code == 200
    admin = api.bearer(roles=("admin",))
    revoked = await api.client.delete(f"{TOKENS}/{made.id}", headers=admin)
    assert revoked.status_code == 200
    assert revoked.json()["revokedAt"]
    for method, path in (("GET", "/api/v1/jobs"), ("POST", "/api/v1/jobs"), ("GET", "/api/v1/whoami")):
        refused = await api.client.request(method, path, json=manifest("true"), headers=bearer(made.token))
        assert (refused.status_code, refused.json()["code"]) == (401, "token-revoked")
    assert (await api.client.get("/api/v1/jobs", headers=bearer(kept.token))).status_code == 200
    world, _, _ = await rebuild(api.home.store, epoch=9, policy=Policy())
    assert world.tables.revoked == {(TenantId("other"), made.id)}
    assert (await api.client.delete(f"{TOKENS}/{made.id}", headers=admin)).json() == revoked.json()


async def test_a_token_that_is_not_on_record_is_revoked_once_it_was_seen(api: ApiHome) -> None:
    admin, token = api.bearer(roles=("admin",)), api.token(tenant="other")
    me = (await api.client.get("/api/v1/whoami", headers=bearer(token))).json()
    assert (await api.client.delete(f"{TOKENS}/{me['token']}", headers=admin)).status_code == 200
    assert (await api.client.get("/api/v1/whoami", headers=bearer(token))).status_code == 401
    missing = await api.client.delete(f"{TOKENS}/mistyped", headers=admin)
    assert (missing.status_code, missing.json()["code"]) == (404, "not-found")
    assert (await api.client.delete(f"{TOKENS}/mistyped?unseen=true", headers=admin)).status_code == 200


async def test_revoking_in_one_tenant_leaves_a_namesake_in_another(api: ApiHome) -> None:
    admin = api.bearer(roles=("admin",))
    assert (await api.client.delete(f"{TOKENS}/shared?unseen=true", headers=admin)).status_code == 200
    token = api.keys.issue(
        subject="x", tenant="local", roles=("viewer",), token_id="shared", now=_now(api), lifetime_seconds=60
    )
    assert (await api.client.get("/api/v1/whoami", headers=bearer(token))).status_code == 200


async def test_a_record_goes_when_its_token_would_have_ended_anyway(api: ApiHome) -> None:
    made = await issue(api, ttl=60)
    await api.client.delete(f"{TOKENS}/{made.id}", headers=api.bearer(roles=("admin",)))
    world = api.home.plane.brain.world
    now, end = Millis(api.home.plane.clock.now()), _now(api) + 61
    forget_tokens(world, wall_seconds=end, now=now)
    assert len(world.tables.tokens) == 1
    forget_tokens(world, wall_seconds=end + FORGET_AFTER_SECONDS, now=now)
    assert not world.tables.tokens
    assert not world.tables.revoked


async def test_a_stream_that_is_open_ends_with_the_token_it_was_opened_by() -> None:
    async with live_home() as live:
        made = await issue(live.api)
        with anyio.fail_after(60):
            async with live.session.get(f"{live.url}/api/v1/events", headers=bearer(made.token)) as stream:
                assert (await stream.content.readline()).startswith(b":")
                await live.api.client.delete(f"{TOKENS}/{made.id}", headers=live.api.bearer(roles=("admin",)))
                hidden = manifest("true", name="hidden", suspend=True)
                await live.api.client.post("/api/v1/jobs", json=hidden, headers=live.api.bearer(tenant="other"))
                rest = (await stream.content.read()).decode()
        assert "event: error" in rest
        assert "token-revoked" in rest
        assert "hidden" not in rest


async def test_a_terminal_that_is_open_ends_with_the_token_it_was_opened_by() -> None:
    async with live_home() as live:
        admin = live.api.bearer(roles=("admin",))
        answer = await live.api.client.post("/api/v1/tenants/local/tokens", json={}, headers=admin)
        made = answer.json()
        job = await live.api.submit("sleep", "600", name="open", graceSeconds=0)
        await live.api.until(job["metadata"]["uid"], "RUNNING")
        with anyio.fail_after(60):
            address = f"{live.url}/api/v1/jobs/open/exec?command=copy"
            async with live.session.ws_connect(address, headers=bearer(made["token"])) as socket:
                await live.api.client.delete(f"/api/v1/tenants/local/tokens/{made['id']}", headers=admin)
                with suppress(ConnectionError):  # it may be shut out already
                    await socket.send_bytes(b"hello")
                words = [json.loads(message.data) async for message in socket]
        assert words[-1]["error"]["code"] == "token-revoked"


@pytest.mark.parametrize(
    "asked",
    [{"role": "owner"}, {"ttl": 59}, {"ttl": "367d"}, {"ttl": -1}, {"subject": ""}, {"subject": "a\nb"}, {"tenant": "local"},
     {"subject": "x" * 201}, {"roles": ["admin"]}, [], "x"],
)  # fmt: skip
async def test_what_cannot_be_meant_issues_nothing(api: ApiHome, asked: Any) -> None:
    before = await api.trace()
    answer = await api.client.post(TOKENS, json=asked, headers=api.bearer(roles=("admin",)))
    assert answer.status_code == 400, answer.text
    assert await api.trace() == before


async def test_no_token_is_issued_for_a_tenant_that_is_not_there(api: ApiHome) -> None:
    answer = await api.client.post("/api/v1/tenants/nobody/tokens", json={}, headers=api.bearer(roles=("admin",)))
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


async def test_a_token_without_a_role_opens_nothing(api: ApiHome) -> None:
    for path in ("/api/v1/whoami", "/api/v1/jobs"):
        answer = await api.client.get(path, headers=api.bearer(roles=("wizard",)))
        assert (answer.status_code, answer.json()["code"]) == (403, "no-role")


async def test_metrics_are_an_admins_where_others_can_ask() -> None:
    async with api_home(has_open_metrics=False) as api:
        for path in ("/metrics", "/api/v1/metrics/prometheus"):
            assert (await api.client.get(path, headers={"Authorization": ""})).status_code == 401
            member = await api.client.get(path)
            assert (member.status_code, member.json()["code"]) == (403, "not-admin")
            seen = await api.client.get(path, headers=api.bearer(roles=("admin",)))
            assert (seen.status_code, "windlass_api_requests_total" in seen.text) == (200, True)
            assert 'tenant="' not in seen.text


def _now(api: ApiHome) -> float:
    clock = api.home.plane.clock
    return clock.wall(clock.now())


def test_the_record_of_a_token_holds_no_token() -> None:
    assert "token" not in IssuedToken.__struct_fields__
