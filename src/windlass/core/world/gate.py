"""Before a start: does the tenant's quota allow it? If not, the tenant is held; if it may burst, the run goes beyond, at a price.

Comes after the fair queue has said who is next, before placement is asked where.
"""

from typing import Final

from windlass.core.admission.burst import closed, open_session
from windlass.core.admission.quota import excess, fits, money_spent, sentence
from windlass.core.admission.usage import Usage
from windlass.core.model.burst import BurstSession
from windlass.core.model.ids import Millis, NodeId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.tenant import QuotaPolicy, Tenant
from windlass.core.world.verdict import Hold, Start
from windlass.core.world.world import World

WORKERS_USED: Final = (("quota-workers: no room on the nodes its runs are on, and it may be on no more", 0),)
RESERVED: Final = Hold((("kept free for bursts", 0),), is_for_room=True)
WITHIN = Start()
BEYOND = Start(is_over=True)


def may_start(world: World, job: Job, now: Millis) -> Start | Hold:
    tables = world.tables
    tenant = tables.tenants.get(job.tenant)
    if tenant is None:
        return WITHIN  # its tenant was known when it was accepted: what was accepted is run
    usage, quota, needs = tables.usage[job.tenant], tenant.quota, job.shape.needs
    if quota.cost_per_day is not None or tenant.budget is not None:
        spent = money_spent(tenant, usage, now)
        if spent is not None:
            return Hold(((sentence(spent[0]), 0),), spent[1])
    is_bound = quota.resources is not None or quota.jobs is not None
    if is_bound and not fits(quota, needs, held=usage.resources, jobs=usage.runs):
        return _beyond(world, tenant, usage, job, now)
    return RESERVED if tables.reserve.refuses(needs) else WITHIN


def nodes_allowed(world: World, tenant: TenantId) -> frozenset[NodeId] | None:
    """A tenant that is on as many nodes as it may is placed on these only; None: on any."""
    owner = world.tables.tenants.get(tenant)
    if owner is None or owner.quota.workers is None:
        return None
    nodes = world.tables.usage[tenant].nodes
    return frozenset(nodes) if len(nodes) >= owner.quota.workers else None


def session_of(world: World, tenant: TenantId, now: Millis) -> BurstSession | None:
    sessions = world.tables.bursts.get(tenant)
    return open_session(sessions.values(), now) if sessions else None


def _beyond(world: World, tenant: Tenant, usage: Usage, job: Job, now: Millis) -> Start | Hold:
    quota, needs = tenant.quota, job.shape.needs
    session = session_of(world, tenant.id, now)
    if session is not None:
        if fits(quota, needs, held=usage.resources, jobs=usage.runs, factor=session.factor):
            return BEYOND
        over = excess(quota, needs, held=usage.resources, jobs=usage.runs, factor=session.factor)
        return Hold(tuple((sentence(one), 0) for one in over), session.ends_at)
    over = excess(quota, needs, held=usage.resources, jobs=usage.runs)
    reasons = tuple((sentence(one), 0) for one in over)
    if tenant.policy is not QuotaPolicy.BURST:
        return Hold(reasons)
    if not fits(quota, needs, held=usage.resources, jobs=usage.runs, factor=tenant.burst.factor):
        return Hold(reasons)
    sessions = world.tables.bursts.get(tenant.id, {}).values()
    shut = closed(tenant, sessions, now)
    return BEYOND if shut is None else Hold(reasons, shut.opens_at)
