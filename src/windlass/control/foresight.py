"""Questions about what will be, asked of the leader's live World. Bounded in steps, on the loop that decides; changing nothing.

Whoever was tried with is asked again at once: until then the queue would show what was found in a World that is no more.
"""

from collections.abc import Sequence

from windlass.control.brain import Brain
from windlass.core.foresight.plan import CheckSame, Known, Plan, plan
from windlass.core.foresight.why import Why, why
from windlass.core.model.ids import JobId, TenantId
from windlass.core.model.submission import Submission
from windlass.ports.ids import Ids


class Foresight:
    def __init__(self, brain: Brain, ids: Ids) -> None:
        self._brain = brain
        self._ids = ids

    def why(self, job: JobId, *, tenant: TenantId) -> Why:
        """NotFound for one that is over, or another tenant's."""
        world = self._brain.world
        found = why(world, world.job(job, tenant=tenant), now=self._brain.clock.now())
        self._brain.wake()
        return found

    def plan(self, tenant: TenantId, submissions: Sequence[Submission], *, known: Known, check_same: CheckSame) -> Plan:
        """`known`: jobs that have one of these names already; `check_same` says whether they are what is asked for."""
        ids, now = [JobId(self._ids.uuid7()) for _ in submissions], self._brain.clock.now()
        made = plan(self._brain.world, tenant, submissions, ids=ids, now=now, known=known, check_same=check_same)
        self._brain.wake()
        return made
