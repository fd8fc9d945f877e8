"""Why does it wait? Answered from the live World; of a job that is over, from its end."""

from fastapi import APIRouter
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.context import Here, Reader
from windlass.api.jobs import Ref
from windlass.api.openapi import REFUSALS
from windlass.core.errors import NotFound
from windlass.core.foresight.why import why_over
from windlass.wire import schema
from windlass.wire.foresight import why_document

router = APIRouter(prefix="/api/v1/jobs", tags=["foresight"], responses=REFUSALS)


@router.get("/{ref}/why", response_model=schema.WhyShape)
async def why(here: Here, caller: Reader, ref: Ref) -> Response:
    """The gate that holds it, every gate with its numbers, who is ahead, an estimate of its start, and what would start it now."""
    view = await here.plane.read_model.find_job(caller.tenant, ref)
    try:
        found = here.plane.foresight.why(view.job.id, tenant=caller.tenant)
    except NotFound:
        found = why_over(view.job)
    return answer(why_document(found, wall=here.plane.clock.wall, is_admin=caller.is_admin))
