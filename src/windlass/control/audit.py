"""What is recorded beside the decisions themselves: acts that change nothing stored, and acts that were refused."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from windlass.control.acting import acting
from windlass.control.brain import Brain
from windlass.core.admission.rate import Buckets
from windlass.core.errors import Unavailable
from windlass.core.model.audit import Act
from windlass.core.model.job import Job
from windlass.core.world.audit import note

_OF_ONE: Final = (1, 60)
"""Refusals recorded of one tenant, a second and at once: who tries every door a thousand times must not fill the store."""
_OF_ALL: Final = (10, 600)


class AuditTrail:
    def __init__(self, brain: Brain, *, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._brain = brain
        self._clock_ns = clock_ns
        self._buckets: Buckets[str] = Buckets()
        self._skipped: Counter[str] = Counter()

    async def record(self, job: Job) -> None:
        """That a terminal is opened to a job: durable before it is."""
        act = acting.get()
        if act is None:
            return
        what = {"kind": "Job", "name": job.name, "uid": job.id, "tenant": job.tenant}
        brain = self._brain
        brain.committer.check_writable()
        await brain.committer.durable(note(brain.world, act, now=brain.clock.now(), **what))

    def refused(self, act: Act, code: str, **what: str) -> None:
        """Recorded with the next commit, and not waited for: nothing hangs on it. Past the bound they are only counted.

        `what` are fields of the Deed.
        """
        tenant, brain = act.author.tenant, self._brain
        if not self._may_record(tenant):
            self._skipped[tenant] += 1
            return
        try:
            brain.committer.check_writable()
        except Unavailable:
            self._skipped[tenant] += 1
            return
        skipped = self._skipped.pop(tenant, 0)
        note(brain.world, act, now=brain.clock.now(), **what, refused=code, skipped=skipped)
        brain.committer.nudge()

    def _may_record(self, tenant: str) -> bool:
        now = self._clock_ns()
        return not self._buckets.take(tenant, *_OF_ONE, now) and not self._buckets.take("", *_OF_ALL, now)
