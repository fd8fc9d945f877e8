"""Tokens of tenants: issued, listed without themselves, revoked. Only admins come here."""

from functools import partial
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.bodies import read_model
from windlass.api.context import Admin, Context, Here
from windlass.api.openapi import REFUSALS, json_body
from windlass.api.tenants import Name
from windlass.core.errors import NotFound
from windlass.core.model.ids import TenantId
from windlass.core.model.token import IssuedToken
from windlass.wire.expected import Form
from windlass.wire.tenancy import TTL_MS, NewToken, TokenList, TokenRequest, TokenShape, token_document

router = APIRouter(prefix="/api/v1/tenants/{name}/tokens", tags=["tenants"], responses=REFUSALS)

TokenId = Annotated[
    str,
    Path(max_length=128),
    Form(r"^[A-Za-z0-9._~-]+$", "expected a token's id, as `windlass tenants tokens` lists them"),
]


class RevokeQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    unseen: bool = Field(default=False, description="Also one that this server neither issued nor ever saw.")


@router.get("", response_model=TokenList)
async def list_tokens(here: Here, caller: Admin, name: Name) -> Response:
    tenant = here.plane.tenants.find(TenantId(name))
    wall = here.plane.clock.wall
    return answer({"items": [token_document(token, wall=wall) for token in here.plane.tenants.tokens(tenant.id)]})


@router.post("", status_code=201, response_model=NewToken, openapi_extra=json_body(TokenRequest))
async def issue_token(request: Request, here: Here, caller: Admin, name: Name) -> Response:
    """On record first, then signed. The token is in this answer and nowhere else."""
    asked = await read_model(request, TokenRequest, bytes_max=here.limits.manifest_bytes_max)
    plane = here.plane
    now = plane.clock.wall(plane.clock.now())
    token = IssuedToken(
        id=plane.ids.uuid7(),
        tenant=plane.tenants.find(TenantId(name)).id,
        subject=asked.subject or name,
        role=asked.role,
        issued_at=int(now),
        expires_at=int(now) + asked.ttl // 1000,
    )
    revision = await plane.tenants.note_token(token)
    signed = await anyio.to_thread.run_sync(
        partial(
            here.signer.issue,
            subject=token.subject,
            tenant=token.tenant,
            roles=(token.role,),
            token_id=token.id,
            now=token.issued_at,
            lifetime_seconds=token.expires_at - token.issued_at,
        )
    )
    return answer({**token_document(token, wall=plane.clock.wall), "token": signed}, status=201, revision=revision)


@router.delete("/{token}", response_model=TokenShape)
async def revoke_token(
    here: Here, caller: Admin, name: Name, token: TokenId, query: Annotated[RevokeQuery, Query()]
) -> Response:
    """Refused from now on, also after a restart. Revoking twice is fine."""
    tenant = here.plane.tenants.find(TenantId(name)).id
    revoked, revision = await here.plane.tenants.revoke(_known(here, tenant, token, is_enough=query.unseen))
    return answer(token_document(revoked, wall=here.plane.clock.wall), revision=revision)


def _known(here: Context, tenant: TenantId, token: str, *, is_enough: bool) -> IssuedToken:
    """What is known of it: on record, or seen as a caller's. A mistyped id must not look like a revoked token."""
    known = here.plane.tenants.token(tenant, token)
    if known is not None:
        return known
    seen = here.auth.seen(tenant, token)
    if seen is not None:
        return IssuedToken(id=token, tenant=tenant, subject=seen.subject, expires_at=seen.expires_at)
    if not is_enough:
        raise NotFound(
            f"no token {token!r} of tenant {tenant!r} was issued or seen here",
            hint="`windlass tenants tokens` lists them; --unseen revokes it all the same",
        )
    now = here.plane.clock.wall(here.plane.clock.now())
    return IssuedToken(id=token, tenant=tenant, expires_at=int(now) + TTL_MS.most // 1000)
