"""What a route works with. Made once in `app`, found through the application; no module holds any of it."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final
from urllib.parse import parse_qsl

from fastapi import Depends
from msgspec import Struct
from starlette.requests import HTTPConnection
from starlette.types import Scope

from windlass.api.auth import Authenticator, Identity
from windlass.api.rates import Rates
from windlass.api.seats import Seats
from windlass.control.acting import acting
from windlass.control.plane import ControlPlane
from windlass.core.errors import Denied, Fault, Invalid, Unauthenticated, WindlassError
from windlass.core.model.audit import Act
from windlass.core.model.tenant import Tenant
from windlass.observe.metrics import ApiMetrics
from windlass.ports.fetcher import Fetcher
from windlass.ports.signer import Signer
from windlass.wire.accepted import AcceptedAnswers
from windlass.wire.faults import invalid, show
from windlass.wire.manifests import Manifests
from windlass.wire.tenant import QuotaDocument

REVISION_HEADER: Final = "windlass-revision"
STALE_HEADER: Final = "windlass-stale"
_REVISION_DIGITS_MAX: Final = 18
_TENANT_HEADERS: Final = frozenset(
    {b"tenant", b"tenant-id", b"x-tenant", b"x-tenant-id", b"windlass-tenant", b"x-windlass-tenant"}
)
"""What people who know other servers may put a tenant's name into."""


class ApiLimits(Struct, frozen=True, kw_only=True):
    manifest_bytes_max: int = 1 << 20
    bulk_bytes_max: int = 4 << 20
    bulk_items_max: int = 1000
    upload_bytes_max: int = 16 << 30
    """Bytes of input one upload may bring, unpacked."""
    fetch_bytes_max: int = 4 << 30
    requests_max: int = 4000
    """Being answered at once, streams included; the next one is told to come back, while those inside are served well."""
    streams_max: int = 1000
    """Open followers (logs, events, terminals) at once; the next one is told to come back."""


@dataclass(frozen=True, kw_only=True)
class Context:
    plane: ControlPlane
    auth: Authenticator
    fetcher: Fetcher
    metrics: ApiMetrics
    limits: ApiLimits
    seats: Seats
    manifests: Manifests
    accepted: AcceptedAnswers
    rates: Rates
    signer: Signer
    has_open_metrics: bool
    starts_with: QuotaDocument
    """What is left out of a new tenant's quota."""
    version: str


def context_of(connection: HTTPConnection) -> Context:
    context: Context = connection.scope["app"].context
    return context


async def caller_of(connection: HTTPConnection) -> Identity:
    """Who calls, with a role, of a tenant that exists, by a token nobody revoked, not too fast."""
    context = context_of(connection)
    authorization = connection.headers.getlist("authorization")
    identity = context.auth.recall(authorization) or await context.auth.identify(authorization)
    context.rates.check(_check(context, identity))
    connection.scope["state"]["identity"] = identity
    if connection.scope.get("query_string") and connection.scope["type"] == "http":
        refuse_parameters(connection.scope)
    _check_named(connection.scope, identity)
    return identity


def refuse_parameters(scope: Scope) -> None:
    """Of a route that takes none: what somebody asked for there would be passed over in silence. Others judge their own."""
    dependant = getattr(scope["route"], "dependant", None)
    if dependant is not None and dependant.query_params:
        return
    names = dict.fromkeys(
        name for name, _ in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    )
    raise invalid("the request", [Fault(show(name), "is not a parameter here") for name in names or ("(query)",)])


def _check_named(scope: Scope, identity: Identity) -> None:
    """The token alone says whose a request is: a header that names another is refused, not read over."""
    for name, value in scope["headers"]:
        if name in _TENANT_HEADERS and value.decode("latin-1").strip() != identity.tenant:
            raise Denied(
                f"a header names another tenant than the token's, which is {identity.tenant!r}",
                code="tenant-header",
                hint="leave the header out: a token is of one tenant",
            )


def shut_out(context: Context, scope: Scope) -> WindlassError | None:
    """Asked by streams and terminals, which outlive the check at their door: why its caller is shut out by now, if so."""
    identity: Identity | None = scope["state"].get("identity")
    if identity is None:
        return None
    try:
        context.auth.check_end(identity)
        _check(context, identity)
    except WindlassError as error:
        return error
    return None


async def writer_of(connection: HTTPConnection) -> Identity:
    identity = await caller_of(connection)
    act(connection, identity)
    identity.must_write()
    return identity


async def admin_of(connection: HTTPConnection) -> Identity:
    identity = await caller_of(connection)
    if connection.scope.get("method") != "GET":
        act(connection, identity)
    identity.must_govern()
    return identity


def act(connection: HTTPConnection, identity: Identity) -> None:
    """From here on whatever is decided in this task is done by this caller, and a refusal is theirs."""
    scope = connection.scope
    client, state = scope.get("client"), scope["state"]
    doing = Act(identity.author, client[0] if client else "", state["request_id"], _verb(scope["route"].name))
    state["act"] = doing
    acting.set(doing)


@lru_cache(maxsize=256)
def _verb(name: str) -> str:
    """Routes are functions named by what they do: `cancel_job` cancels."""
    return name.partition("_")[0]


def _check(context: Context, identity: Identity) -> Tenant:
    """Dictionary looks only: every request passes here."""
    tables = context.plane.brain.world.tables
    if (identity.tenant, identity.token_id) in tables.revoked:
        raise Unauthenticated("the token was revoked", code="token-revoked", hint="get a new one")
    tenant = tables.tenants.get(identity.tenant)
    if tenant is None:
        raise Denied(f"there is no tenant {identity.tenant!r} here", code="tenant-unknown")
    identity.must_look()
    return tenant


async def fresh_reader_of(connection: HTTPConnection) -> Identity:
    """The caller, once the read model holds everything committed before the request, and what the client has seen.

    A read model that cannot keep up is no reason to answer nothing: after a second the answer is stale and says so.
    """
    identity = await caller_of(connection)
    await refresh(connection)
    return identity


async def refresh(connection: HTTPConnection) -> None:
    seen = _revision_seen(connection)
    read_model = context_of(connection).plane.read_model
    is_fresh = await read_model.caught_up()
    if is_fresh and seen is not None:
        is_fresh = await read_model.caught_up(seen)
    if not is_fresh:
        connection.state.is_stale = True


def _revision_seen(connection: HTTPConnection) -> int | None:
    text = connection.headers.get(REVISION_HEADER)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > _REVISION_DIGITS_MAX:
        raise Invalid("the header Windlass-Revision must be a whole number", code="revision")
    return int(text)


async def _here(connection: HTTPConnection) -> Context:
    return context_of(connection)  # a plain function would be called in a thread


Here = Annotated[Context, Depends(_here)]
Reader = Annotated[Identity, Depends(fresh_reader_of)]
Writer = Annotated[Identity, Depends(writer_of)]
Admin = Annotated[Identity, Depends(admin_of)]
