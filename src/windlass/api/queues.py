"""The queue and fairness. A tenant sees its own; admins see all of them, or one they name."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.auth import Identity
from windlass.api.context import Context, Here, Reader
from windlass.api.openapi import REFUSALS
from windlass.core.errors import NotFound
from windlass.core.model.ids import Millis, TenantId
from windlass.wire import queues

router = APIRouter(prefix="/api/v1", tags=["queues"], responses=REFUSALS)

_WINDOW_SECONDS_MAX = 3600


class QueueParameters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tenant: str | None = Field(default=None, max_length=63, description="One tenant's; admins only see others'.")


class FairnessParameters(QueueParameters):
    window: int | None = Field(
        default=None,
        ge=1,
        le=_WINDOW_SECONDS_MAX,
        description="Seconds back, told to five minutes; since the server started when absent.",
    )


@router.get("/queues/status", response_model=queues.QueueStatus)
async def list_queues(here: Here, caller: Reader, query: Annotated[QueueParameters, Query()]) -> Response:
    """Per tenant and shape: how many wait, who is next, who waits longest, and what it waits for."""
    plane = here.plane
    views = plane.queues(_whose(here, caller, query.tenant))
    return answer(queues.queue_document(views, now=plane.clock.now()))


@router.get("/fairness", response_model=queues.Fairness)
async def show_fairness(here: Here, caller: Reader, query: Annotated[FairnessParameters, Query()]) -> Response:
    """What each tenant deserved by its weight while it had jobs waiting, what it received, and how far it is behind."""
    window_ms = Millis(query.window * 1000) if query.window is not None else None
    view = here.plane.fairness(_whose(here, caller, query.tenant), window_ms=window_ms)
    return answer(queues.fairness_document(view, wall=here.plane.clock.wall))


def _whose(here: Context, caller: Identity, named: str | None) -> TenantId | None:
    """None: everybody's. Another tenant's looks like one that is not there."""
    if not caller.is_admin:
        if named not in (None, caller.tenant):
            raise NotFound(f"no tenant {named!r}")
        return caller.tenant
    if named is not None and named not in here.plane.brain.world.tables.tenants:
        raise NotFound(f"no tenant {named!r}", hint="`windlass tenants list` shows them")
    return TenantId(named) if named is not None else None
