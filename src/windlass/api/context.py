"""What a route works with. Made once in `app`, found through the application's state; no module holds any of it."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends
from msgspec import Struct
from starlette.requests import HTTPConnection

from windlass.api.auth import Authenticator, Identity
from windlass.api.seats import Seats
from windlass.control.plane import ControlPlane
from windlass.core.errors import Invalid
from windlass.observe.metrics import ApiMetrics
from windlass.ports.fetcher import Fetcher
from windlass.wire.manifests import Manifests

REVISION_HEADER: Final = "windlass-revision"
STALE_HEADER: Final = "windlass-stale"
_REVISION_DIGITS_MAX: Final = 18


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
    version: str
    preset_image: str = ""


def context_of(connection: HTTPConnection) -> Context:
    context: Context = connection.app.state.windlass
    return context


def caller_of(connection: HTTPConnection) -> Identity:
    return context_of(connection).auth.identify(connection.headers.getlist("authorization"))


def writer_of(connection: HTTPConnection) -> Identity:
    identity = caller_of(connection)
    identity.must_write()
    return identity


async def fresh_reader_of(connection: HTTPConnection) -> Identity:
    """The caller, once the read model holds everything committed before the request, and what the client has seen.

    A read model that cannot keep up is no reason to answer nothing: after a second the answer is stale and says so.
    """
    identity = caller_of(connection)
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


Here = Annotated[Context, Depends(context_of)]
Reader = Annotated[Identity, Depends(fresh_reader_of)]
Writer = Annotated[Identity, Depends(writer_of)]
