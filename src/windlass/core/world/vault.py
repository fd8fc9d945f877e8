"""What the World holds of secrets and registry logins, and who uses them. Derived from records alone, as all of `tables` is."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TypeVar

from windlass.core.model.ids import JobId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.secret import RegistryLogin, Secret

R = TypeVar("R")


class Vault:
    def __init__(self) -> None:
        self.secrets: defaultdict[TenantId, dict[str, Secret]] = defaultdict(dict)
        self.logins: defaultdict[TenantId, dict[str, RegistryLogin]] = defaultdict(dict)
        self._users: defaultdict[tuple[TenantId, str], set[JobId]] = defaultdict(set)
        self._logins_at: Counter[str] = Counter()

    def secret(self, tenant: TenantId, name: str) -> Secret | None:
        return self.secrets[tenant].get(name) if tenant in self.secrets else None

    def login(self, tenant: TenantId, registry: str) -> RegistryLogin | None:
        return self.logins[tenant].get(registry) if tenant in self.logins else None

    def is_guarded(self, registry: str) -> bool:
        """Some tenant has a login there: an image of it is not everybody's, even where it lies already."""
        return registry in self._logins_at

    def users(self, tenant: TenantId, name: str) -> frozenset[JobId]:
        """The live jobs that refer to a secret."""
        return frozenset(self._users.get((tenant, name), ()))

    def sealed_before(self, key: int) -> Iterator[Secret | RegistryLogin]:
        """What a rotation has not come to yet."""
        for kind in (self.secrets, self.logins):
            for records in kind.values():
                yield from (one for one in records.values() if one.sealed_with < key)

    def replace_secret(self, key: str, new: Secret | None) -> Secret | None:
        tenant, name = split_key(key)
        return _swap(self.secrets[tenant], name, new)

    def replace_login(self, key: str, new: RegistryLogin | None) -> RegistryLogin | None:
        tenant, registry = split_key(key)
        old = _swap(self.logins[tenant], registry, new)
        self._logins_at[registry] += (new is not None) - (old is not None)
        if not self._logins_at[registry]:
            del self._logins_at[registry]
        return old

    def note_job(self, job: Job, *, is_there: bool) -> None:
        for name in job.secrets:
            users = self._users[job.tenant, name]
            if is_there:
                users.add(job.id)
            else:
                users.discard(job.id)
                if not users:
                    del self._users[job.tenant, name]


def record_key(tenant: TenantId, name: str) -> str:
    return f"{tenant}/{name}"


def split_key(key: str) -> tuple[TenantId, str]:
    tenant, _, name = key.partition("/")
    return TenantId(tenant), name


def _swap(table: dict[str, R], key: str, new: R | None) -> R | None:
    old = table.pop(key, None)
    if new is not None:
        table[key] = new
    return old
