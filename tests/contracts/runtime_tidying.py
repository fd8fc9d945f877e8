"""What every runtime does when it is asked to tidy: nothing that a run could notice."""

from tests.contracts.runtime_acts import put_files, soon, started
from tests.contracts.runtime_behaviours import Await, Exit, Harness
from windlass.core.model.ids import Millis, TenantId
from windlass.ports.runtime import Phase


class Tidying:
    async def test_tidying_leaves_what_runs_alone_and_may_be_repeated(self, harness: Harness) -> None:
        run = await started(harness, "busy", Await("go"), Exit(0))
        for idle in (600_000, 0, 0):
            await harness.runtime.tidy(idle_ms=Millis(idle))
        assert (await harness.runtime.observe(run.run)).phase is Phase.RUNNING
        await put_files(harness, run.volume, "", {"go": b""})
        assert (await soon(harness.runtime.wait(run.run))).exit_code == 0

    async def test_runs_come_after_a_tidying_as_before_it(self, harness: Harness) -> None:
        for name in ("before", "after"):
            run = await started(harness, name, Exit(0), tenant=TenantId("brief"))
            assert (await soon(harness.runtime.wait(run.run))).exit_code == 0
            await harness.runtime.remove(run.run)
            await harness.runtime.tidy(idle_ms=Millis(0))
