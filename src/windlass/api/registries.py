"""Registry logins of a tenant: log in, list, log out. The password goes in and never comes out."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.bodies import read_model
from windlass.api.context import Here, Reader, Writer
from windlass.api.openapi import REFUSALS, json_body
from windlass.core.errors import Fault, Invalid
from windlass.wire.secret import REGISTRY_MAX, LoginList, LoginRequest, LoginShape, login_document, read_registry

router = APIRouter(prefix="/api/v1/registries", tags=["registries"], responses=REFUSALS)

Registry = Annotated[str, Path(min_length=1, max_length=REGISTRY_MAX)]


@router.get("", response_model=LoginList)
async def list_logins(here: Here, caller: Reader) -> Response:
    wall = here.plane.clock.wall
    return answer({"items": [login_document(one, wall=wall) for one in here.plane.secrets.logins(caller.tenant)]})


@router.put("/{registry}", response_model=LoginShape, openapi_extra=json_body(LoginRequest))
async def login_registry(request: Request, here: Here, caller: Writer, registry: Registry) -> Response:
    """Used for images of exactly this host and port. Nothing is asked of the registry until an image is pulled."""
    host = _read(registry)
    asked = await read_model(request, LoginRequest, bytes_max=here.limits.manifest_bytes_max)
    login, revision = await here.plane.secrets.login(caller.tenant, host, asked.username, asked.password)
    return answer(login_document(login, wall=here.plane.clock.wall), revision=revision)


@router.delete("/{registry}", response_model=LoginShape)
async def logout_registry(here: Here, caller: Writer, registry: Registry) -> Response:
    login, revision = await here.plane.secrets.logout(caller.tenant, _read(registry))
    return answer(login_document(login, wall=here.plane.clock.wall), revision=revision)


def _read(registry: str) -> str:
    try:
        return read_registry(registry)
    except ValueError as exc:
        raise Invalid("not a registry's address", faults=[Fault("registry", str(exc))]) from None
