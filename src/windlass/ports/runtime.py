"""What runs things on a node: Docker, Podman, plain processes; Kubernetes, where the node is a cluster.

A run is named by its id and labelled with installation and node; the runtime never adopts, lists or removes anything without
both labels. Every verb may be repeated: `create` of what exists and `remove` of what is gone succeed. `start` is the one act
that must happen at most once per run, also across crashes: it starts only what was created and never ran.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct

from windlass.core.errors import WindlassError
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import Millis, NodeId, RunId, TenantId, VolumeId
from windlass.core.model.resources import Resources
from windlass.core.model.run import Token
from windlass.core.model.secret import NOTHING_HANDED, Credentials, Handed

IDLE_MS: Final = Millis(600_000)
"""How long what a tenant's runs share waits for the next of them."""
ENGINE_UNAVAILABLE = "engine-unavailable"
"""Of an Unavailable: no engine answers at all; it is waited for."""
ENGINE_REFUSED = "engine-refused"
"""The code of an Unavailable whose engine is there but answered with a fault of its own."""


class Traits(Struct, frozen=True, kw_only=True):
    """What a runtime can do that not all can. Whoever relies on it looks here; the contract suite holds each to its word."""

    keeps_streams_apart: bool = True
    """False: what a run writes to stderr is told as stdout, and which of two lines of different streams came first is not known."""
    keeps_carriage_returns: bool = True
    """False: one before a newline is lost on the way into the log (containerd reads lines so)."""
    starts_at_once: bool = True
    """False: a started run may still wait for room or for its image. Until it runs it is CREATED, with what it waits for."""
    shows_pids: bool = True
    """False: a run's processes are another machine's."""


class Phase(StrEnum):
    ABSENT = "absent"
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


class Observed(Struct, frozen=True, kw_only=True):
    """What the runtime says of a run at this moment."""

    run: RunId
    phase: Phase
    token: Token | None = None
    pid: int | None = None
    exit_code: int | None = None
    is_oom: bool = False
    ran_ms: Millis = Millis(0)
    """Between start and end, by the runtime's own record; 0 while unknown."""
    cpu_used_ms: int | None = None
    """Processor time of all its processes, once it is over; None: this runtime cannot tell."""
    memory_peak_bytes: int | None = None
    started_wall: float | None = None
    finished_wall: float | None = None
    error: str = ""
    """The engine's own words when it could not start it: CREATED with an error never runs."""
    waits_for: str = ""
    """Of one that was started and does not run yet: what for, in the engine's words."""
    reason: str = ""
    """A name for the end where the engine knows more of it than an exit code says: `Evicted`, `NodeLost`, `ImagePull`, …"""


class Used(Struct, frozen=True, kw_only=True):
    """What a run has used until now."""

    cpu_used_ms: int
    memory_peak_bytes: int
    """The most that was seen."""


class VolumeWish(Struct, frozen=True, kw_only=True):
    """What a job says of its volume; a runtime whose volumes are directories need not care."""

    size_bytes: int = 1 << 30
    storage_class: str = ""
    node_labels: tuple[tuple[str, str], ...] = ()
    """What its job asks of nodes: a volume may be on one of them for ever from the first moment it is used."""


ANY_VOLUME: Final = VolumeWish()


class Machine(Struct, frozen=True, kw_only=True):
    """What the node offers."""

    runtime: str
    """For people: `docker 28.2`, `podman 4.3`, `process`."""
    kind: str
    """`container` or `process`; what a shape asks for."""
    capacity: Resources
    gpu_ids: tuple[str, ...] = ()
    slices_lack: str = ""
    """Why a slice of it has no cgroup of its own with its limits; empty where it has."""
    networks_lack: str = ""
    """Why runs are not kept off the node and off other tenants' networks by packet filter rules; empty where they are."""


class Stream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class LogLine(Struct, frozen=True, kw_only=True):
    """One line as written, without its newline. `at` is RFC 3339 UTC with nanoseconds, as the runtime recorded or saw it."""

    at: str
    stream: Stream
    text: bytes
    is_partial: bool = False
    """The newline is still to come (or never came before the end): the next chunk of this stream continues it."""
    left_out: int = 0
    """Not a line, but so many bytes of the stream that are not kept: it had become too long. `text` is empty then."""


class LogPosition(Struct, frozen=True, kw_only=True):
    """What the reader already holds, computed from its own file, so that a resumed follow loses and doubles nothing."""

    last_at: str = ""
    lines_at_last: Mapping[str, int] = {}
    """How many chunks of each stream carry exactly `last_at`."""
    bytes_of: Mapping[str, int] = {}
    """Bytes of each stream already held, newlines counted."""
    lines: int = 0
    """Chunks of all streams already held, as far as they were counted."""


class ImageUnavailable(WindlassError):
    """No image to run. `code` says why: image-not-found, image-denied, image-name, registry-unreachable."""

    default_code = "image-unavailable"

    def __init__(self, message: str, *, is_transient: bool, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint)
        self.is_transient = is_transient


class StartFailed(WindlassError):
    """The engine created it but could not start it (no such command, no such device). It never ran."""

    default_code = "start-failed"


class ImageAccess(Struct, frozen=True, kw_only=True):
    """In whose name an image is had. Of a guarded registry even one that is here may be used only by whom it lets read it."""

    tenant: TenantId = TenantId("")
    credentials: Credentials | None = None
    is_guarded: bool = False


ANYBODY: Final = ImageAccess()


class Terminal(Protocol):
    """A duplex byte stream into a container: attach, exec, debug."""

    async def send(self, data: bytes) -> None: ...

    async def close_input(self) -> None: ...

    def output(self) -> AsyncIterator[tuple[Stream, bytes]]: ...

    async def resize(self, *, rows: int, columns: int) -> None: ...

    async def exit_code(self) -> int | None:
        """After the output has ended."""
        ...


class Runtime(Protocol):
    @property
    def traits(self) -> Traits: ...

    async def machine(self) -> Machine:
        """Unavailable when the engine does not answer."""
        ...

    def ensure_image(self, image: str, *, access: ImageAccess = ANYBODY) -> AsyncIterator[str]:
        """Make the image present and `access` entitled to it, yielding progress lines for people. ImageUnavailable, Unavailable.
        No retries here. Credentials go to the image's own registry and to no other."""
        ...

    async def ensure_volume(
        self, volume: VolumeId, *, labels: Mapping[str, str], wish: VolumeWish = ANY_VOLUME
    ) -> None: ...

    async def put_archive(self, volume: VolumeId, path: str, tar: AsyncIterator[bytes]) -> None:
        """Unpack an already validated tar stream into `path` below the volume's root; parents are made."""
        ...

    def get_archive(self, volume: VolumeId, path: str) -> AsyncIterator[bytes]:
        """A tar stream of `path` below the volume's root. NotFound when absent. Links that leave the root are not followed."""
        ...

    async def remove_volume(self, volume: VolumeId) -> None: ...

    async def volumes(self) -> tuple[VolumeId, ...]:
        """Ours, by label."""
        ...

    async def create(self, assignment: Assignment, *, handed: Handed = NOTHING_HANDED) -> None:
        """Create, hardened, not started. A run of that id that exists already is left as it is.

        `handed` is given here and again to `start`: engines want variables now, others can hold them back until then.
        """
        ...

    async def start(self, run: RunId, *, handed: Handed = NOTHING_HANDED) -> None:
        """Start what is CREATED; leave alone what is running or has exited. StartFailed, ImageUnavailable."""
        ...

    async def observe(self, run: RunId) -> Observed: ...

    async def usage(self, run: RunId) -> Used | None:
        """Of a run that runs. None: nothing to see; or this runtime tells it with the end."""
        ...

    async def observe_all(self) -> tuple[Observed, ...]:
        """Every run of this installation and node, by label. Unavailable is not the same as empty."""
        ...

    async def wait(self, run: RunId) -> Observed:
        """Return when it is EXITED or ABSENT, or CREATED with an error; survives an engine restart in between (Unavailable is
        retried inside)."""
        ...

    async def stop(self, run: RunId, *, grace_ms: Millis) -> None:
        """SIGTERM, after the grace SIGKILL; returns when it is over. Absent or over is fine. Where the grace is fixed when
        a run is made, it is the assignment's."""
        ...

    def logs(self, run: RunId, *, after: LogPosition) -> AsyncIterator[LogLine]:
        """From `after` on, following until the run is over and everything it wrote has been yielded."""
        ...

    async def remove(self, run: RunId) -> None:
        """Container and anonymous parts; not the volume. Ends it first if it must."""
        ...

    async def slices(self) -> tuple[NodeId, ...]:
        """Those that something is left of which held their runs together."""
        ...

    async def end_slice(self, node: NodeId) -> None:
        """Nothing of that is left. One that never was is fine. Unavailable while one of its runs is still there."""
        ...

    async def tidy(self, *, idle_ms: Millis = IDLE_MS) -> None:
        """Remove what a tenant's runs share (a network) where it has had none for so long; see that the rest is as it should
        be. Asked from time to time, also while runs start and end."""
        ...

    def attach(self, run: RunId) -> AbstractAsyncContextManager[Terminal]: ...

    def execute(
        self, run: RunId, command: tuple[str, ...], *, wants_terminal: bool
    ) -> AbstractAsyncContextManager[Terminal]: ...

    def debug(
        self,
        volume: VolumeId,
        *,
        name: str,
        image: str,
        command: tuple[str, ...],
        labels: Mapping[str, str],
        keep: bool,
    ) -> AbstractAsyncContextManager[Terminal]:
        """A shell beside the volume, mounted at /mnt; removed at the end unless `keep`."""
        ...

    async def remove_all(self) -> int:
        """Everything with our labels: containers, volumes, networks. Answers how many of the first two went. For `down --purge`."""
        ...

    async def close(self) -> None: ...
