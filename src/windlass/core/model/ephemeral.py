"""An ephemeral job on Kubernetes, as the operator thinks of it: what is wished, how far it has come, what is seen.

Wall time throughout: Kubernetes has no other. `Course` is what is kept in the object's status; the rest is read anew each time.
"""

from enum import StrEnum

from msgspec import Struct

from windlass.core.model.ids import Millis
from windlass.core.model.job import OnLostNode


class EphemeralPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Wish(Struct, frozen=True, kw_only=True):
    """What the person wants, from the spec and annotations."""

    retries: int = 0
    run_ttl_ms: Millis = Millis(0)
    volume_ttl_ms: Millis = Millis(3_600_000)
    timeout_ms: Millis | None = None
    on_lost_node: OnLostNode = OnLostNode.WAIT
    is_suspended: bool = False
    awaits_upload: bool = False
    """Suspended by a client that sends its files: by itself it is released when they are all there."""
    is_cancelled: bool = False
    gpus: int = 0
    node_labels: tuple[tuple[str, str], ...] = ()
    """Of the nodes it may run on."""
    is_volume_given: bool = False
    """Its volume was made for it by whoever made the job: it is used as it is, and not made anew when it is gone."""
    held: str = ""
    """Why it may not run yet, in words: nobody has admitted it for its tenant. Empty: it may."""
    fault: str = ""
    """Why it can never run, in words; the schema has let it pass."""


class Course(Struct, frozen=True, kw_only=True):
    """How far it has come. It never moves back, except to Pending by a retry."""

    phase: EphemeralPhase = EphemeralPhase.PENDING
    reason: str = ""
    message: str = ""
    attempt: int = 0
    """Runs decided so far. Written before the pod `<job>-<attempt>` is made, so that none is ever made twice."""
    pod: str = ""
    """The UID of the current attempt's pod, written before it is let run. Then absent means ended, never "make it again"."""
    volume: str = ""
    """The UID of its volume; a volume of that name with another UID is another's."""
    node: str = ""
    exit_code: int | None = None
    started_at: Millis | None = None
    finished_at: Millis | None = None
    retry_at: Millis | None = None
    """Set between two runs: the failed one is over, the next not begun."""
    log: str = ""
    """The name of the ConfigMap with the newest sealed log."""
    is_volume_gone: bool = False

    @property
    def is_over(self) -> bool:
        return self.phase in (EphemeralPhase.SUCCEEDED, EphemeralPhase.FAILED)


class Owner(StrEnum):
    """Whose a volume is."""

    OURS = "ours"
    UNCLAIMED = "unclaimed"
    """Made by us for this name, and nobody's yet (copy-file): to be adopted."""
    THEIRS = "theirs"
    """Made by somebody else: used as it is, never changed and never deleted."""
    ANOTHERS = "another's"
    """Of another job that had this name."""


class VolumeSeen(Struct, frozen=True, kw_only=True):
    uid: str
    owner: Owner = Owner.OURS
    is_bound: bool = False
    waits_for_pod: bool = False
    """Its class binds on first consumer: the pod goes first."""
    missing_class: str = ""
    """The storage class that it names, when there is none of that name."""
    is_going: bool = False
    """It is being deleted, or will be by the cluster: the job that it belongs to is gone."""


class PodState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class PodSeen(Struct, frozen=True, kw_only=True):
    uid: str
    name: str = ""
    state: PodState = PodState.WAITING
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    node: str = ""
    placed_at: Millis = Millis(0)
    """When it got its node: until then it waits for one, and not for its image."""
    started_at: Millis | None = None
    finished_at: Millis | None = None
    deadline_ms: Millis | None = None
    """How long its node lets it run. Whoever stops a run shortens it."""
    is_foreign: bool = False
    """It has the name, but not our owner reference."""
    is_left: bool = False
    """It is nobody's, and was made for a job of this name: one that was deleted without what it owned."""
    is_going: bool = False
    """As of a volume."""
    is_stuck: bool = False
    """It waits for something that waiting alone will hardly bring: an image that is not there, a refused setting."""
    is_hopeless: bool = False
    """It can never start: no need to wait."""
    is_node_silent: bool = False
    is_held: bool = False
    """Made by us and not released: no scheduler takes it, so it has never run."""
    is_put_off: bool = False
    """Its node was refused its volume, because it asked before the API server knew where the pod is; it would ask again
    only ten seconds later, unless it is told to."""


class Refused(Struct, frozen=True, kw_only=True):
    """The API server would not have the volume or the pod."""

    reason: str
    message: str
    is_final: bool


class LogSeen(Struct, frozen=True, kw_only=True):
    """What was kept of the current run's log; an empty name when there was none to be had."""

    name: str = ""
    tail: str = ""


class Seen(Struct, frozen=True, kw_only=True):
    pod: PodSeen | None = None
    """The current attempt's."""
    volume: VolumeSeen | None = None
    refused: Refused | None = None
    log: LogSeen | None = None
    """None: not sealed yet."""
    is_node_silent: bool = False
    """The node that the course names does not answer, or is no more."""
