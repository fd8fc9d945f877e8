"""What would these manifests do? The same body as a batch of jobs; nothing is accepted, stored or held.

Whoever may look may ask. A job that is there already is judged as `apply` judges it.
"""

from functools import partial

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.bodies import document_type, read_body
from windlass.api.context import Here, Reader
from windlass.api.jobs import check_same, find_named
from windlass.api.openapi import REFUSALS, json_body
from windlass.wire import schema
from windlass.wire.documents import DocumentLimits
from windlass.wire.foresight import plan_document

PLANNED_MAX = 100
"""Manifests at once: each is submitted in the trial."""

router = APIRouter(prefix="/api/v1", tags=["foresight"], responses=REFUSALS)


@router.post("/plan", response_model=schema.PlanShape, openapi_extra=json_body(schema.PlanRequest))
async def plan(request: Request, here: Here, caller: Reader) -> Response:
    """Node, start, price and whom it delays, for each: as if they came in this order, now."""
    document_type(request)
    bytes_max = here.limits.bulk_bytes_max
    raw = await read_body(request, bytes_max=bytes_max)
    read = partial(here.manifests.read_batch, raw, items_max=PLANNED_MAX, limits=DocumentLimits(bytes_max=bytes_max))
    submissions = await anyio.to_thread.run_sync(read)
    names = {one.name for one in submissions if one.name}
    views = [await find_named(here, caller.tenant, name) for name in sorted(names)]
    known = {view.job.name: (view.job, view.spec) for view in views if view is not None}
    found = here.plane.foresight.plan(caller.tenant, submissions, known=known, check_same=check_same)
    return answer(plan_document(found, wall=here.plane.clock.wall))
