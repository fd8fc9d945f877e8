"""Pools: an admin's to make, change, scale and remove, with their nodes; everybody sees those they may use."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.auth import Identity
from windlass.api.bodies import read_document, read_model
from windlass.api.context import Admin, Context, Here, Reader
from windlass.api.openapi import REFUSALS, json_body
from windlass.core.errors import Conflict, Fault, NotFound
from windlass.core.model.ids import NodeId, PoolId
from windlass.core.model.money import PriceBook
from windlass.core.model.node import Node
from windlass.core.model.pool import Pool
from windlass.wire import pooling
from windlass.wire.faults import invalid
from windlass.wire.pool import PoolDocument, pool_manifest, read_pool
from windlass.wire.tenant import merged

router = APIRouter(prefix="/api/v1", tags=["pools"], responses=REFUSALS)

Name = Annotated[str, Path(min_length=1, max_length=63)]
_BODY = json_body(PoolDocument, takes_yaml=True)
_CHANGE = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
    "description": "A part of the manifest: what it names is replaced, mappings are merged.",
}


class HistoryQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=100, ge=1, le=1000)
    before: int | None = Field(default=None, ge=0, description="Older than this one: the `next` of the page before.")


@router.get("/pools", response_model=pooling.PoolList)
async def list_pools(here: Here, caller: Reader) -> Response:
    items = [_manifest(here, pool) for pool in here.plane.pools.all() if _may_see(caller, pool)]
    return answer({"items": items, "revision": here.plane.read_model.revision})


@router.get("/pools/{name}", response_model=pooling.PoolManifest)
async def get_pool(here: Here, caller: Reader, name: Name) -> Response:
    return answer(_manifest(here, _visible(here, caller, name)))


@router.get("/pools/{name}/metrics", response_model=pooling.PoolMetrics)
async def get_pool_metrics(here: Here, caller: Reader, name: Name) -> Response:
    seen = here.plane.pools.seen(_visible(here, caller, name))
    if seen is None:
        raise Conflict(f"pool {name!r} is static: it has the nodes it has", code="pool-static")
    return answer(pooling.metrics_document(seen))


@router.get("/pools/{name}/scaling/history", response_model=pooling.ScalingHistory)
async def list_scaling(here: Here, caller: Reader, name: Name, query: Annotated[HistoryQuery, Query()]) -> Response:
    """Newest first: what was seen, which rule, what was done and what held it back."""
    pool = _visible(here, caller, name)
    steps = await here.plane.read_model.scaling(
        pool.id, before=query.before, limit=query.limit + 1, since=pool.created_at
    )
    shown = steps[: query.limit]
    items = [pooling.step_document(step, wall=here.plane.clock.wall) for step in shown]
    return answer({"items": items, "next": shown[-1].number if len(steps) > query.limit else None})


@router.post("/pools", status_code=201, response_model=pooling.PoolManifest, openapi_extra=_BODY)
async def create_pool(request: Request, here: Here, caller: Admin) -> Response:
    _, data = await read_document(request, bytes_max=here.limits.manifest_bytes_max, takes_yaml=True)
    made, revision = await here.plane.pools.create(*_read(data))
    return _created(here, made, revision)


@router.put(
    "/pools/{name}",
    response_model=pooling.PoolManifest,
    responses={201: {"model": pooling.PoolManifest, "description": "Created"}},
    openapi_extra=_BODY,
)
async def apply_pool(request: Request, here: Here, caller: Admin, name: Name) -> Response:
    """Make it so: created when absent, else changed to what is written."""
    _, data = await read_document(request, bytes_max=here.limits.manifest_bytes_max, takes_yaml=True)
    wanted = _read(data, name=name)
    try:
        here.plane.pools.find(wanted[0].id)
    except NotFound:
        made, revision = await here.plane.pools.create(*wanted)
        return _created(here, made, revision)
    made, revision = await here.plane.pools.change(wanted[0].id, lambda known, prices: wanted)
    return answer(_manifest(here, made), revision=revision)


@router.patch("/pools/{name}", response_model=pooling.PoolManifest, openapi_extra=_CHANGE)
async def change_pool(request: Request, here: Here, caller: Admin, name: Name) -> Response:
    _, data = await read_document(request, bytes_max=here.limits.manifest_bytes_max)

    def edit(known: Pool, prices: PriceBook | None) -> tuple[Pool, PriceBook | None]:
        return _read(merged(_manifest(here, known), data), name=name)

    made, revision = await here.plane.pools.change(PoolId(name), edit)
    return answer(_manifest(here, made), revision=revision)


@router.delete("/pools/{name}", status_code=202, response_model=pooling.DeletedPool)
async def delete_pool(here: Here, caller: Admin, name: Name) -> Response:
    """Refused while it has nodes or workers, or a tenant may use no other. It leaves the quotas that name it."""
    named, revision = await here.plane.pools.delete(PoolId(name))
    return answer({"name": name, "leftQuotasOf": named}, status=202, revision=revision)


@router.post("/pools/{name}/scale", response_model=pooling.ScalingItem, openapi_extra=json_body(pooling.ScaleRequest))
async def scale_pool(request: Request, here: Here, caller: Admin, name: Name) -> Response:
    """By hand, at once: within its bounds, and never by ending a busy worker."""
    asked = await read_model(request, pooling.ScaleRequest, bytes_max=here.limits.manifest_bytes_max)
    step, revision = await here.plane.pools.scale(PoolId(name), asked.workers)
    return answer(pooling.step_document(step, wall=here.plane.clock.wall), revision=revision)


@router.post("/nodes/{name}/cordon", response_model=pooling.NodeStateShape)
async def cordon_node(here: Here, caller: Admin, name: Name) -> Response:
    """No new runs; what runs goes on."""
    return _node(*await here.plane.pools.cordon(NodeId(name)))


@router.post("/nodes/{name}/uncordon", response_model=pooling.NodeStateShape)
async def uncordon_node(here: Here, caller: Admin, name: Name) -> Response:
    return _node(*await here.plane.pools.uncordon(NodeId(name)))


@router.post("/nodes/{name}/drain", response_model=pooling.NodeStateShape)
async def drain_node(here: Here, caller: Admin, name: Name) -> Response:
    """No new runs; a worker is given back after its last, any other node is idle then."""
    return _node(*await here.plane.pools.drain(NodeId(name)))


def _node(node: Node, revision: int) -> Response:
    return answer({"name": node.id, "state": node.state.value}, revision=revision)


def _visible(here: Context, caller: Identity, name: str) -> Pool:
    """A pool of other tenants and one that is absent look alike."""
    for pool in here.plane.pools.all():
        if pool.id == name and _may_see(caller, pool):
            return pool
    raise NotFound(f"no pool {name!r}", hint="`windlass pools list` shows those you may use")


def _may_see(caller: Identity, pool: Pool) -> bool:
    return caller.is_admin or pool.admits(caller.tenant)


def _read(data: object, *, name: str = "") -> tuple[Pool, PriceBook | None]:
    wanted = read_pool(data)
    if name and wanted[0].id != name:
        raise invalid("the manifest", [Fault("metadata.name", f"is not the {name} of the address")])
    return wanted


def _manifest(here: Context, pool: Pool) -> dict[str, object]:
    pools, wall = here.plane.pools, here.plane.clock.wall
    workers = [(worker, pools.running(worker)) for worker in pools.workers(pool.id)]
    status = pooling.status_document(pools.nodes(pool.id), workers, lacks=pools.lacks(pool), wall=wall)
    return pool_manifest(pool, pools.prices(pool.id), status=status, created_at=wall(pool.created_at))


def _created(here: Context, made: Pool, revision: int) -> Response:
    headers = {"Location": f"/api/v1/pools/{made.id}"}
    return answer(_manifest(here, made), status=201, revision=revision, headers=headers)
