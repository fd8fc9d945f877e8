"""Tenants: an admin's to make, change and remove; everyone else sees their own and no other."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.auth import Identity
from windlass.api.bodies import read_document
from windlass.api.context import Admin, Context, Here, Reader
from windlass.api.openapi import REFUSALS, json_body
from windlass.core.errors import Fault, NotFound
from windlass.core.model.ids import TenantId
from windlass.core.model.tenant import Tenant
from windlass.wire.faults import invalid
from windlass.wire.tenancy import DeletedTenant, TenantList, TenantManifest, status_document
from windlass.wire.tenant import TenantDocument, merged, read_tenant, tenant_manifest

router = APIRouter(prefix="/api/v1/tenants", tags=["tenants"], responses=REFUSALS)

Name = Annotated[str, Path(min_length=1, max_length=63)]
_BODY = json_body(TenantDocument, takes_yaml=True)
_CHANGE = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
    "description": "A part of the manifest: what it names is replaced, mappings are merged, null is no limit.",
}


class TenantQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=100, ge=1, le=1000)
    cursor: str = Field(default="", max_length=63)


@router.get("", response_model=TenantList)
async def list_tenants(here: Here, caller: Reader, query: Annotated[TenantQuery, Query()]) -> Response:
    seen = [one for one in here.plane.tenants.all() if one.id > query.cursor and _may_see(caller, one.id)]
    shown = seen[: query.limit]
    more = shown[-1].id if len(seen) > query.limit else None
    items = [_manifest(here, tenant) for tenant in shown]
    return answer({"items": items, "next": more, "revision": here.plane.read_model.revision})


@router.get("/{name}", response_model=TenantManifest)
async def get_tenant(here: Here, caller: Reader, name: Name) -> Response:
    return answer(_manifest(here, visible(here, caller, name)))


@router.post("", status_code=201, response_model=TenantManifest, openapi_extra=_BODY)
async def create_tenant(request: Request, here: Here, caller: Admin) -> Response:
    _, data = await read_document(request, bytes_max=here.limits.manifest_bytes_max, takes_yaml=True)
    made, revision = await here.plane.tenants.create(_read(here, data))
    return _created(here, made, revision)


@router.put(
    "/{name}",
    response_model=TenantManifest,
    responses={201: {"model": TenantManifest, "description": "Created"}},
    openapi_extra=_BODY,
)
async def apply_tenant(request: Request, here: Here, caller: Admin, name: Name) -> Response:
    """Make it so: created when absent, else changed to what is written."""
    _, data = await read_document(request, bytes_max=here.limits.manifest_bytes_max, takes_yaml=True)
    wanted = _read(here, data, name=name)
    try:
        here.plane.tenants.find(wanted.id)
    except NotFound:
        made, revision = await here.plane.tenants.create(wanted)
        return _created(here, made, revision)
    made, revision = await here.plane.tenants.change(wanted.id, lambda known: wanted)
    return answer(_manifest(here, made), revision=revision)


@router.patch("/{name}", response_model=TenantManifest, openapi_extra=_CHANGE)
async def change_tenant(request: Request, here: Here, caller: Admin, name: Name) -> Response:
    _, data = await read_document(request, bytes_max=here.limits.manifest_bytes_max)

    def edit(known: Tenant) -> Tenant:
        return _read(here, merged(_manifest(here, known), data), name=name)

    made, revision = await here.plane.tenants.change(TenantId(name), edit)
    return answer(_manifest(here, made), revision=revision)


@router.delete("/{name}", status_code=202, response_model=DeletedTenant)
async def delete_tenant(here: Here, caller: Admin, name: Name) -> Response:
    """Refused while it has live jobs. Its tokens hold no longer, and its name is not given again."""
    revision = await here.plane.tenants.delete(TenantId(name))
    return answer({"name": name}, status=202, revision=revision)


def visible(here: Context, caller: Identity, name: str) -> Tenant:
    """A tenant that the caller may know of; one that is absent and another's look alike."""
    if not _may_see(caller, name):
        raise NotFound(f"no tenant {name!r}", hint="`windlass tenants list` shows them")
    return here.plane.tenants.find(TenantId(name))


def _may_see(caller: Identity, tenant: str) -> bool:
    return caller.is_admin or caller.tenant == tenant


def _read(here: Context, data: object, *, name: str = "") -> Tenant:
    known = here.plane.tenants.pools(TenantId(name))
    wanted = read_tenant(data, pools=known, starts_with=here.starts_with)
    if name and wanted.id != name:
        raise invalid("the manifest", [Fault("metadata.name", f"is not the {name} of the address")])
    return wanted


def _manifest(here: Context, tenant: Tenant) -> dict[str, object]:
    plane = here.plane
    status = status_document(plane.tenants.usage(tenant.id), weight=tenant.weight)
    return tenant_manifest(tenant, status=status, created_at=plane.clock.wall(tenant.created_at))


def _created(here: Context, made: Tenant, revision: int) -> Response:
    headers = {"Location": f"/api/v1/tenants/{made.id}"}
    return answer(_manifest(here, made), status=201, revision=revision, headers=headers)
