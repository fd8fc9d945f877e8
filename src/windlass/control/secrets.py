"""Secrets and registry logins: set, listed and removed by people; opened for one start; sealed anew when the data key changes.

A value is in the clear here for as long as one request or one hand-over takes, in local variables only. It goes to a node when
the agent there asks for a run it is about to start, and the agent asks again after a crash: no set of assignments, no journal
and no record ever carries one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import anyio
import structlog
from msgspec import Struct, json, msgpack

from windlass.control.acting import acting
from windlass.control.brain import Brain
from windlass.control.specs import Specs
from windlass.control.waiting import woken_or_due
from windlass.core.distribution.reference import registry_of
from windlass.core.errors import Unavailable, WindlassError
from windlass.core.model.ids import Millis, NodeId, RunId, TenantId
from windlass.core.model.job import JobSpec
from windlass.core.model.run import Run, RunState, Token
from windlass.core.model.secret import Credentials, Handed, RegistryLogin, Sealed, Secret, SecretFile, SecretVariable
from windlass.core.world import secrets as verbs
from windlass.core.world.audit import note
from windlass.core.world.records import Table, decode, store_key
from windlass.ports.secrets import Sealer, SecretMissing, Unsealable
from windlass.ports.store import Store

log = structlog.get_logger()

_RESEALED_AT_ONCE: Final = 32
"""Boxes in one decision: a few MiB at the most, so that a rotation never holds up anybody's commit for long."""
_LOOK_AGAIN_MS: Final = 30_000
_VARIABLES_BYTES_MAX: Final = 512 * 1024
_FILES_BYTES_MAX: Final = 1 << 20
"""Of one run: what a kernel takes as an environment, and what a node should have to keep in memory."""
_NOT_STARTED: Final = frozenset({RunState.ASSIGNED, RunState.STARTING})
_SHOWN_USERS: Final = 20

_values: Final = msgpack.Decoder(dict[str, bytes])


class SecretView(Struct, frozen=True, kw_only=True):
    secret: Secret
    users: tuple[str, ...]
    """Names of live jobs that refer to it, the first ones accepted."""
    user_count: int


class Rotation(Struct, frozen=True, kw_only=True):
    key: int
    left: int
    """Boxes that an older key still seals; 0 when the older keys are destroyed."""


class Secrets:
    def __init__(self, brain: Brain, store: Store, specs: Specs, sealer: Sealer) -> None:
        self._brain = brain
        self._store = store
        self._specs = specs
        self._sealer = sealer
        self._rotated = anyio.Event()
        self._settled = anyio.Event()

    # — what people ask for —

    async def set(self, tenant: TenantId, name: str, data: Mapping[str, bytes]) -> tuple[SecretView, int]:
        value = msgpack.encode(dict(data))

        def verb(now: Millis) -> Secret:
            return verbs.set_secret(self._brain.world, tenant, name, data, seal=lambda r: self._seal(value, r), now=now)

        secret, revision = await self._brain.decide(verb)
        return self._view(secret), revision

    async def remove(self, tenant: TenantId, name: str) -> tuple[SecretView, int]:
        removed, revision = await self._brain.decide(
            lambda now: verbs.remove_secret(self._brain.world, tenant, name, now=now)
        )
        return self._view(removed), revision

    def list(self, tenant: TenantId) -> Sequence[SecretView]:
        vault = self._brain.world.tables.vault
        mine = vault.secrets.get(tenant, {})
        return [self._view(mine[name]) for name in sorted(mine)]

    async def login(self, tenant: TenantId, registry: str, username: str, password: str) -> tuple[RegistryLogin, int]:
        value = password.encode()

        def verb(now: Millis) -> RegistryLogin:
            world = self._brain.world
            return verbs.set_login(world, tenant, registry, username, seal=lambda r: self._seal(value, r), now=now)

        return await self._brain.decide(verb)

    async def logout(self, tenant: TenantId, registry: str) -> tuple[RegistryLogin, int]:
        return await self._brain.decide(lambda now: verbs.remove_login(self._brain.world, tenant, registry, now=now))

    def logins(self, tenant: TenantId) -> Sequence[RegistryLogin]:
        vault = self._brain.world.tables.vault
        mine = vault.logins.get(tenant, {})
        return [mine[registry] for registry in sorted(mine)]

    # — what a node asks for —

    async def hand_over(self, node: NodeId, run: RunId, token: Token) -> Handed:
        """For the start of a run that is this node's, current, and not started. SecretMissing when it cannot have it."""
        found = self._startable(node, run, token)
        spec = await self._specs.get(found.job)
        values = await self._open_all(found.tenant, spec)
        handed = Handed(
            variables=tuple((one.name, _text(values, one)) for one in spec.secret_env),
            files=tuple((one.name, _value(values, one)) for one in spec.secret_files),
            credentials=await self.credentials(found.tenant, spec.image),
        )
        _check_size(handed)
        self._startable(node, run, token)  # it may have been cancelled, or taken away, while boxes were read
        return handed

    async def credentials(self, tenant: TenantId, image: str) -> Credentials | None:
        """The tenant's own login at the image's registry, by its exact host and port; None when it has none."""
        registry = registry_of(image)
        login = self._brain.world.tables.vault.login(tenant, registry)
        if login is None:
            return None
        return Credentials(
            registry=registry,
            username=login.username,
            password=(await self._open(login)).decode(),
            version=login.version,
        )

    def is_guarded(self, registry: str) -> bool:
        return self._brain.world.tables.vault.is_guarded(registry)

    # — another data key —

    async def rotate(self) -> Rotation:
        """A new data key, and everything sealed with it. Returns when that is done; a crash on the way is made good later."""
        key = self._sealer.rotate()
        log.info("secrets.key_rotated", key=key)
        await self._record(key)
        for _ in range(2):  # the first may be the end of a pass that began with an older key
            settled = self._settled
            self._rotated.set()
            await settled.wait()
            if self._left() == 0:
                break
        return Rotation(key=key, left=self._left())

    async def _record(self, key: int) -> None:
        """Who asked for it: what it changes is changed by a loop, in nobody's name."""
        act, brain = acting.get(), self._brain
        if act is not None:
            await brain.committer.durable(note(brain.world, act, now=brain.clock.now(), kind="DataKey", name=str(key)))

    async def run(self) -> None:
        """Seals anew what an older key has sealed, at the start (a rotation may have been cut short) and after each rotation."""
        while True:
            self._rotated = anyio.Event()
            try:
                await self._reseal_all()
            except (
                WindlassError
            ) as why:  # the store is away, or a box does not open: nothing is lost, the old key stays
                log.warning("secrets.reseal_failed", error=why.message)
            done, self._settled = self._settled, anyio.Event()
            done.set()
            await self._until_rotated()

    async def _until_rotated(self) -> None:
        if self._left() == 0:
            await self._rotated.wait()
            return
        clock = self._brain.clock
        await woken_or_due(self._rotated, clock, Millis(clock.now() + _LOOK_AGAIN_MS))

    async def _reseal_all(self) -> None:
        newest = self._sealer.newest
        behind = list(self._brain.world.tables.vault.sealed_before(newest))
        for start in range(0, len(behind), _RESEALED_AT_ONCE):
            await self._reseal(behind[start : start + _RESEALED_AT_ONCE])
            await self._brain.failpoints.reach("secrets.after_reseal")
        world = self._brain.world
        if self._left(newest) == 0 and self._sealer.oldest < newest:
            # Whatever is taken back from here on goes no further back than this number, where nothing needs an older key.
            await self._brain.committer.durable(world.number)
            self._sealer.forget_before(newest)
            log.info("secrets.keys_forgotten", before=newest)

    async def _reseal(self, behind: Sequence[Secret | RegistryLogin]) -> None:
        opened = [(record, await self._open_current(record)) for record in behind]

        def verb(now: Millis) -> None:
            with self._brain.world.decision(now):
                for record, value in opened:
                    if value is not None:
                        verbs.reseal(self._brain.world, record, self._seal(value, record), now=now)

        await self._brain.decide(verb)

    async def _open_current(self, record: Secret | RegistryLogin) -> bytes | None:
        """None when it was set anew or removed meanwhile. One that does not open is left as it is, and said."""
        try:
            return await self._open(record)
        except SecretMissing as why:
            if verbs.find(self._brain.world.tables.vault, record) == record:
                log.error("secrets.sealed_for_good", box=verbs.box_key(record), error=why.message)
            return None

    def _left(self, newest: int | None = None) -> int:
        key = self._sealer.newest if newest is None else newest
        return sum(1 for _ in self._brain.world.tables.vault.sealed_before(key))

    # — boxes —

    def _startable(self, node: NodeId, run: RunId, token: Token) -> Run:
        """Unavailable for any other: the node hears of what became of the run by its next set."""
        found = self._brain.world.current_run(run, token)
        if found is None or found.node != node or found.state not in _NOT_STARTED:
            raise Unavailable(f"run {run} is not to be started", code="run-not-current")
        return found

    async def _open_all(self, tenant: TenantId, spec: JobSpec) -> dict[str, dict[str, bytes]]:
        """By the secret's name, every secret the spec refers to."""
        values = {}
        for name in verbs.secret_names(spec):
            secret = self._brain.world.tables.vault.secret(tenant, name)
            if secret is None:
                raise SecretMissing(f"there is no secret {name!r} any more", hint=f"windlass secrets set {name}")
            values[name] = _values.decode(await self._open(secret))
        return values

    async def _open(self, record: Secret | RegistryLogin) -> bytes:
        """What its box holds. The record may be ahead of the store by a moment: then the box is read once more."""
        try:
            return await self._open_box(record)
        except (SecretMissing, Unsealable):
            await self._brain.committer.durable(self._brain.world.number)
        try:
            return await self._open_box(record)
        except Unsealable as why:
            raise SecretMissing(f"{_called(record)} cannot be opened: {why.message}", hint=why.hint) from why

    async def _open_box(self, record: Secret | RegistryLogin) -> bytes:
        item = await self._store.get(store_key(Table.SEALED, verbs.box_key(record)))
        current = verbs.find(self._brain.world.tables.vault, record)
        if item is None or current is None:
            raise SecretMissing(f"{_called(record)} is not there any more")
        sealed: Sealed = decode(Table.SEALED, item.value)
        return self._sealer.open(sealed, about=_about(current))

    def _seal(self, value: bytes, record: Secret | RegistryLogin) -> Sealed:
        return self._sealer.seal(value, about=_about(record))

    def _view(self, secret: Secret) -> SecretView:
        tables = self._brain.world.tables
        users = tables.vault.users(secret.tenant, secret.name)
        first = sorted((tables.jobs[job] for job in users), key=lambda job: job.seq)[:_SHOWN_USERS]
        return SecretView(secret=secret, users=tuple(job.name for job in first), user_count=len(users))


def _about(record: Secret | RegistryLogin) -> bytes:
    """Whose and which value it is: a box put in another's place, or an older one put back, does not open."""
    kind, name = ("secret", record.name) if isinstance(record, Secret) else ("login", record.registry)
    return json.encode([kind, record.tenant, name, record.version])


def _called(record: Secret | RegistryLogin) -> str:
    return f"the secret {record.name!r}" if isinstance(record, Secret) else f"the login at {record.registry}"


def _value(values: Mapping[str, Mapping[str, bytes]], wanted: SecretVariable | SecretFile) -> bytes:
    found = values[wanted.secret].get(wanted.key)
    if found is None:
        raise SecretMissing(f"the secret {wanted.secret!r} has no key {wanted.key!r} any more")
    return found


def _text(values: Mapping[str, Mapping[str, bytes]], wanted: SecretVariable) -> str:
    value = _value(values, wanted)
    if not verbs.fits_variable(value):
        raise SecretMissing(f"the key {wanted.key!r} of the secret {wanted.secret!r} cannot be a variable any more")
    return value.decode()


def _check_size(handed: Handed) -> None:
    variables = sum(len(value.encode()) for _, value in handed.variables)
    if variables > _VARIABLES_BYTES_MAX or sum(len(content) for _, content in handed.files) > _FILES_BYTES_MAX:
        most = f"{_VARIABLES_BYTES_MAX} bytes of variables and {_FILES_BYTES_MAX} of files"
        raise SecretMissing(f"its secrets are larger than a run can be handed: {most}")
