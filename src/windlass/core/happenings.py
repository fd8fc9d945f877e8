"""What happened to pools, workers, budgets and webhooks, told from their records; jobs and nodes are told of in `model.narrate`.

Comes after the decision that changed the record, in the read model. A pool's own changes by an admin are in the audit.
"""

from collections.abc import Iterator

from windlass.core.model.amounts import money
from windlass.core.model.hook import Hook, HookState
from windlass.core.model.ids import Millis
from windlass.core.model.job import Job
from windlass.core.model.pool import Pool, Worker
from windlass.core.model.pool import WorkerState as W
from windlass.core.model.spending import BudgetMark
from windlass.core.model.views import Event
from windlass.core.scaling import ScalingStep

_HOOK_KINDS = {
    HookState.FAILING: "WebhookFailed",
    HookState.HEARD: "WebhookHeard",
    HookState.GIVEN_UP: "WebhookGivenUp",
}


def narrate_step(step: ScalingStep, *, revision: int) -> Event:
    """A pool grew, shrank, or was held back from it."""
    verdict = step.verdict
    kind = "PoolGrown" if verdict.by > 0 else "PoolShrunk" if verdict.by < 0 else "PoolHeld"
    held = f"; held back: {', '.join(verdict.held)}" if verdict.held else ""
    by = f"{verdict.by:+d}" if verdict.by else f"wanted {verdict.wanted}"
    return Event(revision=revision, at=step.at, kind=kind, pool=step.pool, message=f"{by} ({verdict.rule}){held}")


def narrate_labels(old: Pool | None, new: Pool, *, revision: int, now: Millis) -> Iterator[Event]:
    """What its nodes have by it: a node's own record does not say. `now` is when the commit was made."""
    if new.labels == (old.labels if old is not None else ()):
        return
    message = ", ".join(f"{key}={value}" for key, value in new.labels) or "none any more"
    at = now if old is not None else new.created_at
    yield Event(revision=revision, at=at, kind="PoolLabelled", pool=new.id, message=message, labels=new.labels)


def narrate_worker(old: Worker | None, new: Worker, *, revision: int) -> Iterator[Event]:
    """That it was asked for is told by its pool's growth."""

    def event(kind: str, at: Millis, message: str) -> Event:
        return Event(revision=revision, at=at, kind=kind, node=new.id, pool=new.pool, message=message)

    if new.problem and (old is None or old.problem != new.problem) and new.state is not W.ENDING:
        yield event("WorkerFailing", new.problem_at, new.problem)
    if old is not None and old.state is new.state:
        return
    if new.state is W.READY:
        yield event("WorkerReady", new.since, f"{(new.since - new.asked_at) / 1000:.1f} s after it was asked for")
    elif new.state is W.ENDING:
        yield event("WorkerFailed" if new.problem else "WorkerEnding", new.since, new.problem or _served(new))


def narrate_gone(worker: Worker, at: Millis, *, revision: int) -> Event:
    return Event(
        revision=revision, at=at, kind="WorkerRemoved", node=worker.id, pool=worker.pool, message=_served(worker)
    )


def narrate_budget(old: BudgetMark | None, new: BudgetMark, *, revision: int) -> Iterator[Event]:
    """Each threshold once a month, when it is passed; again, when another budget had not been passed there meanwhile."""
    known = old.passed if old is not None and old.month == new.month else ()
    for passed in [one for one in new.passed if one not in known]:
        message = f"{passed.threshold / 10:g} % of the month's budget: {money(passed.spent)} spent"
        yield Event(revision=revision, at=passed.at, kind="BudgetThreshold", tenant=new.tenant, message=message)


def narrate_hook(old: Hook | None, new: Hook, job: Job, *, revision: int) -> Iterator[Event]:
    """Each try once. In the words of its job, which is over by then."""
    if new.tried_at is None or (old is not None and old.tries == new.tries):
        return
    tries = f"try {new.tries}"
    yield Event(
        revision=revision,
        job=job.id,
        at=new.tried_at,
        kind=_HOOK_KINDS[new.state],
        message=f"{tries}: {new.problem}" if new.problem else tries,
        attempt=job.attempt,
        tenant=job.tenant,
        name=job.name,
    )


def _served(worker: Worker) -> str:
    return f"after {worker.runs} run{'s' * (worker.runs != 1)}"
