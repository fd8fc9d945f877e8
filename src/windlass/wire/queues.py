"""Queues and fairness on the wire: plain dictionaries out, shapes for the description of the API. Money in whole micro-units."""

from typing import Any, Final, Literal

from windlass.core.fairness.account import Work
from windlass.core.model.ids import Millis
from windlass.core.model.shape import Shape as JobShape
from windlass.core.world.queues import FairnessView, QueueView, TenantStanding
from windlass.wire.render import Wall, resources_document, timestamp
from windlass.wire.schema import ResourcesShape, Shape

_NANO: Final = 1000
"""Work is kept in thousandths of a micro-unit."""


class ReasonShape(Shape):
    reason: str
    nodes: int


class QueueHead(Shape):
    name: str
    uid: str
    priority: int


class QueueItem(Shape):
    tenant: str
    resources: ResourcesShape
    runtime: Literal["container", "process"]
    pools: list[str]
    node_selector: dict[str, str]
    depth: int
    head: QueueHead
    oldest_wait_seconds: float
    urgent: int
    tag: int
    state: Literal["running", "parked", "held"]
    reasons: list[ReasonShape]


class QueueStatus(Shape):
    items: list[QueueItem]
    depth: int


class FairnessItem(Shape):
    tenant: str
    weight: float
    waiting: int
    deserved: int
    received: int
    lag: int
    tag: int
    all_work: int


class Fairness(Shape):
    since: str
    virtual_time: int
    items: list[FairnessItem]


def queue_document(views: tuple[QueueView, ...], *, now: Millis) -> dict[str, Any]:
    return {"items": [_queue(view, now) for view in views], "depth": sum(view.depth for view in views)}


def fairness_document(view: FairnessView, *, wall: Wall) -> dict[str, Any]:
    return {
        "since": timestamp(wall(view.since)),
        "virtualTime": view.now,
        "items": [_standing(one) for one in view.standings],
    }


def _queue(view: QueueView, now: Millis) -> dict[str, Any]:
    reasons = view.held or view.parked
    return {
        "tenant": view.tenant,
        **_shape(view.shape),
        "depth": view.depth,
        "head": {"name": view.head.name, "uid": view.head.id, "priority": view.head.priority},
        "oldestWaitSeconds": max(0, now - view.oldest_since) / 1000,
        "urgent": view.urgent,
        "tag": view.tag,
        "state": "held" if view.held else "parked" if view.parked else "running",
        "reasons": [{"reason": reason, "nodes": nodes} for reason, nodes in reasons],
    }


def _shape(shape: JobShape) -> dict[str, Any]:
    return {
        "resources": resources_document(shape.needs),
        "runtime": shape.runtime,
        "pools": list(shape.pools),
        "nodeSelector": dict(shape.labels),
    }


def _standing(one: TenantStanding) -> dict[str, Any]:
    standing = one.standing
    return {
        "tenant": standing.tenant,
        "weight": standing.weight / 1000,
        "waiting": one.waiting,
        "deserved": _micros(standing.deserved),
        "received": _micros(standing.received),
        "lag": _micros(standing.deserved) - _micros(standing.received),
        "tag": one.tag,
        "allWork": _micros(one.all_work),
    }


def _micros(work: Work) -> int:
    return work // _NANO
