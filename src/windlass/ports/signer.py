"""Signs tokens with the installation's own key, which nobody else holds."""

from collections.abc import Sequence
from typing import Protocol


class Signer(Protocol):
    def issue(
        self, *, subject: str, tenant: str, roles: Sequence[str], token_id: str, now: float, lifetime_seconds: int
    ) -> str:
        """A token for `subject` of `tenant`. `now` is wall time. Reads a file: call it in a thread."""
        ...
