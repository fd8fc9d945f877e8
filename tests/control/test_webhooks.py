"""Deliveries of webhooks beside each other: whoever is slow holds up nobody else, and of itself no more than its share."""

from collections import Counter
from collections.abc import Mapping

import anyio
import pytest
from msgspec.structs import replace

from tests.parts.waiting import wait_until
from windlass.control import webhooks
from windlass.control.plane import ControlPlane
from windlass.core.errors import Invalid, NotFound
from windlass.core.model.hook import HookState
from windlass.core.model.ids import JobId, TenantId
from windlass.core.model.views import EventQuery
from windlass.ports.fetcher import FetchFailed
from windlass.testing.builders import a_submission
from windlass.testing.plane import NoFetcher, memory_home

pytestmark = pytest.mark.anyio
DEADLINE_SECONDS = 120
SLOW, QUICK = TenantId("slow"), TenantId("quick")


class Receivers(NoFetcher):
    """`hang` never answers, `odd` fails in its own way once, anything else hears."""

    def __init__(self) -> None:
        self.under_way: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.heard: list[str] = []
        self.failed = 0

    async def post(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> int:
        self.under_way[url] += 1
        self.most[url] = max(self.most[url], self.under_way[url])
        if "hang" in url:
            await anyio.sleep_forever()
        if "odd" in url and not self.failed:
            self.failed += 1
            raise FetchFailed("the address was too slow")
        if "inside" in url:
            raise Invalid("the address leads to a private network", code="address")
        self.heard.append(headers["Windlass-Delivery"])
        return 204


async def told(plane: ControlPlane, tenant: TenantId, url: str) -> JobId:
    submission = a_submission(cpu=10, memory=1 << 20)
    spec = replace(submission.spec, webhook=url)
    return (await plane.intake.submit(tenant, replace(submission, spec=spec))).job.id


async def test_a_receiver_that_never_answers_holds_up_nobody_but_its_own_tenant() -> None:
    receivers = Receivers()
    async with memory_home(tenants=(SLOW, QUICK), fetcher=receivers) as home:
        for _ in range(3 * webhooks._OF_ONE_TENANT):
            await told(home.plane, SLOW, "http://hang.example/")
        await wait_until(
            lambda: receivers.under_way["http://hang.example/"] == webhooks._OF_ONE_TENANT,
            DEADLINE_SECONDS,
            "its share",
        )
        jobs = [await told(home.plane, QUICK, "http://quick.example/") for _ in range(3)]
        await wait_until(lambda: set(receivers.heard) == set(jobs), DEADLINE_SECONDS, "the other tenant's")
        assert receivers.most["http://hang.example/"] == webhooks._OF_ONE_TENANT
        assert home.plane.webhooks.owed == 3 * webhooks._OF_ONE_TENANT


async def test_how_telling_went_is_in_the_status_and_the_events_of_the_job() -> None:
    receivers = Receivers()
    async with memory_home(tenants=(QUICK,), fetcher=receivers) as home:
        plane = home.plane
        late, never = (
            await told(plane, QUICK, "http://odd.example/"),
            await told(plane, QUICK, "http://inside.example/"),
        )
        await wait_until(
            lambda: late in receivers.heard and not plane.webhooks.owed, DEADLINE_SECONDS, "both to be settled"
        )
        await plane.brain.committer.durable(plane.brain.world.number)
        assert await plane.read_model.caught_up(timeout=DEADLINE_SECONDS)
        seen = {}
        for job in (late, never):
            events = await plane.read_model.events(EventQuery(tenants=(QUICK,), subject=job))
            view = await plane.read_model.find_job(QUICK, job)
            assert view.hook is not None
            seen[job] = (view.hook.state, view.hook.tries), [e.kind for e in events if e.kind.startswith("Webhook")]
        assert seen == {
            late: ((HookState.HEARD, 2), ["WebhookFailed", "WebhookHeard"]),
            never: ((HookState.GIVEN_UP, 1), ["WebhookGivenUp"]),
        }
        assert plane.webhooks.tally == {HookState.FAILING: 1, HookState.HEARD: 1, HookState.GIVEN_UP: 1}


async def test_nothing_of_a_webhook_is_left_when_its_job_is_deleted() -> None:
    receivers = Receivers()
    async with memory_home(tenants=(SLOW,), fetcher=receivers) as home:
        plane = home.plane
        job = await told(plane, SLOW, "http://hang.example/")
        await wait_until(lambda: receivers.under_way["http://hang.example/"] == 1, DEADLINE_SECONDS, "a try")
        await plane.intake.delete(SLOW, job, with_volume=True)
        assert plane.webhooks.owed == 0
        assert await plane.read_model.caught_up(timeout=DEADLINE_SECONDS)
        with pytest.raises(NotFound):
            await plane.read_model.find_job(SLOW, job)
        assert await plane.read_model.events(EventQuery(tenants=(SLOW,), subject=job)) == ()
