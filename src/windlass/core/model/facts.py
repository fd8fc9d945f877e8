"""What a node reports. Facts carry the run's token; the World drops those whose token is not the current one."""

from msgspec import Struct

from windlass.core.model.ids import Millis, NodeId, RunId, VolumeId
from windlass.core.model.run import ImageWait, RunState, Token


class RunProgressed(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """The run is on its way: `progress` says pulling, staging, creating (with the reason when it is retried)."""

    run: RunId
    token: Token
    progress: str
    image_wait: ImageWait | None = None
    """What it waits for is its image."""


class RunStarted(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    run: RunId
    token: Token


class RunEnded(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """The run is over on the node, its log complete. `state` is EXITED, STOPPED, LOST or REFUSED (it never started)."""

    run: RunId
    token: Token
    state: RunState
    exit_code: int | None = None
    reason: str = ""
    """Stable: Completed, ExitCode, OOMKilled, DeadlineExceeded, Cancelled, ImagePull, StartFailed, Vanished …"""
    message: str = ""
    """For people; for a failure, with the end of the log."""
    tail: str = ""
    """The end of the log, of a run that was stopped on request: only who asked knows whether that is a failure."""
    ran_ms: Millis = Millis(0)
    cpu_used_ms: int | None = None
    """Processor time; None: this runtime cannot tell, or the run was too short to be looked at."""
    memory_peak_bytes: int | None = None
    is_retriable: bool = True
    """False where another attempt must meet the same end: an image name that cannot exist."""


def with_tail(message: str, tail: str) -> str:
    """What a failure says, and the last lines of its log."""
    return f"{message}; its last lines:\n{tail}" if tail else message


class RunRemoved(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Nothing of the run is left on the node but its log."""

    run: RunId


class VolumeMade(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    volume: VolumeId
    node: NodeId
    size_bytes: int = 0
    """As its job asked for it; nothing: not told, and not metered."""


class VolumeGone(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    volume: VolumeId
    node: NodeId


Fact = RunProgressed | RunStarted | RunEnded | RunRemoved | VolumeMade | VolumeGone
