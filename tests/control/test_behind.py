"""Loops over a read model that is behind: what it does not hold yet is not taken for gone, and nothing old is told."""

from collections.abc import Mapping

import anyio
import pytest
from msgspec import json
from msgspec.structs import replace

from tests.parts.waiting import wait_until
from windlass.control import janitor, webhooks
from windlass.core.model.ids import LOCAL_TENANT
from windlass.testing.behind import held_back
from windlass.testing.builders import a_submission
from windlass.testing.plane import NoFetcher, memory_home

pytestmark = pytest.mark.anyio
DEADLINE_SECONDS = 120


class Telling(NoFetcher):
    """Hears everything."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def post(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> int:
        self.heard.append(body)
        return 204


async def test_a_webhook_waits_for_the_end_it_tells_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_CAUGHT_UP_SECONDS", 0.01)
    fetcher = Telling()
    async with memory_home(fetcher=fetcher) as home:
        world = home.plane.brain.world
        with held_back(home.plane.read_model):
            submission = a_submission()
            spec = replace(submission.spec, webhook="http://example.com/hook")
            job = (await home.plane.intake.submit(LOCAL_TENANT, replace(submission, spec=spec))).job
            await wait_until(
                lambda: any(hook.tries for hook in world.tables.hooks.values()), DEADLINE_SECONDS, "a try to be put off"
            )
        await wait_until(lambda: fetcher.heard, DEADLINE_SECONDS, "the webhook")
        told = json.decode(fetcher.heard[0])
        assert (told["metadata"]["uid"], told["status"]["state"]) == (job.id, "SUCCEEDED")


async def test_a_sweep_keeps_the_log_of_a_job_that_the_history_does_not_know_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(janitor, "_CAUGHT_UP_SECONDS", 0.01)
    async with memory_home(patience_seconds=0.01) as home:
        with held_back(home.plane.read_model):
            job = (await home.plane.intake.submit(LOCAL_TENANT, a_submission())).job
            with anyio.fail_after(DEADLINE_SECONDS):
                while job.id in home.plane.brain.world.tables.jobs:
                    await anyio.sleep(0.01)  # the fact awaited is its end
            await home.plane.janitor.sweep()
            assert await home.plane.logbook.jobs() == (job.id,)
