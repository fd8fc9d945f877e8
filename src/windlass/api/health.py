"""Is it alive, is it ready, what does it measure, what is it, and who am I to it."""

from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.context import Admin, Context, Here, Reader, admin_of
from windlass.api.openapi import REFUSALS, refusals
from windlass.core.compiled import IS_COMPILED
from windlass.observe.metrics import CONTENT_TYPE
from windlass.wire import schema
from windlass.wire.render import node_document, timestamp

open_router = APIRouter(tags=["health"])
"""Without a token: what a load balancer needs, and nothing of any tenant."""
router = APIRouter(prefix="/api/v1", tags=["server"], responses=REFUSALS)

_METRICS: dict[int | str, dict[str, Any]] = refusals(401, 403, 429) | {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text format."}
}


@open_router.get("/healthz", response_model=schema.Health)
async def healthz() -> Response:
    """The process answers. Nothing else is asked."""
    return answer({"status": "ok"})


@open_router.get(
    "/readyz", response_model=schema.Ready, responses={503: {"model": schema.Ready, "description": "Not ready"}}
)
async def readyz(here: Here) -> Response:
    state = await here.plane.is_ready()
    parts = [{"name": name, "isReady": said == "ok", "detail": said} for name, said in state.parts.items()]
    headers = None if state.is_ready else {"Retry-After": "2"}
    return answer({"isReady": state.is_ready, "parts": parts}, status=200 if state.is_ready else 503, headers=headers)


@open_router.get("/metrics", response_class=Response, responses=_METRICS)
async def metrics(request: Request, here: Here) -> Response:
    """Of the whole installation, and so an admin's; without a token where only this machine can ask."""
    if not here.has_open_metrics:
        await admin_of(request)
    return await _metrics(here)


@router.get("/metrics/prometheus", response_class=Response, responses=_METRICS)
async def api_metrics(here: Here, caller: Admin) -> Response:
    return await _metrics(here)


@router.get("/nodes", response_model=schema.NodeList)
async def nodes(here: Here, caller: Reader) -> Response:
    """Of pools that the caller may use; admins see all."""
    whose = None if caller.is_admin else caller.tenant
    return answer({"items": [node_document(view) for view in here.plane.nodes(whose)]})


@router.get("/version", response_model=schema.Version)
async def version(here: Here, caller: Reader) -> Response:
    plane = here.plane
    runtime = {"runtime": plane.runtime_name, "runtimeKind": plane.runtime_kind}
    return answer({"name": "windlass", "version": here.version, "api": "v1", **runtime, "compiled": IS_COMPILED})


@router.get("/whoami", response_model=schema.WhoAmI)
async def whoami(caller: Reader) -> Response:
    return answer(
        {
            "subject": caller.subject,
            "tenant": caller.tenant,
            "roles": sorted(caller.roles),
            "token": caller.token_id,
            "expiresAt": timestamp(caller.expires_at),
        }
    )


async def _metrics(here: Context) -> Response:
    here.metrics.jobs(await here.plane.read_model.counts())
    urgent, missed = here.plane.deadlines()
    here.metrics.deadlines({urgency.name.lower().replace("_", "-"): count for urgency, count in urgent.items()}, missed)
    webhooks = here.plane.webhooks
    here.metrics.webhooks({state.value: count for state, count in webhooks.tally.items()}, webhooks.owed)
    here.metrics.pools(here.plane.pools.figures())
    page = await anyio.to_thread.run_sync(here.metrics.page)
    return Response(page, media_type=CONTENT_TYPE)
