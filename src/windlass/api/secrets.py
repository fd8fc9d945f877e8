"""Secrets: set, list, remove; and another data key for all of them. No route ever answers with a value."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.bodies import read_model
from windlass.api.context import Admin, Context, Here, Reader, Writer
from windlass.api.openapi import REFUSALS, json_body
from windlass.control.secrets import SecretView
from windlass.wire.names import DNS_LABEL
from windlass.wire.secret import RotationShape, SecretList, SecretRequest, SecretShape, secret_document

router = APIRouter(prefix="/api/v1/secrets", tags=["secrets"], responses=REFUSALS)

Name = Annotated[str, Path(max_length=63), DNS_LABEL]


@router.get("", response_model=SecretList)
async def list_secrets(here: Here, caller: Reader) -> Response:
    """Names and keys, never values."""
    return answer({"items": [_document(here, view) for view in here.plane.secrets.list(caller.tenant)]})


@router.put("/{name}", response_model=SecretShape, openapi_extra=json_body(SecretRequest))
async def set_secret(request: Request, here: Here, caller: Writer, name: Name) -> Response:
    """The keys given are all it has from now on. Runs that start later get the new values."""
    asked = await read_model(request, SecretRequest, bytes_max=here.limits.manifest_bytes_max)
    view, revision = await here.plane.secrets.set(caller.tenant, name, asked.data)
    return answer(_document(here, view), revision=revision)


@router.delete("/{name}", response_model=SecretShape)
async def remove_secret(here: Here, caller: Writer, name: Name) -> Response:
    """Runs that have not started and refer to it will fail with the reason SecretMissing; `usedBy` names their jobs."""
    view, revision = await here.plane.secrets.remove(caller.tenant, name)
    return answer(_document(here, view), revision=revision)


@router.post("/rotate-key", response_model=RotationShape)
async def rotate_key(here: Here, caller: Admin) -> Response:
    """A new data key; every secret and login of the installation is sealed with it, then the older keys are destroyed."""
    rotation = await here.plane.secrets.rotate()
    return answer({"key": rotation.key, "left": rotation.left})


def _document(here: Context, view: SecretView) -> dict[str, object]:
    return secret_document(view.secret, view.users, view.user_count, wall=here.plane.clock.wall)
