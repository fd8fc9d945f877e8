"""The shapes of answers, for OpenAPI and for tests that hold `render` to them. Nothing is validated by these at run time."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from windlass.wire.job import JobDocument, JobSpecDocument


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class FaultShape(Shape):
    field: str
    message: str


class LimitShape(Shape):
    """A limit that is reached."""

    code: str
    used: int
    asked: int
    limit: int
    unit: str


class Problem(BaseModel):
    model_config = ConfigDict(extra="forbid")
    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str | None = None
    faults: list[FaultShape]
    limits: list[LimitShape] = Field(default_factory=list)
    request_id: str


class JobMetadata(Shape):
    name: str
    uid: str
    creation_timestamp: str
    labels: dict[str, str] = Field(default_factory=dict)


class RunShape(Shape):
    id: str
    attempt: int
    state: str
    node: str | None
    started_at: str | None
    ended_at: str | None
    exit_code: int | None
    reason: str | None
    message: str | None


class Condition(Shape):
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    last_transition_time: str


class SlaShape(Shape):
    due_at: str
    state: Literal["on-time", "at-risk", "critical", "missed", "met"] | None


class WebhookShape(Shape):
    """Of a job that is over: how telling of it goes."""

    state: Literal["owed", "failing", "heard", "given-up"]
    tries: int
    problem: str | None
    tried_at: str | None
    next_try_at: str | None


class JobStatus(Shape):
    phase: Literal["Pending", "Running", "Succeeded", "Failed"]
    state: Literal["PENDING", "SCHEDULED", "STARTING", "RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"]
    reason: str | None
    message: str | None
    started_at: str | None
    finished_at: str | None
    exit_code: int | None
    attempt: int
    pod_name: str | None
    node: str | None
    artifact_path: str
    conditions: list[Condition]
    runs: list[RunShape] = Field(default_factory=list)
    waiting: list[str] = Field(default_factory=list)
    progress: str | None = None
    ran_seconds: float | None = Field(
        default=None, description="How long its runs that are over ran, together; what waits between them is not in it."
    )
    run_started_at: str | None = Field(default=None, description="Of the run that is live, while it is RUNNING.")
    cost: int | None = None
    sla: SlaShape | None = None
    webhook: WebhookShape | None = None


class JobManifest(Shape):
    """A job as the server answers it."""

    api_version: Literal["windlass.dev/v1"]
    kind: Literal["Job", "EphemeralAccelerationJob"]
    metadata: JobMetadata
    spec: JobSpecDocument
    status: JobStatus


class JobList(Shape):
    items: list[JobManifest]
    next: str | None
    revision: int


class BulkRequest(Shape):
    items: list[JobDocument] = Field(min_length=1, max_length=1000)


class BulkItem(Shape):
    name: str
    uid: str


class BulkAnswer(Shape):
    items: list[BulkItem]


class AskedShape(Shape):
    """What an accepted job asked for."""

    resources: "ResourcesShape"
    priority: int | None = None
    expected_seconds: float | None = None
    sla_seconds: float | None = None
    pools: list[str] | None = None
    node_selector: dict[str, str] | None = None


class EventShape(Shape):
    revision: int
    at: str
    kind: str
    reason: str
    message: str
    job: str | None = None
    name: str | None = None
    tenant: str | None = None
    attempt: int | None = None
    node: str | None = None
    pool: str | None = None
    asked: AskedShape | None = None
    capacity: "ResourcesShape | None" = None
    labels: dict[str, str] | None = None


class EventList(Shape):
    items: list[EventShape]


class EventPage(Shape):
    items: list[EventShape]
    next: int | None
    revision: int


class GateShape(Shape):
    name: str
    open: bool
    holds: bool
    says: str
    numbers: dict[str, int]
    opens_at: str | None


class AheadShape(Shape):
    own: int
    names: list[str]
    others: int
    complete: bool


class EstimateShape(Shape):
    at: str
    node: str | None
    growing: str | None
    no_earlier_than: bool


class AdviceShape(Shape):
    does: str
    says: str
    command: str
    by_admin: bool
    values: dict[str, str]


class WhyShape(Shape):
    job: str
    name: str
    state: str
    says: str
    gate: str | None
    gates: list[GateShape]
    ahead: AheadShape
    start: EstimateShape | None
    advice: list[AdviceShape]


class PlanRequest(Shape):
    items: list[JobDocument] = Field(min_length=1, max_length=100)


class RefusalShape(Shape):
    code: str
    detail: str
    hint: str | None
    faults: list[FaultShape]


class PlannedShape(Shape):
    name: str
    accepted: bool
    unchanged: bool
    suspended: bool
    refusal: RefusalShape | None
    start: EstimateShape | None
    starts_now: bool
    growing: str | None
    turn: int | None
    expected_seconds: float
    price: int
    price_per_hour: int
    in_burst: bool
    stopped_for_cost: bool


class DelayShape(Shape):
    name: str
    seconds: float


class DelaysShape(Shape):
    own: list[DelayShape]
    others: int
    others_seconds: float


class PlanShape(Shape):
    items: list[PlannedShape]
    delays: DelaysShape
    complete: bool


class Deleted(Shape):
    name: str
    uid: str
    is_gone: bool
    """False: it is alive and was asked to end; it goes when it has, and its name is taken until then."""


class Upload(Shape):
    digest: str
    size: int
    entries: int


class CopiedFile(Shape):
    volume: str
    path: str
    size: int
    digest: str


class VolumeShape(Shape):
    name: str
    uid: str
    job: str | None
    node: str | None
    state: Literal["waiting", "present", "dropping"]
    since: str
    expires_at: str | None


class VolumeList(Shape):
    items: list[VolumeShape]


class DroppedVolume(Shape):
    name: str


class CleanupItem(Shape):
    name: str
    action: str
    why: str


class Cleanup(Shape):
    deleted: int
    skipped: int
    items: list[CleanupItem]


class ResourcesShape(Shape):
    cpu: str
    memory: str
    gpu: int


class NodeShape(Shape):
    name: str
    pool: str
    state: str
    runtime: str
    labels: dict[str, str]
    capacity: ResourcesShape
    free: ResourcesShape
    runs: int


class NodeList(Shape):
    items: list[NodeShape]


class Version(Shape):
    name: Literal["windlass"]
    version: str
    api: Literal["v1"]
    runtime: str
    runtime_kind: Literal["container", "process"]
    compiled: bool
    """Whether the part that decides is."""


class WhoAmI(Shape):
    subject: str
    tenant: str
    roles: list[str]
    token: str
    """Its id, by which it can be revoked; not the token."""
    expires_at: str


class Health(Shape):
    status: Literal["ok"]


class PartState(Shape):
    name: str
    is_ready: bool
    detail: str


class Ready(Shape):
    is_ready: bool
    parts: list[PartState]
