"""What the janitor retires, and what it leaves: over the API, with the real loops."""

import pytest

from tests.api.home import ApiHome
from windlass.control.janitor import Janitor, Retention
from windlass.core.model.ids import Millis

pytestmark = pytest.mark.anyio


async def test_a_run_that_is_kept_for_longer_than_the_history_outlives_it_with_its_job(api: ApiHome) -> None:
    kept = await api.submit("true", ttlSecondsAfterFinished=86_400)
    plain = await api.submit("true")
    uids = [one["metadata"]["uid"] for one in (kept, plain)]
    for uid in uids:
        await api.until(uid, "SUCCEEDED")
    plane = api.home.plane
    assert await plane.read_model.caught_up()
    retention = Retention(history_ms=Millis(-3_600_000))  # everything is past it
    await Janitor(plane.brain, api.home.store, plane.read_model, plane.blobs, plane.logbook, retention).sweep()
    assert await plane.read_model.caught_up()
    found = [(await api.client.get(f"/api/v1/jobs/{uid}")).status_code for uid in uids]
    assert found == [200, 404]
    assert [run.job for run in plane.brain.world.tables.runs.values()] == [uids[0]]
