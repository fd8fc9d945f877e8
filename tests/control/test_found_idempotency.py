"""What simulation found about repeated requests."""

from collections.abc import AsyncIterator

import anyio
import pytest

from windlass.core.model.ids import LOCAL_TENANT
from windlass.core.model.submission import Idempotency
from windlass.testing.builders import a_submission
from windlass.testing.plane import MemoryHome, memory_home

pytestmark = pytest.mark.anyio


@pytest.fixture
async def home() -> AsyncIterator[MemoryHome]:
    async with memory_home() as opened:
        yield opened


async def test_a_repeated_request_gets_its_first_answer_also_after_its_job_was_deleted(home: MemoryHome) -> None:
    intake, key = home.plane.intake, Idempotency(key="k", fingerprint="f")
    submission = a_submission(command=("sleep", "600"))
    first = await intake.submit(LOCAL_TENANT, submission, idempotency=key, render=lambda job, spec: job.id.encode())
    deleted_at = await intake.delete(LOCAL_TENANT, first.job.id, with_volume=True)
    assert await home.plane.read_model.caught_up(deleted_at, timeout=120)
    with anyio.fail_after(120):
        while first.job.id in home.plane.brain.world.tables.jobs:
            await anyio.lowlevel.checkpoint()

    again = await intake.submit(LOCAL_TENANT, submission, idempotency=key, render=lambda job, spec: b"another")

    assert (again.answer, again.job.id) == (first.job.id.encode(), first.job.id)
