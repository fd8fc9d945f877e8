"""The answer to a submit, as bytes: what `render.job_manifest` says of a job that was accepted just now.

One is made for every submit, and most of it is the same each time: a new job's status but for its name and its time, and the spec
of a sweep's thousands but for nothing. So the first is a form that is filled in, and the second is remembered by the very object
that was read. Tests hold this to `job_manifest`; a job that has more to say is left to it.
"""

from typing import Any, Final

from msgspec import Struct, json

from windlass.core.model.job import Job, JobSpec, JobState
from windlass.core.model.naming import volume_name
from windlass.wire.job import API_VERSION
from windlass.wire.render import Wall, job_manifest, spec_of_job, timestamp

_SPECS_MAX: Final = 1024
_SPEC_BYTES_MAX: Final = 4096
"""Together a bound on memory; after so many different ones it begins anew."""
_PENDING: Final = JobState.PENDING
_FORM: Final = (
    b'{"apiVersion":"'
    + API_VERSION.encode()
    + b'","kind":"%b","metadata":{"name":"%b","uid":"%b","creationTimestamp":"%b"%b},'
    b'"spec":%b,"status":{"phase":"Pending","state":"PENDING","reason":null,"message":null,"startedAt":null,"finishedAt":null,'
    b'"exitCode":null,"attempt":0,"podName":null,"node":null,"artifactPath":"%b","conditions":[%b],"waiting":[]}}'
)
_SUSPENDED: Final = b'{"type":"Suspended","status":"True","reason":"Suspended","message":"","lastTransitionTime":"%b"}'


class _Written(Struct, frozen=True):
    """A spec as it was answered; the object is kept, so that no other has its address."""

    spec: JobSpec
    asked: tuple[Any, ...]
    text: bytes


class AcceptedAnswers:
    """Used on the event loop only."""

    def __init__(self, wall: Wall) -> None:
        self._wall = wall
        self._specs: dict[int, _Written] = {}

    def __len__(self) -> int:
        """Specs remembered."""
        return len(self._specs)

    def write(self, job: Job, spec: JobSpec) -> bytes:
        if not _is_plain(job):
            return json.encode(job_manifest(job, spec, wall=self._wall))
        at = timestamp(self._wall(job.created_at)).encode()
        name = job.name.encode()
        return _FORM % (
            job.kind.encode(),
            name,
            job.id.encode(),
            at,
            b',"labels":' + json.encode(dict(job.labels)) if job.labels else b"",
            self._spec(job, spec),
            volume_name(job.name).encode(),
            _SUSPENDED % at if job.is_suspended else b"",
        )

    def _spec(self, job: Job, spec: JobSpec) -> bytes:
        asked = _asked(job)
        known = self._specs.get(id(spec))
        if known is not None and known.spec is spec and known.asked == asked:
            return known.text
        text = json.encode(spec_of_job(job, spec))
        if len(text) <= _SPEC_BYTES_MAX:
            if len(self._specs) >= _SPECS_MAX:
                self._specs.clear()
            self._specs[id(spec)] = _Written(spec, asked, text)
        return text


def _is_plain(job: Job) -> bool:
    """Waits, has never run, is late for nothing: all that the form says of it."""
    return (
        job.state is _PENDING
        and not job.attempt
        and job.due_at is None
        and job.since == job.created_at
        and not job.reason
        and not job.message
    )


def _asked(job: Job) -> tuple[Any, ...]:
    """What of a job's own is in its spec as written."""
    shape = job.shape
    return (
        job.kind,
        job.retries,
        job.priority,
        job.run_ttl_ms,
        job.volume_ttl_ms,
        job.lost_after_ms,
        job.grace_ms,
        job.is_suspended,
        job.on_lost_node,
        shape.pools,
        shape.labels,
        job.timeout_ms,
        job.expected_ms,
        job.sla_ms,
        job.cost_max,
    )
