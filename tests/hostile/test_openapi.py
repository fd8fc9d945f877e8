"""The OpenAPI document is true: whatever is generated from it, and against it, gets an answer it describes, and never a 500."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from schemathesis import checks

from tests.api.home import manifest
from tests.api.live import LiveHome, live_home
from windlass.api.context import ApiLimits

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
    checks.missing_required_header,
]
AGAIN = [check for check in CHECKS if check is not checks.negative_data_rejection]
FOLLOWS_UNLESS_TOLD = {"/api/v1/events": True, "/api/v1/events/recorded": False, "/api/v1/audit/export": False}
"""Answers that go on for ever, where they follow; that they do is shown in `tests/api` and `tests/foresight`."""
TRUE = {"true", "1", "yes", "y", "on", "t"}
FINISHED = "finished"
TENANT = "acme"


@pytest.fixture(scope="module")
def live() -> Iterator[LiveHome]:
    with start_blocking_portal("asyncio") as portal:
        with portal.wrap_async_context_manager(live_home(limits=ApiLimits(upload_bytes_max=1 << 20))) as home:
            portal.call(_prepare, home)
            yield home


@pytest.fixture(scope="module")
def described(live: LiveHome) -> Any:
    loaded = schemathesis.openapi.from_dict(live.api.app.openapi())
    loaded.config.update(base_url=live.url)
    return loaded


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as one:
        yield one


@pytest.fixture(scope="module")
def member(live: LiveHome) -> dict[str, str]:
    return live.api.bearer()


@pytest.fixture(scope="module")
def admin(live: LiveHome) -> dict[str, str]:
    """Behind a refusal nothing would be seen of the doors that only admins pass."""
    return live.api.bearer(roles=("admin",))


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_is_described(
    case: schemathesis.Case, session: requests.Session, member: dict[str, str], admin: dict[str, str]
) -> None:
    """A few of each operation, others in each run; the long version asks many more."""
    _check(case, session, member, admin)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@schema.parametrize()
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_is_described_for_long(
    case: schemathesis.Case, session: requests.Session, member: dict[str, str], admin: dict[str, str]
) -> None:
    _check(case, session, member, admin)


def _check(case: schemathesis.Case, session: requests.Session, member: dict[str, str], admin: dict[str, str]) -> None:
    _let_it_end(case)
    case.call_and_validate(checks=CHECKS, headers=admin, session=session, timeout=240)
    case.call_and_validate(checks=AGAIN, headers=member, session=session, timeout=240)
    if _points_at_something(case):
        case.call_and_validate(checks=AGAIN, headers=member, session=session, timeout=240)
        case.call_and_validate(checks=AGAIN, headers=admin, session=session, timeout=240)


def _let_it_end(case: schemathesis.Case) -> None:
    """What would follow for ever is asked not to; all else about the question stays as it was made up."""
    follows = FOLLOWS_UNLESS_TOLD.get(case.operation.path)
    if follows is None:
        return
    query = dict(case.query or {})
    said = query.get("follow", follows)
    if str(said[-1] if isinstance(said, list) and said else said).strip().lower() in TRUE:
        case.query = {**query, "follow": False}


def _points_at_something(case: schemathesis.Case) -> bool:
    """Turned into the same request about a job that exists: random names find nothing."""
    parameters = case.path_parameters
    if not isinstance(parameters, dict) or not parameters:
        return False
    for name in parameters:
        parameters[name] = _existing(case.operation.path, name)
    return True


def _existing(path: str, parameter: str) -> str:
    if "/volumes/{name}" in path:
        return f"artifacts-{FINISHED}"
    return TENANT if "/tenants/{name}" in path and parameter == "name" else FINISHED


async def _prepare(home: LiveHome) -> None:
    made = await home.api.submit(*("do", "print hello", "warn oh", "write a.txt x"), name=FINISHED)
    await home.api.until(made["metadata"]["uid"])
    await home.api.client.post("/api/v1/jobs", json=manifest("true", name="held", suspend=True))
    acme = {"apiVersion": "windlass.dev/v1", "kind": "Tenant", "metadata": {"name": TENANT}}
    admin = home.api.bearer(roles=("admin",))
    assert (await home.api.client.post("/api/v1/tenants", json=acme, headers=admin)).status_code == 201
