"""Sealing: values go into boxes with a key that lies outside the store, and out of them only for what they were sealed about.

A box moved to another tenant, name or version does not open. Keys have numbers; the newest seals, older ones only open, until a
rotation has sealed everything anew and they are forgotten.
"""

from typing import Protocol

from windlass.core.errors import WindlassError
from windlass.core.model.secret import Sealed


class SecretMissing(WindlassError):
    """A run was to be handed what is not there any more, or what cannot be opened. Another attempt would fare no better."""

    default_code = "secret-missing"


class Unsealable(WindlassError):
    """The box does not open: its key is not here, it was tampered with, or it was sealed about something else."""

    default_code = "secret-sealed"


class Guard(Protocol):
    """What a node remembers of registries that somebody used a login at: images from there are not everybody's, ever after."""

    def is_guarded(self, registry: str) -> bool: ...

    async def note_guarded(self, registry: str) -> None:
        """Durable when it returns; to be called before the pull."""
        ...


class Sealer(Protocol):
    """The verbs are plain functions: a box is small and sealing takes microseconds."""

    @property
    def newest(self) -> int:
        """The number of the key that seals."""
        ...

    @property
    def oldest(self) -> int:
        """The lowest number of a key that is still here."""
        ...

    def seal(self, value: bytes, *, about: bytes) -> Sealed: ...

    def open(self, sealed: Sealed, *, about: bytes) -> bytes:
        """Raises Unsealable."""
        ...

    def rotate(self) -> int:
        """A new key, safely kept before anything is sealed with it; answers its number."""
        ...

    def forget_before(self, key: int) -> None:
        """Destroy the keys with lower numbers: what is still sealed with one never opens again."""
        ...
