"""What people do with secrets and registry logins, as decisions; and whether what a job refers to is there.

A record and its box are put under one number: the box lies beside it, is read at a start, and is never in memory longer than
that. Sealing is the caller's (`seal` is handed in), inside the decision, so that nothing is sealed with a key that a rotation
has just retired.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from windlass.core.errors import Fault, Invalid, NotFound, OverLimit
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.job import JobSpec
from windlass.core.model.secret import (
    LOGINS_MAX,
    SECRETS_MAX,
    RegistryLogin,
    Sealed,
    Secret,
    SecretFile,
    SecretVariable,
)
from windlass.core.world.records import Table
from windlass.core.world.vault import Vault, record_key
from windlass.core.world.world import World

_FULL_SECONDS: Final = 3_600
"""Told to machines: only who removes one makes room, and nobody knows when."""
VARIABLE_BYTES_MAX: Final = 128 * 1024 - 512
"""The kernel takes no variable of 128 KiB, its name counted."""

Seal = Callable[[Secret | RegistryLogin], Sealed]
"""Given the record as it will be, all but which key it is sealed with."""


def set_secret(
    world: World, tenant: TenantId, name: str, data: Mapping[str, bytes], *, seal: Seal, now: Millis
) -> Secret:
    """A new secret, or a new version of one: the keys given are all it has from now on."""
    known = world.tables.vault.secret(tenant, name)
    if known is None:
        _check_room(len(world.tables.vault.secrets[tenant]), SECRETS_MAX, what="secrets")
    made = Secret(
        tenant=tenant,
        name=name,
        keys=tuple(sorted(data)),
        version=known.version + 1 if known is not None else 1,
        updated_at=now,
        sealed_with=0,
        binary=tuple(sorted(key for key, value in data.items() if not fits_variable(value))),
    )
    with world.decision(now):
        _put(world, made, seal(made))
    return world.tables.vault.secrets[tenant][name]


def remove_secret(world: World, tenant: TenantId, name: str, *, now: Millis) -> Secret:
    """Runs that were started keep what they were handed; those that were not will find it missing."""
    known = world.tables.vault.secret(tenant, name)
    if known is None:
        raise NotFound(f"no secret {name!r}", hint="`windlass secrets list` shows those there are")
    with world.decision(now):
        _drop(world, known)
    return known


def set_login(
    world: World, tenant: TenantId, registry: str, username: str, *, seal: Seal, now: Millis
) -> RegistryLogin:
    known = world.tables.vault.login(tenant, registry)
    if known is None:
        _check_room(len(world.tables.vault.logins[tenant]), LOGINS_MAX, what="registry logins")
    made = RegistryLogin(
        tenant=tenant,
        registry=registry,
        username=username,
        version=known.version + 1 if known is not None else 1,
        updated_at=now,
        sealed_with=0,
    )
    with world.decision(now):
        _put(world, made, seal(made))
    return world.tables.vault.logins[tenant][registry]


def remove_login(world: World, tenant: TenantId, registry: str, *, now: Millis) -> RegistryLogin:
    known = world.tables.vault.login(tenant, registry)
    if known is None:
        raise NotFound(f"no login at {registry}", hint="`windlass registries list` shows those there are")
    with world.decision(now):
        _drop(world, known)
    return known


def remove_all_of(world: World, tenant: TenantId) -> None:
    """With the tenant itself, in the same decision: a value that nobody owns is nobody's to keep."""
    vault = world.tables.vault
    for secret in list(vault.secrets.get(tenant, {}).values()):
        _drop(world, secret)
    for login in list(vault.logins.get(tenant, {}).values()):
        _drop(world, login)


def reseal(world: World, record: Secret | RegistryLogin, sealed: Sealed, *, now: Millis) -> None:
    """The same value in a box of a newer key; nothing, when it was set anew or removed since it was read."""
    if find(world.tables.vault, record) == record:
        with world.decision(now):
            _put(world, record, sealed)


def find(vault: Vault, like: Secret | RegistryLogin) -> Secret | RegistryLogin | None:
    """The record of the same name as it is now."""
    if isinstance(like, Secret):
        return vault.secret(like.tenant, like.name)
    return vault.login(like.tenant, like.registry)


def box_key(record: Secret | RegistryLogin) -> str:
    """Where its box lies in the table of boxes."""
    if isinstance(record, Secret):
        return f"{Table.SECRETS}/{record_key(record.tenant, record.name)}"
    return f"{Table.LOGINS}/{record_key(record.tenant, record.registry)}"


def check_references(vault: Vault, tenant: TenantId, spec: JobSpec) -> None:
    """Invalid, naming every reference to what is not there, or is and cannot be a variable. Another tenant's is absent."""
    if not spec.secret_env and not spec.secret_files:
        return
    wanted = [*((f"spec.env.{one.name}", one) for one in spec.secret_env)]
    named: list[tuple[str, SecretVariable | SecretFile]] = [*wanted]
    named += [(f"spec.secretFiles.{one.name}", one) for one in spec.secret_files]
    absent = [Fault(field, why) for field, one in named if (why := _missing(vault, tenant, one))]
    unfit = [Fault(field, why) for field, one in wanted if (why := _unfit(vault, tenant, one))]
    if absent:
        raise Invalid(
            f"the job refers to a secret that is not there: {absent[0].message}",
            code="secret-missing",
            hint="make it first: windlass secrets set NAME",
            faults=[*absent, *unfit],
        )
    if unfit:
        raise Invalid(
            f"the job cannot have this secret in its environment: {unfit[0].message}",
            code="secret-unfit",
            hint="have it in a file: spec.secretFiles, or windlass run --secret-file",
            faults=unfit,
        )


def secret_names(spec: JobSpec) -> tuple[str, ...]:
    """The secrets a spec refers to, each once."""
    if not spec.secret_env and not spec.secret_files:
        return ()
    return tuple(sorted({one.secret for one in spec.secret_env} | {one.secret for one in spec.secret_files}))


def fits_variable(value: bytes) -> bool:
    try:
        return "\0" not in value.decode() and len(value) <= VARIABLE_BYTES_MAX
    except UnicodeDecodeError:
        return False


def _missing(vault: Vault, tenant: TenantId, wanted: SecretVariable | SecretFile) -> str:
    found = vault.secret(tenant, wanted.secret)
    if found is None:
        return f"there is no secret {wanted.secret!r}"
    if wanted.key not in found.keys:
        return f"the secret {wanted.secret!r} has no key {wanted.key!r}"
    return ""


def _unfit(vault: Vault, tenant: TenantId, wanted: SecretVariable) -> str:
    """It is there, but not as what an environment can hold."""
    found = vault.secret(tenant, wanted.secret)
    if found is None or wanted.key not in found.binary:
        return ""
    return f"the key {wanted.key!r} of {wanted.secret!r} cannot be a variable: not text, or too long"


def _put(world: World, record: Secret | RegistryLogin, sealed: Sealed) -> None:
    kept = replace(record, sealed_with=sealed.key)
    if isinstance(kept, Secret):
        world.put(Table.SECRETS, record_key(kept.tenant, kept.name), kept)
    else:
        world.put(Table.LOGINS, record_key(kept.tenant, kept.registry), kept)
    world.put(Table.SEALED, box_key(record), sealed)


def _drop(world: World, record: Secret | RegistryLogin) -> None:
    if isinstance(record, Secret):
        world.drop(Table.SECRETS, record_key(record.tenant, record.name))
    else:
        world.drop(Table.LOGINS, record_key(record.tenant, record.registry))
    world.drop(Table.SEALED, box_key(record))


def _check_room(count: int, most: int, *, what: str) -> None:
    if count >= most:
        raise OverLimit(
            f"a tenant has at most {most} {what}",
            code="vault-full",
            hint="remove one that is not used",
            retry_after_seconds=_FULL_SECONDS,
        )
