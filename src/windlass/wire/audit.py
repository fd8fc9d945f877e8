"""A record of the audit as it is read."""

from collections.abc import Callable
from typing import Any, Literal

from windlass.core.model.audit import Deed
from windlass.core.model.ids import Millis
from windlass.wire.render import timestamp
from windlass.wire.schema import Shape


class AuditRecord(Shape):
    number: int
    """Of the decision; later ones have higher numbers, and not every number is there."""
    at: str
    subject: str
    tenant: str
    """Of the token."""
    token: str
    address: str
    request: str
    verb: str
    kind: str
    name: str
    uid: str
    owner: str
    """The tenant whose thing it is."""
    others: list[str]
    outcome: Literal["done", "refused"]
    code: str | None
    """Of the refusal."""
    skipped: int
    """Refusals of this tenant just before it that were too many to record."""


class AuditList(Shape):
    items: list[AuditRecord]
    next: str | None
    revision: int


def deed_document(deed: Deed, *, wall: Callable[[Millis], float]) -> dict[str, Any]:
    author = deed.act.author
    return {
        "number": deed.number,
        "at": timestamp(wall(deed.at)),
        "subject": author.subject,
        "tenant": author.tenant,
        "token": author.token,
        "address": deed.act.address,
        "request": deed.act.request,
        "verb": deed.act.verb,
        "kind": deed.kind,
        "name": deed.name,
        "uid": deed.uid,
        "owner": deed.tenant,
        "others": list(deed.others),
        "outcome": "refused" if deed.refused else "done",
        "code": deed.refused or None,
        "skipped": deed.skipped,
    }
