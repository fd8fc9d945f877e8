"""Secrets and registry logins: what the World knows of them (names, keys, versions), and what one start is handed.

No record here ever holds a value: at rest a value is a `Sealed` box, and in the clear it is only in a `Handed`, on its way into
one start. Types with values in them show nothing of it when they are printed.
"""

from typing import Final

from msgspec import Struct

from windlass.core.model.ids import Millis, TenantId

DEFAULT_KEY: Final = "value"
"""Under which a secret of a single value has it."""
SECRETS_MAX: Final = 1000
"""Of one tenant."""
LOGINS_MAX: Final = 100


class SecretVariable(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A variable of a job whose value is a secret's."""

    name: str
    secret: str
    key: str = DEFAULT_KEY


class SecretFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a job whose content is a secret's; `name` is where it lies below the run's directory of secrets."""

    name: str
    secret: str
    key: str = DEFAULT_KEY


class Secret(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that is known of a secret without opening it."""

    tenant: TenantId
    name: str
    keys: tuple[str, ...]
    version: int
    """Grows with each value that is set."""
    updated_at: Millis
    sealed_with: int
    """Which data key its box opens with; after a rotation those with an older one are sealed anew."""
    binary: tuple[str, ...] = ()
    """Keys whose value no variable can hold: not UTF-8, with a NUL, or too long."""


class RegistryLogin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tenant's login at a registry, without the password."""

    tenant: TenantId
    registry: str
    username: str
    version: int
    updated_at: Millis
    sealed_with: int


class Sealed(Struct, frozen=True, kw_only=True):
    """A value as the store has it: it opens only with the data key it names, and only for what it was sealed about."""

    key: int
    box: bytes


class Credentials(Struct, frozen=True, kw_only=True):
    """A login with its password. `registry` is the only host it may be sent to."""

    registry: str
    username: str
    password: str
    version: int = 0
    """Of the login: tells an outcome of this one from that of an earlier one."""

    def __repr__(self) -> str:
        return f"Credentials(registry={self.registry!r}, …)"

    __str__ = __repr__


class Handed(Struct, frozen=True, kw_only=True):
    """What a run is given with its start and nobody keeps: not the store, not the node's journal."""

    variables: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()
    credentials: Credentials | None = None

    def __repr__(self) -> str:
        return f"Handed({len(self.variables)} variables, {len(self.files)} files)"

    __str__ = __repr__


NOTHING_HANDED: Final = Handed()
