"""Who did what: the record that a change leaves which somebody asked for at a door."""

from msgspec import Struct

from windlass.core.model.ids import Millis


class Author(Struct, frozen=True):
    """Whose token it was. Made once for each token, not for each request."""

    subject: str
    tenant: str
    token: str
    """Its id (`jti`)."""


class Act(Struct, frozen=True):
    """One request that may change something, as its door knows it before anything is decided."""

    author: Author
    address: str
    """Where the connection came from."""
    request: str
    """The request's id, as in its answer and in the server's log."""
    verb: str


class Deed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of an act. `number` is its decision's, so that one decision has one record."""

    number: int
    at: Millis
    act: Act
    kind: str = ""
    """Job, Volume, Tenant, Token … : what was changed."""
    name: str = ""
    uid: str = ""
    tenant: str = ""
    """Whose thing it is: not the author's, where an admin acted."""
    others: tuple[str, ...] = ()
    """Ids of further things of that kind that the same decision changed."""
    refused: str = ""
    """The code of the refusal; empty when it was done."""
    skipped: int = 0
    """Refusals before this one that were too many to record."""


class AuditQuery(Struct, frozen=True, kw_only=True):
    """Empty asks for all. `tenant` finds both what it did and what was done to it."""

    tenant: str = ""
    subject: str = ""
    verb: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    request: str = ""
    token: str = ""
    is_refused: bool | None = None
    since: Millis | None = None
    until: Millis | None = None
    newest_first: bool = True
    after: int = 0
    """The number of the last record seen, in the order asked for; 0 begins."""
    limit: int = 100


class AuditPage(Struct, frozen=True, kw_only=True):
    items: tuple[Deed, ...]
    has_more: bool
    revision: int
