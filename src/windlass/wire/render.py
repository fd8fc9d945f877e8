"""From what the read model knows to the manifest a person reads. What comes out can go in again: `job` reads it back to the same.

Plain dictionaries, not models: an answer is rendered for every submit and every row of a list. `schema` documents the shape,
and tests hold the two together.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from windlass.core.fairness.deadlines import sla_state
from windlass.core.model.hook import Hook, HookState
from windlass.core.model.ids import Millis, PoolId, run_id
from windlass.core.model.job import Job, JobKind, JobSpec, JobState
from windlass.core.model.naming import volume_name
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run
from windlass.core.model.secret import SecretFile, SecretVariable
from windlass.core.model.submission import Submission
from windlass.core.model.views import Asked, Event, NodeView, VolumeView, ran_over
from windlass.wire.job import API_VERSION, SLA_CLASSES, VOLUME_TTL
from windlass.wire.quantities import write_bytes, write_cpu, write_seconds

Wall = Callable[[Millis], float]
"""From service time to seconds since the epoch; a Clock's `wall`."""

_SLA_NAMES: Final[dict[Millis | None, str]] = {span: name for name, span in SLA_CLASSES.items()}
PHASES: Final = {
    JobState.PENDING: "Pending",
    JobState.SCHEDULED: "Pending",
    JobState.STARTING: "Pending",
    JobState.RUNNING: "Running",
    JobState.SUCCEEDED: "Succeeded",
    JobState.FAILED: "Failed",
    JobState.TIMED_OUT: "Failed",
    JobState.CANCELLED: "Failed",
}


def job_manifest(
    job: Job,
    spec: JobSpec,
    runs: Sequence[Run] = (),
    *,
    ran_ms: Millis | None = None,
    waiting: Sequence[str] = (),
    hook: Hook | None = None,
    now: Millis | None = None,
    wall: Wall,
) -> dict[str, Any]:
    """`runs` oldest first; empty in lists, where status does without them and `ran_ms` says how long those that are over ran.
    `waiting` says why it is not placed, `hook` how telling of its end goes. `now` is for what depends on the time of looking; when
    the job last changed, if it is not given."""
    metadata: dict[str, Any] = {
        "name": job.name,
        "uid": job.id,
        "creationTimestamp": timestamp(wall(job.created_at)),
    }
    if job.labels:
        metadata["labels"] = dict(job.labels)
    status = _status(job, runs, waiting, now if now is not None else job.since, wall)
    if job.started_at is not None:
        status["ranSeconds"] = (ran_ms if ran_ms is not None else ran_over(job, runs)) / 1000
    if hook is not None:
        status["webhook"] = _hook(hook, wall)
    return {
        "apiVersion": API_VERSION,
        "kind": job.kind.value,
        "metadata": metadata,
        "spec": spec_of_job(job, spec),
        "status": status,
    }


def spec_of_job(job: Job, spec: JobSpec) -> dict[str, Any]:
    return _spec(spec, job, pools=job.shape.pools, node_labels=job.shape.labels)


def spec_document(asked: Submission) -> dict[str, Any]:
    """The spec as a person would have written it, defaults spelled out, what is empty left out."""
    return _spec(asked.spec, asked, pools=asked.pools, node_labels=asked.node_labels)


def _spec(
    spec: JobSpec, asked: Job | Submission, *, pools: tuple[PoolId, ...], node_labels: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    """A job has what it was asked for under the same names, but for `pools` and `node_labels`."""
    document: dict[str, Any] = {
        "resources": resources_document(spec.needs),
        "retries": asked.retries,
        "priority": asked.priority,
        "ttlSecondsAfterFinished": asked.run_ttl_ms // 1000,
        VOLUME_TTL: asked.volume_ttl_ms // 1000,
        "lostAfter": write_seconds(asked.lost_after_ms),
        "graceSeconds": asked.grace_ms // 1000,
        "suspend": asked.is_suspended,
        "collect": spec.collect,
        "pidsLimit": spec.pids_max,
        "terminal": spec.wants_terminal,
        "stdin": spec.wants_input,
        "network": spec.wants_network,
        "pvcSize": write_bytes(spec.volume_size_bytes),
    }
    _add_given(document, spec)
    if asked.on_lost_node:
        document["onLostNode"] = asked.on_lost_node.value
    if pools:
        document["pool"] = pools[0]
    if node_labels:
        document["nodeSelector"] = dict(node_labels)
    if asked.timeout_ms is not None:
        document["timeoutSeconds"] = asked.timeout_ms // 1000
    if asked.expected_ms is not None:
        document["expectedSeconds"] = asked.expected_ms // 1000
    if asked.sla_ms in _SLA_NAMES:  # a tenant's default may be another time
        document["sla"] = _SLA_NAMES[asked.sla_ms]
    if asked.cost_max is not None:
        document["maxCost"] = asked.cost_max
    if asked.kind is JobKind.EPHEMERAL:
        document["model"] = spec.model
        document["input"] = {"type": "image", "path": spec.input_path}
        document["output"] = {"path": spec.output_path}
    return document


def _add_given(document: dict[str, Any], spec: JobSpec) -> None:
    """What has no default worth spelling out."""
    if spec.image:
        document["image"] = spec.image
    if spec.command:
        document["command"] = list(spec.command)
    if spec.env or spec.secret_env:
        document["env"] = dict(spec.env) | {one.name: _reference(one) for one in spec.secret_env}
    if spec.secret_files:
        document["secretFiles"] = {one.name: _reference(one) for one in spec.secret_files}
    if spec.workdir:
        document["workdir"] = spec.workdir
    if spec.webhook:
        document["webhook"] = {"url": spec.webhook}
    if spec.storage_class:
        document["storageClass"] = spec.storage_class
    if spec.queue_name:
        document["queueName"] = spec.queue_name


def _reference(wanted: SecretVariable | SecretFile) -> dict[str, str]:
    return {"secret": wanted.secret, "key": wanted.key}


def asked_for(job: Job, spec: JobSpec) -> Submission:
    """What must have been submitted for this job to be what it is; tenant defaults count as asked for."""
    return Submission(
        spec=spec,
        name=job.name,
        kind=job.kind,
        labels=job.labels,
        priority=job.priority,
        retries=job.retries,
        count=job.count,
        timeout_ms=job.timeout_ms,
        expected_ms=job.expected_ms,
        sla_ms=job.sla_ms,
        cost_max=job.cost_max,
        grace_ms=job.grace_ms,
        run_ttl_ms=job.run_ttl_ms,
        volume_ttl_ms=job.volume_ttl_ms,
        on_lost_node=job.on_lost_node,
        lost_after_ms=job.lost_after_ms,
        is_suspended=job.is_suspended,
        runtime=job.shape.runtime,
        pools=job.shape.pools,
        node_labels=job.shape.labels,
    )


def volume_document(view: VolumeView, *, wall: Wall) -> dict[str, Any]:
    volume = view.volume
    return {
        "name": volume.name,
        "uid": volume.id,
        "job": view.job_name or None,
        "node": volume.node,
        "state": volume.state.value,
        "since": timestamp(wall(volume.since)),
        "expiresAt": _at(volume.expires_at, wall),
    }


def node_document(view: NodeView) -> dict[str, Any]:
    node = view.node
    return {
        "name": node.id,
        "pool": node.pool,
        "state": node.state.value,
        "runtime": view.runtime,
        "labels": view.labels,
        "capacity": resources_document(node.capacity),
        "free": resources_document(view.free),
        "runs": view.runs,
    }


def event_document(event: Event, *, wall: Wall) -> dict[str, Any]:
    document: dict[str, Any] = {
        "revision": event.revision,
        "at": timestamp(wall(event.at)),
        "kind": event.kind,
        "reason": event.reason,
        "message": event.message,
        "job": event.job,
        "name": event.name,
        "tenant": event.tenant,
        "attempt": event.attempt,
        "node": event.node,
        "pool": event.pool,
    }
    always = {"revision", "at", "kind", "reason", "message"}
    document = {key: value for key, value in document.items() if value or key in always}
    if event.asked is not None:
        document["asked"] = _asked_document(event.asked)
    if event.capacity is not None:
        document["capacity"] = resources_document(event.capacity)
    if event.labels:
        document["labels"] = dict(event.labels)
    return document


def _asked_document(asked: Asked) -> dict[str, Any]:
    """In the manifest's words, as far as another world needs them."""
    document: dict[str, Any] = {"resources": resources_document(asked.needs)}
    if asked.priority:
        document["priority"] = asked.priority
    if asked.expected_ms is not None:
        document["expectedSeconds"] = asked.expected_ms / 1000
    if asked.sla_ms is not None:
        document["slaSeconds"] = asked.sla_ms / 1000
    if asked.pools:
        document["pools"] = list(asked.pools)
    if asked.labels:
        document["nodeSelector"] = dict(asked.labels)
    return document


def resources_document(resources: Resources) -> dict[str, Any]:
    return {
        "cpu": write_cpu(resources.cpu_millis),
        "memory": write_bytes(resources.memory_bytes),
        "gpu": resources.gpus,
    }


@lru_cache(maxsize=4096)
def timestamp(seconds: float) -> str:
    """RFC 3339, UTC, milliseconds. Many jobs come within one: it is written once for them all."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _status(job: Job, runs: Sequence[Run], waiting: Sequence[str], now: Millis, wall: Wall) -> dict[str, Any]:
    status: dict[str, Any] = {
        "phase": PHASES[job.state],
        "state": job.state.value,
        "reason": job.reason or None,
        "message": job.message or None,
        "startedAt": _at(job.started_at, wall),
        "finishedAt": _at(job.finished_at, wall),
        "exitCode": job.exit_code,
        "attempt": job.attempt,
        "podName": run_id(job.id, index=0, attempt=job.attempt) if job.attempt else None,
        "node": job.node,
        "artifactPath": volume_name(job.name),
        "conditions": _conditions(job, wall),
    }
    if job.attempt:
        status["cost"] = job.cost
    if job.state is JobState.RUNNING:
        status["runStartedAt"] = timestamp(wall(job.since))
    if job.due_at is not None:
        status["sla"] = {"dueAt": timestamp(wall(job.due_at)), "state": sla_state(job, now)}
    if job.state is JobState.PENDING:
        status["waiting"] = list(waiting)
    if runs:
        status["runs"] = [_run(run, wall) for run in runs]
        if job.state is JobState.STARTING and runs[-1].progress:
            status["progress"] = runs[-1].progress
    return status


def _conditions(job: Job, wall: Wall) -> list[dict[str, Any]]:
    conditions = []
    if job.is_suspended and not job.is_over:
        conditions.append(_condition("Suspended", job, job.since, wall))
    if job.started_at is not None:
        conditions.append(_condition("Started", job, job.started_at, wall))
    if job.is_over:
        kind = "Complete" if job.state is JobState.SUCCEEDED else "Failed"
        conditions.append(_condition(kind, job, job.finished_at or job.since, wall))
    return conditions


def _condition(kind: str, job: Job, at: Millis, wall: Wall) -> dict[str, Any]:
    is_end = kind in ("Complete", "Failed")
    return {
        "type": kind,
        "status": "True",
        "reason": (job.reason if is_end else "") or kind,
        "message": job.message if is_end else "",
        "lastTransitionTime": timestamp(wall(at)),
    }


def _run(run: Run, wall: Wall) -> dict[str, Any]:
    return {
        "id": run.id,
        "attempt": run.attempt,
        "state": run.state.value,
        "node": run.node,
        "startedAt": _at(run.started_at, wall),
        "endedAt": _at(run.ended_at, wall),
        "exitCode": run.exit_code,
        "reason": run.reason or None,
        "message": run.message or None,
    }


def _hook(hook: Hook, wall: Wall) -> dict[str, Any]:
    is_owed = hook.state in (HookState.OWED, HookState.FAILING)
    return {
        "state": hook.state.value,
        "tries": hook.tries,
        "problem": hook.problem or None,
        "triedAt": _at(hook.tried_at, wall),
        "nextTryAt": _at(hook.not_before, wall) if is_owed else None,
    }


def _at(at: Millis | None, wall: Wall) -> str | None:
    return None if at is None else timestamp(wall(at))
