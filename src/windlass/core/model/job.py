"""A job: run to completion. `Job` is the small record the World lives on; `JobSpec` is the rest, read only at a start.

The two are stored under different keys, so that placing a job rewrites a few hundred bytes and a million queued jobs fit
in memory. They and what they hold are frozen, so no cycle can go through them: the garbage collector passes them over (`gc=False`).
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from windlass.core.model.ids import JobId, Millis, NodeId, TenantId, VolumeId
from windlass.core.model.money import Micros
from windlass.core.model.resources import Resources
from windlass.core.model.secret import SecretFile, SecretVariable
from windlass.core.model.shape import Shape


class JobState(StrEnum):
    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"

    __hash__ = str.__hash__  # enum's own is a function in Python, called for every look into a table


PENDING: Final = JobState.PENDING
"""By a name of its own where it is asked for often: to find it in its class takes ten times as long."""
TERMINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.TIMED_OUT, JobState.CANCELLED})


class JobKind(StrEnum):
    JOB = "Job"
    EPHEMERAL = "EphemeralAccelerationJob"


class OnLostNode(StrEnum):
    WAIT = "wait"
    MOVE = "move"
    DUPLICATE = "duplicate"


class Job(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the World knows of a job. It never moves back except to PENDING, by a retry."""

    id: JobId
    tenant: TenantId
    name: str
    seq: int
    """Order of acceptance; FIFO within a tenant is by this, and survives a rebuild."""
    shape: Shape
    created_at: Millis
    since: Millis
    """When it entered its present state."""
    state: JobState = JobState.PENDING
    kind: JobKind = JobKind.JOB
    priority: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    image: str = ""
    """Repeated from the spec, because every list shows it."""

    attempt: int = 0
    """Runs made so far; the current run's number while one lives."""
    retries: int = 0
    count: int = 1
    """Members of a gang; each has an index below it."""
    not_before: Millis = Millis(0)
    """A retry backs off until then."""
    timeout_ms: Millis | None = None
    expected_ms: Millis | None = None
    sla_ms: Millis | None = None
    """Its SLA class: how long it may wait for its first start, from when it was accepted or released."""
    due_at: Millis | None = None
    """Its deadline by that; none while it is suspended."""
    cost_max: Micros | None = None
    grace_ms: Millis = Millis(10_000)

    is_suspended: bool = False
    is_cancelled: bool = False
    """A cancel was accepted; it wins unless a result was committed first."""
    is_name_given: bool = False
    """The user chose the name, so it is held in the name index until the job is deleted."""
    is_deleted: bool = False
    """Deleted while alive: cancelled first, its history erased at its end."""
    drops_volume: bool = False
    """Deleted together with its volume."""
    webhook: str = ""
    """Told when the job is over."""
    secrets: tuple[str, ...] = ()
    """Names of those its spec refers to: whoever looks at a secret sees who uses it."""
    volume: VolumeId | None = None
    """The volume it adopted (made by copy-file before it); None: the one named by its own id."""

    on_lost_node: OnLostNode = OnLostNode.WAIT
    lost_after_ms: Millis = Millis(600_000)
    run_ttl_ms: Millis = Millis(0)
    volume_ttl_ms: Millis = Millis(3_600_000)

    node: NodeId | None = None
    started_at: Millis | None = None
    finished_at: Millis | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    cost: Micros = Micros(0)
    """Of its runs that are over."""
    is_cost_warned: bool = False
    """Nine tenths of `cost_max` are used."""
    cost_warned_at: Millis | None = None
    """When that was found; None also where it was found before this was kept."""

    @property
    def is_over(self) -> bool:
        return self.state in TERMINAL

    @property
    def volume_id(self) -> VolumeId:
        return self.volume or VolumeId(self.id)

    @property
    def is_waiting(self) -> bool:
        """In the queue: placeable as soon as there is room and its backoff has passed."""
        return self.state is PENDING and not self.is_suspended and not self.is_cancelled


class Input(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A blob staged into the job's volume before its first run."""

    digest: str
    """`sha256:<hex>`"""
    size: int
    path: str = ""
    """Where it lies under /artifacts; for an archive, the directory it unpacks into."""
    is_archive: bool = False


class JobSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What to run. Written once at submit; only `inputs` grows, while the job is suspended."""

    image: str = ""
    command: tuple[str, ...] = ()
    """Replaces the image's entrypoint and command when given; never passed to a shell."""
    env: tuple[tuple[str, str], ...] = ()
    secret_env: tuple[SecretVariable, ...] = ()
    """Variables whose values are handed over with the start and are nowhere in a spec."""
    secret_files: tuple[SecretFile, ...] = ()
    workdir: str = ""
    needs: Resources
    pids_max: int = 4096
    inputs: tuple[Input, ...] = ()
    wants_terminal: bool = False
    """`run -it`: stdin open, a pseudo-terminal."""
    wants_input: bool = False
    """`run -i`: stdin open and the streams apart. It ends with whoever gives it; a terminal has input anyway."""
    wants_network: bool = True
    model: str = ""
    input_path: str = ""
    output_path: str = ""
    collect: bool = False
    webhook: str = ""
    storage_class: str = ""
    volume_size_bytes: int = 1 << 30
    queue_name: str = ""
    guest: str = ""
    """The object it stands for, where a tenant made it on a cluster by itself: `namespace/name/uid`. It brings its own volume."""
