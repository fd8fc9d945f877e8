"""What happened to a job or a node, told from two of its records: also the steps that a single commit hid between them."""

from collections.abc import Iterator

from msgspec.structs import replace

from windlass.core.model.amounts import money
from windlass.core.model.ids import Millis
from windlass.core.model.job import Job
from windlass.core.model.job import JobState as S
from windlass.core.model.node import Node
from windlass.core.model.node import NodeState as N
from windlass.core.model.views import Asked, Event

_KINDS = {
    S.PENDING: "Retried",
    S.SCHEDULED: "Scheduled",
    S.STARTING: "Starting",
    S.RUNNING: "Running",
    S.SUCCEEDED: "Succeeded",
    S.FAILED: "Failed",
    S.TIMED_OUT: "TimedOut",
    S.CANCELLED: "Cancelled",
}
_NODE_KINDS = {
    N.ACTIVE: "NodeActive",
    N.NOT_READY: "NodeNotReady",
    N.INACTIVE: "NodeLost",
    N.CORDONED: "NodeCordoned",
    N.DRAINING: "NodeDraining",
    N.REMOVED: "NodeRemoved",
}


_UNKNOWN = Millis(0)


def narrate(old: Job | None, new: Job, *, revision: int, now: Millis = _UNKNOWN) -> Iterator[Event]:
    """Oldest first. `now` is when the commit was made: the moment of what leaves none in the record."""

    def event(kind: str, at: Millis, *, reason: str = "", message: str = "", asked: Asked | None = None) -> Event:
        return Event(
            revision=revision,
            job=new.id,
            at=at,
            kind=kind,
            reason=reason,
            message=message,
            attempt=new.attempt,
            node=new.node or "",
            tenant=new.tenant,
            name=new.name,
            asked=asked,
        )

    if old is None:
        held = "suspended until released" if new.is_suspended else ""
        # Of a moment before it had a place, also when it was placed in the same commit, as a busy store has it.
        accepted = event("Accepted", new.created_at, message=held, asked=_asked(new))
        yield replace(accepted, node="", attempt=0)
    elif old.is_suspended and not new.is_suspended:
        yield event("Released", new.since)
    if new.is_cancelled and (old is None or not old.is_cancelled):
        is_all = old is not None and old.since == new.since
        yield event("CancelAsked", now if is_all and now != _UNKNOWN else new.since)
    if new.is_cost_warned and (old is None or not old.is_cost_warned):
        warned = new.cost_warned_at if new.cost_warned_at is not None else new.since
        yield event(
            "CostWarning", warned, message=f"nine tenths of the {money(new.cost_max or 0)} it may cost are used"
        )
    if old is not None and old.state is new.state and old.attempt == new.attempt:
        return
    started = new.started_at
    if new.is_over and started is not None and (old is None or old.started_at is None):
        yield event("Running", started)
    if new.state is not S.PENDING or old is not None:
        yield event(_KINDS[new.state], new.since, reason=new.reason, message=new.message)


def narrate_node(old: Node | None, new: Node | None, *, revision: int, now: Millis = _UNKNOWN) -> Iterator[Event]:
    """`new` None: it was removed. Nothing for a change that nobody placing a job would notice.

    `now` is when the commit was made: the moment of what leaves none in the record.
    """
    is_dated = new is not None and (old is None or old.since != new.since)

    def event(kind: str, node: Node, *, message: str = "", is_described: bool = False) -> Event:
        return Event(
            revision=revision,
            at=node.since if is_dated or now == _UNKNOWN else now,
            kind=kind,
            node=node.id,
            pool=node.pool,
            message=message,
            capacity=node.capacity if is_described else None,
            labels=node.labels if is_described else (),
        )

    if new is None:
        if old is not None and old.state is not N.REMOVED:
            yield event("NodeRemoved", old)
        return
    if old is None:
        yield event("NodeJoined", new, message=new.state, is_described=True)
        return
    if (old.capacity, old.pool, old.labels) != (new.capacity, new.pool, new.labels):
        yield event("NodeChanged", new, is_described=True)
    if old.state is not new.state:
        yield event(_NODE_KINDS[new.state], new, message=f"was {old.state}")


def _asked(job: Job) -> Asked:
    return Asked(
        needs=job.shape.needs,
        priority=job.priority,
        expected_ms=job.expected_ms,
        sla_ms=job.sla_ms,
        pools=job.shape.pools,
        labels=job.shape.labels,
    )
