"""Jobs that tenants make elsewhere by themselves, and that wait there to be admitted here: on a cluster, in a namespace that is
labelled with a tenant."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from msgspec import Struct

from windlass.core.model.ids import TenantId


class Guest(Struct, frozen=True, kw_only=True):
    """As it is at this moment."""

    ref: str
    """`namespace/name/uid`: the very object, not whatever has its name."""
    tenant: TenantId
    spec: Mapping[str, Any]
    """As it was written, for the one validator."""
    is_ready: bool
    """Its owner lets it run, and it is not over, cancelled or gone."""
    job: str = ""
    """The job that stands for it here, once there is one."""
    is_taken: bool = False
    """A run of ours has it."""

    @property
    def namespace(self) -> str:
        return self.ref.split("/")[0]

    @property
    def name(self) -> str:
        return self.ref.split("/")[1]


class Guests(Protocol):
    def changes(self) -> AsyncIterator[Guest]:
        """All that are there, then each that changes, for ever. One that is gone comes a last time, not ready."""
        ...

    async def tell(self, guest: Guest, *, words: str, job: str | None = None) -> None:
        """What its owner should see there; a `job` is kept with it, an empty one forgotten. One that is gone is told nothing."""
        ...

    async def dismiss(self, guest: Guest) -> None:
        """It is to end there: its job here was cancelled before it ran."""
        ...
