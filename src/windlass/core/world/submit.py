"""Admission into the World: a submission becomes a job, with its name, key and adopted volume, in one decision."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from windlass.core.admission.fit import check_fit
from windlass.core.admission.quota import check_door, check_ever
from windlass.core.errors import Conflict, Denied, Fault, Invalid, WindlassError
from windlass.core.model.ids import JobId, Millis, TenantId
from windlass.core.model.job import Job, JobSpec, OnLostNode
from windlass.core.model.naming import made_up_name, volume_name
from windlass.core.model.shape import Shape
from windlass.core.model.submission import Idempotency, Submission
from windlass.core.model.tenant import SHARE, Tenant
from windlass.core.model.volume import Volume, VolumeState
from windlass.core.world.gate import session_of
from windlass.core.world.records import JOBS, SPECS, VOLUMES, Answer, Key, Name, Table
from windlass.core.world.secrets import check_references, secret_names
from windlass.core.world.world import World

_MOVE: Final = OnLostNode.MOVE
_WAIT: Final = OnLostNode.WAIT
_FAULTS_MAX: Final = 100

Render = Callable[[Job, JobSpec], bytes]


def submit(
    world: World,
    tenant: TenantId,
    submission: Submission,
    *,
    job: JobId,
    now: Millis,
    idempotency: Idempotency | None = None,
    render: Render | None = None,
) -> tuple[Job, JobSpec]:
    """Accept, or raise with nothing changed. The caller has asked `find_replay` first."""
    with world.decision(now):
        accepted = make_job(world, tenant, submission, job=job, now=now)
        check_fit(accepted, world.tables.places, world.tables.fleet.pools)
        check_references(world.tables.vault, tenant, submission.spec)
        check_quota(world, accepted, now)
        spec = submission.spec
        if accepted.is_name_given:
            _hold_name(world, accepted)
            accepted, spec = _adopt_volume(world, accepted, spec)
        world.put(JOBS, job, accepted)
        world.put(SPECS, job, spec)
        if idempotency is not None:
            remember(world, tenant, idempotency, job, render(accepted, spec) if render else b"", now)
    return accepted, spec


def submit_all(
    world: World, tenant: TenantId, submissions: Sequence[Submission], *, jobs: Sequence[JobId], now: Millis
) -> list[Job]:
    """Accept all, or raise with nothing changed and what is wrong told of the item it is wrong with. Those that cannot be meant are
    all told; the first limit or taken name that is met ends it."""
    _refuse_twins(submissions)
    accepted: list[Job] = []
    faults: list[Fault] = []
    first: Invalid | None = None
    with world.decision(now):
        for number, (job, asked) in enumerate(zip(jobs, submissions, strict=True)):
            try:
                accepted.append(submit(world, tenant, asked, job=job, now=now)[0])
            except Invalid as refusal:
                first = first or refusal
                faults += _in_item(number, refusal)
            except WindlassError as refusal:
                refusal.message = f"items[{number}]: {refusal.message}"
                raise
        if first is not None:
            raise Invalid(
                f"some of the {len(submissions)} jobs cannot be accepted: {first.message}",
                code=first.code,
                hint=first.hint,
                faults=faults[:_FAULTS_MAX],
            )
    return accepted


def _in_item(number: int, refusal: Invalid) -> list[Fault]:
    where = f"items[{number}]"
    told = [Fault(f"{where}.{fault.field}", fault.message) for fault in refusal.faults]
    return told or [Fault(where, refusal.message)]


def _refuse_twins(submissions: Sequence[Submission]) -> None:
    seen: dict[str, int] = {}
    faults = [
        Fault(f"items[{number}].metadata.name", f"{asked.name!r} is given in items[{seen[asked.name]}] too")
        for number, asked in enumerate(submissions)
        if asked.name and seen.setdefault(asked.name, number) != number
    ]
    if faults:
        raise Conflict(
            "a name is given twice", code="name-taken", hint="a job has a name of its own", faults=faults[:_FAULTS_MAX]
        )


def find_replay(world: World, tenant: TenantId, idempotency: Idempotency) -> Key | None:
    """The key's first use, if there was one; Conflict when it was for something else."""
    known = world.tables.keys.get(key_id(tenant, idempotency.key))
    if known is not None and known.fingerprint != idempotency.fingerprint:
        raise Conflict(
            "this idempotency key was used for a different request",
            code="idempotency-mismatch",
            hint="use a new key for a new request",
        )
    return known


def key_id(tenant: TenantId, key: str) -> str:
    return f"{tenant}/{sha256(key.encode()).hexdigest()}"


def name_id(tenant: TenantId, name: str) -> str:
    return f"{tenant}/{name}"


def _owner(world: World, tenant: TenantId) -> Tenant:
    owner = world.tables.tenants.get(tenant)
    if owner is None:
        raise Denied(f"there is no tenant {tenant!r} here", code="tenant-unknown")
    only = world.policy.only_tenant
    if only is not None and tenant != only:
        raise Denied(
            f"this server runs plain processes, without isolation, for tenant {only!r} alone",
            code="single-tenant",
            hint="several tenants need a container engine: start Docker or Podman, then windlass up",
        )
    return owner


def make_job(world: World, tenant: TenantId, asked: Submission, *, job: JobId, now: Millis) -> Job:
    """The job that `asked` would become; nothing is changed. Denied for a tenant that is not known."""
    owner = _owner(world, tenant)
    sla_ms = asked.sla_ms if asked.sla_ms is not None else owner.sla_ms
    on_lost_node = asked.on_lost_node or (_MOVE if asked.retries else _WAIT)
    return Job(
        id=job,
        tenant=owner.id,
        name=asked.name or made_up_name(job),
        seq=world.tables.seq + 1,
        shape=world.tables.shared(
            Shape(
                needs=asked.spec.needs,
                runtime=asked.runtime,
                labels=tuple(sorted(asked.node_labels)) if asked.node_labels else (),
                pools=asked.pools,
                allowed=world.tables.allowed.get(owner.id, ()),
                admitted=world.tables.fleet.admitted.get(owner.id, ()),
            )
        ),
        created_at=now,
        since=now,
        kind=asked.kind,
        priority=asked.priority,
        labels=tuple(sorted(asked.labels)) if asked.labels else (),
        image=asked.spec.image,
        webhook=asked.spec.webhook,
        secrets=secret_names(asked.spec),
        retries=asked.retries,
        count=asked.count,
        timeout_ms=_first(asked.timeout_ms, owner.default_timeout_ms, world.policy.default_timeout_ms),
        expected_ms=asked.expected_ms,
        sla_ms=sla_ms,
        due_at=Millis(now + sla_ms) if sla_ms is not None and not asked.is_suspended else None,
        cost_max=asked.cost_max,
        grace_ms=asked.grace_ms,
        is_suspended=asked.is_suspended,
        is_name_given=bool(asked.name),
        on_lost_node=on_lost_node,
        lost_after_ms=asked.lost_after_ms,
        run_ttl_ms=asked.run_ttl_ms,
        volume_ttl_ms=asked.volume_ttl_ms,
    )


def _first(*given: Millis | None) -> Millis | None:
    return next((one for one in given if one is not None), None)


def check_quota(world: World, job: Job, now: Millis) -> None:
    """In the decision that accepts it, so that nothing can come between the look and the commit."""
    tables = world.tables
    owner, needs = tables.tenants[job.tenant], job.shape.needs
    check_ever(owner, needs)
    session = session_of(world, job.tenant, now)
    factor = session.factor if session is not None else SHARE

    def typical() -> Millis:
        return tables.typical.span(job.tenant, job.shape)

    check_door(owner, tables.usage[job.tenant], needs, now, factor=factor, typical=typical)


def _hold_name(world: World, job: Job) -> None:
    key = name_id(job.tenant, job.name)
    taken = world.tables.names.get(key)
    if taken is not None:
        raise Conflict(
            f"the name {job.name!r} is taken by job {taken.job}",
            code="name-taken",
            hint=f"choose another name, or delete it first: windlass delete {job.name}",
        )
    world.put(Table.NAMES, key, Name(job=job.id))


def _adopt_volume(world: World, job: Job, spec: JobSpec) -> tuple[Job, JobSpec]:
    """A volume that copy-file made for this name becomes the job's, with what was copied into it."""
    volume = waiting_volume(world, job.tenant, job.name)
    if volume is None:
        return job, spec
    adopted = replace(volume, job=job.id, expires_at=None)
    world.put(VOLUMES, volume.id, adopted)
    return replace(job, volume=volume.id), replace(spec, inputs=(*volume.inputs, *spec.inputs))


def remember(world: World, tenant: TenantId, idempotency: Idempotency, job: JobId, answer: bytes, now: Millis) -> None:
    """Within the decision that the key was for; of many jobs, `job` is the first."""
    key = key_id(tenant, idempotency.key)
    expires_at = Millis(now + world.policy.key_ttl_ms)
    world.put(Table.KEYS, key, Key(job=job, fingerprint=idempotency.fingerprint, expires_at=expires_at))
    world.put(Table.ANSWERS, key, Answer(answer))


def waiting_volume(world: World, tenant: TenantId, job_name: str) -> Volume | None:
    """The volume copy-file made for a job that has not come yet."""
    found = world.tables.volume_named.get((tenant, volume_name(job_name)))
    volume = world.tables.volumes.get(found) if found is not None else None
    return volume if volume is not None and volume.job is None and volume.state is not VolumeState.DROPPING else None
