"""The gates between an accepted job and its start, in order, each asked as the World itself asks it, with its numbers.

One of them holds a waiting job: the first that is shut. That none is shut and the job still waits means that others go before it.
"""

from collections import Counter
from typing import Final

from windlass.core.admission.burst import closed
from windlass.core.admission.quota import excess, fits, money_spent, sentence, used_of
from windlass.core.foresight.gate import Gate, GateName
from windlass.core.foresight.growing import NO_COOLDOWN, growing_gates, pools_left_out
from windlass.core.model.amounts import BYTES, MILLICORES, cores, money, size
from windlass.core.model.amounts import spoken as in_one_unit
from windlass.core.model.calendar import day_of, month_of
from windlass.core.model.ids import Millis
from windlass.core.model.job import Job
from windlass.core.model.resources import Resources
from windlass.core.model.spans import spoken
from windlass.core.model.tenant import SHARE, QuotaPolicy, Tenant
from windlass.core.placement.spot import TOO_SMALL, Spot
from windlass.core.world.gate import RESERVED, WORKERS_USED, nodes_allowed, session_of
from windlass.core.world.verdict import Yields
from windlass.core.world.world import World

IMAGE_FAILED: Final = "ImagePull"
"""The reason of a run that never had its image."""
_NO_TENANT: Final = "its tenant is no longer known: nothing of it is limited"


_UNITS: Final = {"cpu": MILLICORES, "memory": BYTES, "gpu": "GPUs"}

_UNNEEDED: Final = Gate(name=GateName.BURST, is_open=True, says="not needed")


def gates(world: World, job: Job, now: Millis) -> tuple[Gate, ...]:
    """Of a PENDING job."""
    tenant = world.tables.tenants.get(job.tenant)
    money = [
        _release(job),
        _backoff(job, now),
        _budget(world, tenant, job, now),
        *_quota_and_burst(world, tenant, job, now),
    ]
    room = _room(world, job, now, is_held=not all(gate.is_open for gate in money))
    is_only_late = all(gate.is_open for gate in (*money, *room))
    return (*money, _order(world, job, is_open=not is_only_late), *room)


def holding(found: tuple[Gate, ...]) -> Gate | None:
    """The one that holds it."""
    return next((gate for gate in found if not gate.is_open), None)


def _release(job: Job) -> Gate:
    says = "suspended: nothing of it is placed before it is released" if job.is_suspended else "released"
    return Gate(name=GateName.RELEASE, is_open=not job.is_suspended, says=says)


def _runs(count: int) -> str:
    return "1 run holds" if count == 1 else f"{count} runs hold"


def _backoff(job: Job, now: Millis) -> Gate:
    if job.not_before <= now:
        return Gate(name=GateName.BACKOFF, is_open=True, says="none")
    left = -(-(job.not_before - now) // 1000)
    return Gate(
        name=GateName.BACKOFF,
        is_open=False,
        says=f"attempt {job.attempt} of {job.retries + 1} failed; the next comes in {spoken(left)}",
        numbers=(("attempt", job.attempt), ("attempts", job.retries + 1)),
        opens_at=job.not_before,
    )


def _budget(world: World, tenant: Tenant | None, job: Job, now: Millis) -> Gate:
    if tenant is None:
        return Gate(name=GateName.BUDGET, is_open=True, says=_NO_TENANT)
    usage = world.tables.usage[job.tenant]
    today = usage.spent_on(day_of(now), now)
    month = usage.spent_in(month_of(day_of(now)), now)
    numbers = [("spentToday", int(today)), ("spentThisMonth", int(month))]
    if tenant.quota.cost_per_day is not None:
        numbers.append(("costPerDay", int(tenant.quota.cost_per_day)))
    if tenant.budget is not None:
        numbers.append(("budgetPerMonth", int(tenant.budget.per_month)))
    spent = money_spent(tenant, usage, now)
    if spent is not None:
        return Gate(
            name=GateName.BUDGET, is_open=False, says=sentence(spent[0]), numbers=tuple(numbers), opens_at=spent[1]
        )
    says = f"{money(today)} spent today, {money(month)} this month"
    return Gate(name=GateName.BUDGET, is_open=True, says=says, numbers=tuple(numbers))


def _quota_and_burst(world: World, tenant: Tenant | None, job: Job, now: Millis) -> tuple[Gate, Gate]:
    """Beyond the quota a tenant that may burst is let through; then it is the burst that holds, if anything."""
    if tenant is None:
        return Gate(name=GateName.QUOTA, is_open=True, says=_NO_TENANT), _UNNEEDED
    usage, quota, needs = world.tables.usage[job.tenant], tenant.quota, job.shape.needs
    held = usage.resources
    numbers = [
        ("runs", usage.runs),
        ("cpuMillis", held.cpu_millis),
        ("memoryBytes", held.memory_bytes),
        ("gpus", held.gpus),
    ]
    if quota.jobs is not None:
        numbers.append(("jobsLimit", quota.jobs))
    if quota.resources is not None:
        limit = quota.resources
        numbers += [
            ("cpuMillisLimit", limit.cpu_millis),
            ("memoryBytesLimit", limit.memory_bytes),
            ("gpusLimit", limit.gpus),
        ]
    workers = WORKERS_USED[0][0] if may_be_on_no_more(world, job) else ""
    if fits(quota, needs, held=held, jobs=usage.runs):
        says = workers or f"{_runs(usage.runs)} {cores(held.cpu_millis)} and {size(held.memory_bytes)} of it"
        return Gate(name=GateName.QUOTA, is_open=not workers, says=says, numbers=tuple(numbers)), _reserve(world, job)
    over = excess(quota, needs, held=held, jobs=usage.runs)
    says = "; ".join([*map(sentence, over), *([workers] if workers else [])])
    burst = _burst(world, tenant, job, now)
    is_bursting = burst.opens_at is not None or session_of(world, tenant.id, now) is not None
    may_pass = burst.is_open or (tenant.policy is QuotaPolicy.BURST and is_bursting)
    if may_pass:
        used = ", ".join(map(used_of, over))
        says = workers or f"full ({used} used): beyond it the burst decides"
    return Gate(name=GateName.QUOTA, is_open=may_pass and not workers, says=says, numbers=tuple(numbers)), burst


def _reserve(world: World, job: Job) -> Gate:
    """Within the quota it is no burst, but stays out of what is kept for them."""
    if not world.tables.reserve.would_refuse(job.shape.needs):
        return _UNNEEDED
    says = f"{RESERVED.reasons[0][0]}: the room that is left, and it is within its quota"
    return Gate(name=GateName.BURST, is_open=False, says=says)


def _burst(world: World, tenant: Tenant, job: Job, now: Millis) -> Gate:
    """Asked only beyond the quota."""
    usage, needs = world.tables.usage[job.tenant], job.shape.needs
    session = session_of(world, tenant.id, now)
    factor = session.factor if session is not None else tenant.burst.factor
    numbers = (("factor", factor), ("sessionsPerDay", tenant.burst.sessions_per_day))
    if session is None and tenant.policy is not QuotaPolicy.BURST:
        says = f"none is open, and the policy is {tenant.policy}: beyond the quota it waits"
        return Gate(name=GateName.BURST, is_open=False, says=says, numbers=numbers)
    if not fits(tenant.quota, needs, held=usage.resources, jobs=usage.runs, factor=factor):
        says = f"also {factor / SHARE:g} times the quota is used up: something of its tenant has to end first"
        return Gate(name=GateName.BURST, is_open=False, says=says, numbers=numbers)  # the session's end gives no room
    if session is not None:
        return Gate(name=GateName.BURST, is_open=True, says="in the session that is open", numbers=numbers)
    shut = closed(tenant, world.tables.bursts.get(tenant.id, {}).values(), now)
    if shut is None:
        return Gate(name=GateName.BURST, is_open=True, says="a session may open", numbers=numbers)
    words = {"off": "this tenant may not burst", "cooldown": "the last session has just ended"}
    says = words.get(shut.why, f"{shut.count} sessions today, and no more are allowed")
    return Gate(name=GateName.BURST, is_open=False, says=says, numbers=numbers, opens_at=shut.opens_at)


def may_be_on_no_more(world: World, job: Job) -> bool:
    """Its tenant is on as many nodes as it may be, and there is no room on those; whether there is elsewhere does not matter.

    No burst goes beyond that.
    """
    allowed = nodes_allowed(world, job.tenant)
    return allowed is not None and not isinstance(world.tables.places.pick(job.shape, among=allowed), Spot)


def _order(world: World, job: Job, *, is_open: bool) -> Gate:
    tables = world.tables
    finish, now = tables.ledger.account(job.tenant).finish, tables.ledger.now()
    waiting, all_waiting = tables.queue.waits(job.tenant), len(tables.queue)
    numbers = (
        ("finishTag", finish),
        ("virtualTime", now),
        ("waitingOfTenant", waiting),
        ("waiting", all_waiting),
        ("priority", job.priority),
    )
    says = f"{waiting} of its tenant wait, {all_waiting} in all"
    if not is_open:
        kept = f" ({'; '.join(reason for reason, _ in Yields().reasons)})" if _makes_way(world, job) else ""
        says = f"there is room and quota for it, but others go first{kept}: {says}"
    return Gate(name=GateName.ORDER, is_open=is_open, says=says, numbers=numbers)


def _makes_way(world: World, job: Job) -> bool:
    """For somebody who is first: all jobs of its shape do, or, where its tenant may be on no other node, all of its tenant."""
    queue = world.tables.queue
    lane = queue.lane_of(job)
    return (lane is not None and lane.band.yields) or queue.held(job.tenant) == Yields().reasons


def _room(world: World, job: Job, now: Millis, *, is_held: bool) -> list[Gate]:
    """Pool, cooldown, node, image. While some node takes it, how a pool could grow does not matter."""
    node = _node(world, job)
    growing = None if node.is_open else growing_gates(world, job, now, is_held=is_held)
    pool, cooldown = growing or (_pool(world, job), NO_COOLDOWN)
    return [pool, cooldown, node, _image(job)]


def _image(job: Job) -> Gate:
    """It is fetched by the node, once there is one; what is known before is how that went the last time."""
    if job.reason != IMAGE_FAILED:
        return Gate(name=GateName.IMAGE, is_open=True, says="fetched when it has its node")
    return Gate(
        name=GateName.IMAGE, is_open=True, says=f"tried again with its next attempt; the last said: {job.message}"
    )


def _pool(world: World, job: Job) -> Gate:
    """Are there nodes at all where it may run?"""
    places = world.tables.places
    nodes = [slot.node for slot in places if not places.hides(job.shape, slot.node)]
    wanted = [node for node in nodes if not job.shape.pools or node.pool in job.shape.pools]
    allowed = [node for node in wanted if not job.shape.allowed or node.pool in job.shape.allowed]
    names = ", ".join(job.shape.pools or job.shape.allowed) or "any"
    numbers = (("nodes", len(allowed)), ("nodesInAll", len(nodes)))
    left_out = pools_left_out(world, job)
    if left_out:
        may, could = ", ".join(job.shape.allowed), " or ".join(left_out)
        says = f"the quota of its tenant names the pools it may use ({may}), and only {could} could run it"
        return Gate(name=GateName.POOL, is_open=False, says=says, numbers=numbers)
    return Gate(
        name=GateName.POOL,
        is_open=bool(allowed),
        says=f"{len(allowed)} of {len(nodes)} nodes are in a pool it may use ({names})",
        numbers=numbers,
    )


def _node(world: World, job: Job) -> Gate:
    """The filter of every node, clause by clause."""
    refused: Counter[str] = Counter()
    largest: dict[str, int] = {}
    taking = 0
    for slot in world.tables.places:
        if world.tables.places.hides(job.shape, slot.node):
            continue
        reason = world.tables.places.refusal(job.shape, slot)
        if reason is None:
            taking += 1
            continue
        if reason.endswith(TOO_SMALL):
            what = reason.removesuffix(TOO_SMALL)
            largest[reason] = max(largest.get(reason, 0), _amount(slot.node.capacity, what))
        refused[reason] += 1
    counts = sorted(refused.items(), key=lambda item: (-item[1], item[0]))
    words = [_clause(reason, count, job.shape.needs, largest.get(reason)) for reason, count in counts]
    says = "; ".join([f"{taking} would take it", *words] if taking else words) or "there is no node"
    return Gate(name=GateName.NODE, is_open=taking > 0, says=says, numbers=(("taking", taking), *counts))


def _clause(reason: str, count: int, needs: Resources, largest: int | None) -> str:
    """`largest`: what the nodes that are too small have at most."""
    nodes = f"{count} node{'s' * (count != 1)}"
    if largest is None:
        return f"{reason} ({nodes})"
    what = reason.removesuffix(TOO_SMALL)
    (asked, has), unit = in_one_unit([_amount(needs, what), largest], _UNITS[what])
    return f"{reason} ({nodes}, {'at most ' * (count != 1)}{has} of {asked} {unit})"


def _amount(of: Resources, what: str) -> int:
    return {"cpu": of.cpu_millis, "memory": of.memory_bytes, "gpu": of.gpus}[what]
