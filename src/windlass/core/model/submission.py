"""What a person asks for, already validated by `wire`: the World turns it into a Job, gives it a place in the order and an id."""

from msgspec import Struct

from windlass.core.model.ids import Millis, PoolId
from windlass.core.model.job import JobKind, JobSpec, OnLostNode
from windlass.core.model.money import Micros


class Submission(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    spec: JobSpec
    name: str = ""
    """Empty: the server makes one up."""
    kind: JobKind = JobKind.JOB
    labels: tuple[tuple[str, str], ...] = ()
    priority: int = 0
    retries: int = 0
    count: int = 1
    timeout_ms: Millis | None = None
    expected_ms: Millis | None = None
    sla_ms: Millis | None = None
    cost_max: Micros | None = None
    grace_ms: Millis = Millis(10_000)
    run_ttl_ms: Millis = Millis(0)
    volume_ttl_ms: Millis = Millis(3_600_000)
    on_lost_node: OnLostNode | None = None
    """None: `wait` without retries, `move` with them."""
    lost_after_ms: Millis = Millis(600_000)
    is_suspended: bool = False
    runtime: str = "container"
    pools: tuple[PoolId, ...] = ()
    node_labels: tuple[tuple[str, str], ...] = ()


class Idempotency(Struct, frozen=True, kw_only=True):
    """A retry with the same key and fingerprint gets the first answer again, byte for byte."""

    key: str
    fingerprint: str
    """Digest of the request's body."""
