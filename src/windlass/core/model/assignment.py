"""What a node is told: the whole set of runs and doomed volumes, never a command. Repeating or losing one changes nothing."""

from msgspec import Struct

from windlass.core.model.ids import JobId, Millis, NodeId, RunId, TenantId, VolumeId
from windlass.core.model.job import JobSpec, OnLostNode
from windlass.core.model.resources import Resources
from windlass.core.model.run import Intent, Token


class Slice(Struct, frozen=True, kw_only=True):
    """The part of a machine that a worker is: what runs in it is held together by what it has."""

    node: NodeId
    capacity: Resources


class Assignment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run the node should have, with all it needs to make it true."""

    run: RunId
    job: JobId
    tenant: TenantId
    name: str
    """The job's name, for labels and for people."""
    token: Token
    intent: Intent
    volume: VolumeId
    attempt: int
    spec: JobSpec
    runtime: str = "container"
    index: int = 0
    count: int = 1
    gpu_ids: tuple[str, ...] = ()
    timeout_ms: Millis | None = None
    """Counted by the node from the start it observed, so it holds while the control plane is away."""
    grace_ms: Millis = Millis(10_000)
    on_lost_node: OnLostNode = OnLostNode.WAIT
    """For a node that is a cluster, whose own nodes may be lost: there the cluster sees to it."""
    lost_after_ms: Millis = Millis(600_000)
    node_labels: tuple[tuple[str, str], ...] = ()
    """Likewise: what the job asks of nodes, where those are the cluster's to choose."""
    has_login: bool = False
    """Its tenant has a login at the image's registry: to be asked for before a pull, as secrets are before a start."""
    is_guarded: bool = False
    """Some tenant has a login there: the image may be used, even if it is here already, only by whom the registry lets read it."""
    slice: Slice | None = None
    """Where its node is a slice of the machine that it really runs on."""


class Assignments(Struct, frozen=True, kw_only=True):
    """Everything node `node` should have at `epoch`, `number`. A lower epoch is refused; an older number is skipped."""

    node: NodeId
    epoch: int
    number: int
    runs: tuple[Assignment, ...] = ()
    kept: tuple[RunId, ...] = ()
    """Over and accepted; what is left of them stays until it is no longer listed here."""
    doomed_volumes: tuple[VolumeId, ...] = ()
