"""What admins ask for: tenants, their tokens, the audit. Mixed into the client; only those with the role get answers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, cast

import msgspec

from windlass.client.documents import AuditRecord, Document, IssuedToken, TenantManifest
from windlass.client.transport import Query, Transport, segment
from windlass.core.errors import NotFound, Unavailable

TENANTS = "/api/v1/tenants"
AUDIT = "/api/v1/audit"
AppliedTenant = Literal["created", "changed", "unchanged"]
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class Governing:
    _transport: Transport

    # tenants

    def tenants(self) -> Iterator[TenantManifest]:
        """All that the caller may see, across pages, by name."""
        cursor: str | None = ""
        while cursor is not None:
            page = self._transport.call("GET", TENANTS, query={"limit": 1000, "cursor": cursor}).json()
            yield from page["items"]
            cursor = page["next"]

    def tenant(self, name: str) -> TenantManifest:
        return cast(TenantManifest, self._transport.call("GET", _tenant(name)).json())

    def create_tenant(self, manifest: Document) -> TenantManifest:
        """Not repeated by itself: the second of two would be a conflict."""
        return cast(TenantManifest, self._transport.call("POST", TENANTS, body=_ENCODER.encode(manifest)).json())

    def apply_tenant(self, manifest: Document) -> tuple[TenantManifest, AppliedTenant]:
        name = str(manifest["metadata"]["name"])
        try:
            before = self.tenant(name)["spec"]
        except NotFound:
            before = None
        answer = self._transport.call("PUT", _tenant(name), body=_ENCODER.encode(manifest))
        made = cast(TenantManifest, answer.json())
        return made, "created" if answer.status == 201 else "unchanged" if made["spec"] == before else "changed"

    def change_tenant(self, name: str, spec: Mapping[str, Any]) -> TenantManifest:
        """What `spec` names is replaced; None is no limit."""
        body = _ENCODER.encode({"spec": spec})
        return cast(TenantManifest, self._transport.call("PATCH", _tenant(name), body=body, may_repeat=True).json())

    def delete_tenant(self, name: str) -> None:
        self._transport.call("DELETE", _tenant(name))

    # their tokens

    def issue_token(self, tenant: str, *, role: str, ttl: str | int, subject: str | None = None) -> IssuedToken:
        """Not repeated by itself: each call makes another token."""
        body = {"role": role, "ttl": ttl} | ({"subject": subject} if subject is not None else {})
        answer = self._transport.call("POST", f"{_tenant(tenant)}/tokens", body=_ENCODER.encode(body))
        return cast(IssuedToken, answer.json())

    def tokens(self, tenant: str) -> list[IssuedToken]:
        return cast(list[IssuedToken], self._transport.call("GET", f"{_tenant(tenant)}/tokens").json()["items"])

    def revoke_token(self, tenant: str, token: str, *, unseen: bool = False) -> IssuedToken:
        path = f"{_tenant(tenant)}/tokens/{segment(token)}"
        return cast(IssuedToken, self._transport.call("DELETE", path, query={"unseen": unseen}).json())

    # the audit

    def audit(self, *, limit: int | None = None, **query: str | int | bool | list[str] | None) -> Iterator[AuditRecord]:
        """Across pages, up to `limit` in all; filters as the API names them."""
        left, cursor = limit, ""
        while left is None or left > 0:
            asked: Query = {**query, "limit": min(left or 1000, 1000), "cursor": cursor}
            page = self._transport.call("GET", AUDIT, query=asked).json()
            yield from page["items"]
            left = None if left is None else left - len(page["items"])
            cursor = page["next"]
            if not cursor:
                return

    @contextmanager
    def export_audit(self, **query: str | int | bool | list[str] | None) -> Iterator[Iterator[bytes]]:
        """A record a line, oldest first. A stream that breaks off is Unavailable; `after` goes on where it was."""
        try:
            with self._transport.stream(f"{AUDIT}/export", query=query, headers={"Accept": "*/*"}) as stream:
                yield stream.lines()
        except BrokenPipeError:
            raise  # of where the caller writes it to: a connection that is read from has no such error
        except (ConnectionError, TimeoutError) as exc:
            raise Unavailable("the export broke off", code="stream-broken", hint="try it again") from exc


def _tenant(name: str) -> str:
    return f"{TENANTS}/{segment(name)}"
