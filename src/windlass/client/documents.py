"""The shapes of `/api/v1` as a reader sees them: types only, nothing is checked or converted here.

A document stays the dictionary the server sent, so `-o json` shows every field, also those of a newer server. The one
validator is `wire`, on the server's side.
"""

from typing import Any, Literal, NotRequired, TypedDict

Document = dict[str, Any]
"""A manifest as written by a person: not yet validated by anyone."""


class Metadata(TypedDict, total=False):
    name: str
    uid: str
    labels: dict[str, str]
    creationTimestamp: str


class Run(TypedDict, total=False):
    id: str
    attempt: int
    state: str
    node: str | None
    startedAt: str | None
    endedAt: str | None
    exitCode: int | None
    reason: str | None
    message: str | None


class Condition(TypedDict, total=False):
    type: str
    status: str
    reason: str
    message: str
    lastTransitionTime: str


class Status(TypedDict, total=False):
    phase: str
    state: str
    reason: str | None
    message: str | None
    startedAt: str | None
    finishedAt: str | None
    exitCode: int | None
    attempt: int
    podName: str | None
    node: str | None
    artifactPath: str
    conditions: list[Condition]
    runs: list[Run]
    waiting: list[str]
    progress: str | None
    ranSeconds: float | None
    runStartedAt: str | None
    cost: int | None


class Manifest(TypedDict):
    apiVersion: str
    kind: str
    metadata: Metadata
    spec: Document
    status: Status


class Deleted(TypedDict):
    name: str
    uid: str
    isGone: bool


class Page(TypedDict):
    items: list[Manifest]
    next: str | None
    revision: int


class Happening(TypedDict, total=False):
    """One event in a job's or a node's life."""

    revision: int
    at: str
    kind: str
    reason: str
    message: str
    job: str
    name: str
    tenant: str
    attempt: int
    node: str
    pool: str
    asked: Document
    capacity: Document


class EventPage(TypedDict):
    items: list[Happening]
    next: int | None
    revision: int


class Gate(TypedDict):
    name: str
    open: bool
    holds: bool
    says: str
    numbers: dict[str, int]
    opensAt: str | None


class Ahead(TypedDict):
    own: int
    names: list[str]
    others: int
    complete: bool


class Estimate(TypedDict):
    at: str
    node: str | None
    growing: str | None
    noEarlierThan: bool


class Advice(TypedDict):
    does: str
    says: str
    command: str
    byAdmin: bool
    values: dict[str, str]


class Why(TypedDict):
    job: str
    name: str
    state: str
    says: str
    gate: str | None
    gates: list[Gate]
    ahead: Ahead
    start: Estimate | None
    advice: list[Advice]


class Planned(TypedDict):
    name: str
    accepted: bool
    unchanged: NotRequired[bool]
    """It is there already, as asked for. Neither this nor the next is told by an older server."""
    suspended: NotRequired[bool]
    refusal: Document | None
    start: Estimate | None
    startsNow: bool
    growing: str | None
    turn: int | None
    expectedSeconds: float
    price: int
    pricePerHour: int
    inBurst: bool
    stoppedForCost: NotRequired[bool]
    """It would cost more than its maxCost; not told by an older server."""
    file: NotRequired[str]
    """Where the command line read it, and"""
    document: NotRequired[int]
    """which of that file's documents it is, from 1 on."""


class Delays(TypedDict):
    own: list[Document]
    others: int
    othersSeconds: float


class Plan(TypedDict):
    items: list[Planned]
    delays: Delays
    complete: bool


class LogLine(TypedDict):
    at: str
    stream: Literal["stdout", "stderr"]
    text: str
    partial: NotRequired[bool]
    """The line goes on with the next piece of its stream."""
    base64: NotRequired[str]
    """The bytes themselves, when they are not UTF-8; `text` is then what comes nearest."""


class Upload(TypedDict):
    digest: str
    size: int
    entries: int


class CopiedFile(TypedDict):
    volume: str
    path: str
    size: int
    digest: str


class Volume(TypedDict, total=False):
    name: str
    uid: str
    job: str | None
    node: str | None
    state: str
    expiresAt: str | None


class CleanupItem(TypedDict):
    name: str
    action: str
    why: str


class Cleanup(TypedDict):
    deleted: int
    skipped: int
    items: list[CleanupItem]


class Node(TypedDict, total=False):
    name: str
    pool: str
    state: str
    runtime: str
    capacity: Document
    free: Document
    runs: int


class Secret(TypedDict):
    name: str
    keys: list[str]
    version: int
    updatedAt: str
    usedBy: list[str]
    usedByCount: int


class Login(TypedDict):
    registry: str
    username: str
    version: int
    updatedAt: str


class Rotation(TypedDict):
    key: int
    left: int


class TenantManifest(TypedDict):
    apiVersion: str
    kind: str
    metadata: Metadata
    spec: Document
    status: Document


class IssuedToken(TypedDict, total=False):
    id: str
    tenant: str
    subject: str
    role: str
    issuedAt: str | None
    expiresAt: str
    revokedAt: str | None
    token: str
    """Only in the answer that issued it."""


class AuditRecord(TypedDict, total=False):
    number: int
    at: str
    subject: str
    tenant: str
    token: str
    address: str
    request: str
    verb: str
    kind: str
    name: str
    uid: str
    owner: str
    others: list[str]
    outcome: Literal["done", "refused"]
    code: str | None
    skipped: int
