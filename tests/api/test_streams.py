"""Logs and events as they happen: nothing lost, nothing doubled, ended when there is no more to come."""

import json
from base64 import b64decode
from typing import Any

import anyio
import pytest

from tests.api.home import DEADLINE_SECONDS, ApiHome

pytestmark = pytest.mark.anyio

Events = list[tuple[str, str | None, dict[str, Any]]]


def parse(text: str) -> Events:
    """(event, id, data) of every frame that has data."""
    found: Events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


async def stream(api: ApiHome, path: str, **headers: str) -> Events:
    with anyio.fail_after(DEADLINE_SECONDS):
        answer = await api.client.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return parse(answer.text)


async def test_the_log_of_a_finished_job_is_complete_and_in_order(api: ApiHome) -> None:
    made = await api.submit("do", "print one", "warn two", "print three", "exit 4", name="talker")
    await api.until(made["metadata"]["uid"])
    events = await stream(api, "/api/v1/jobs/talker/logs")
    lines = [(data["stream"], data["text"]) for event, _, data in events if event == "line"]
    assert lines == [("stdout", "one"), ("stderr", "two"), ("stdout", "three")]
    assert events[-1][0] == "end"
    said = events[-1][2]
    assert (said["state"], said["exitCode"], said["reason"]) == ("FAILED", 4, "ExitCode")
    assert said["message"].startswith("exit code 4")


async def test_following_begins_before_the_job_has_run_and_ends_with_it(api: ApiHome) -> None:
    await api.submit("do", "print late", name="later", suspend=True)
    async with anyio.create_task_group() as tasks:
        events: Events = []

        async def follow() -> None:
            events.extend(await stream(api, "/api/v1/jobs/later/logs?follow=true"))

        tasks.start_soon(follow)
        await api.client.post("/api/v1/jobs/later/release")
    assert [data["text"] for event, _, data in events if event == "line"] == ["late"]
    assert events[-1][2]["state"] == "SUCCEEDED"


async def test_following_a_job_that_is_cancelled_before_it_ran_ends(api: ApiHome) -> None:
    await api.submit("true", name="never", suspend=True)
    async with anyio.create_task_group() as tasks:
        events: Events = []

        async def follow() -> None:
            events.extend(await stream(api, "/api/v1/jobs/never/logs?follow=true"))

        tasks.start_soon(follow)
        await api.client.post("/api/v1/jobs/never/cancel")
    end = {"state": "CANCELLED", "exitCode": None, "reason": "Cancelled", "message": "cancelled before it started"}
    assert events == [("end", None, end)]


async def test_following_goes_on_over_retries(api: ApiHome) -> None:
    await api.submit("do", "print again", "exit 1", name="stubborn", retries=1)
    events = await stream(api, "/api/v1/jobs/stubborn/logs?follow=true")
    assert [data["text"] for event, _, data in events if event == "line"] == ["again", "again"]
    assert (events[-1][2]["state"], events[-1][2]["exitCode"]) == ("FAILED", 1)
    first = await stream(api, "/api/v1/jobs/stubborn/logs?attempt=1")
    assert len([1 for event, _, _ in first if event == "line"]) == 1


async def test_a_reader_that_comes_back_resumes_where_it_was(api: ApiHome) -> None:
    made = await api.submit("do", *(f"print line-{n}" for n in range(5)), name="long")
    await api.until(made["metadata"]["uid"])
    events = await stream(api, "/api/v1/jobs/long/logs")
    third = events[2][1]
    assert third is not None
    rest = await stream(api, "/api/v1/jobs/long/logs?follow=true", **{"Last-Event-ID": third})
    assert [data["text"] for event, _, data in rest if event == "line"] == ["line-3", "line-4"]


async def test_a_reader_resumes_in_the_attempt_it_was_in(api: ApiHome) -> None:
    made = await api.submit("do", "print a", "print b", "exit 1", name="twice", retries=1)
    await api.until(made["metadata"]["uid"])
    events = await stream(api, "/api/v1/jobs/twice/logs?attempt=1")
    rest = await stream(api, "/api/v1/jobs/twice/logs?follow=true", **{"Last-Event-ID": str(events[0][1])})
    assert [data["text"] for event, _, data in rest if event == "line"] == ["b", "a", "b"]


async def test_only_one_stream_or_only_the_tail_can_be_asked_for(api: ApiHome) -> None:
    made = await api.submit("do", "print 1", "warn 2", "print 3", "warn 4", name="both")
    await api.until(made["metadata"]["uid"])
    stderr = await stream(api, "/api/v1/jobs/both/logs?stream=stderr")
    assert [data["text"] for event, _, data in stderr if event == "line"] == ["2", "4"]
    tail = await stream(api, "/api/v1/jobs/both/logs?tail=1")
    assert [data["text"] for event, _, data in tail if event == "line"] == ["4"]


async def test_plain_text_is_the_output_as_it_was(api: ApiHome) -> None:
    made = await api.submit("do", "print hello", "raw 68c3", "raw a9", name="bytes")
    await api.until(made["metadata"]["uid"])
    answer = await api.client.get("/api/v1/jobs/bytes/logs", headers={"Accept": "text/plain"})
    assert answer.content == b"hello\nh\xc3\xa9"
    stamped = await api.client.get("/api/v1/jobs/bytes/logs?timestamps=true", headers={"Accept": "text/plain"})
    assert stamped.text.split("\n")[0].split(" ")[1] == "hello"


async def test_bytes_that_are_no_text_come_as_they_are_beside_what_can_be_read_of_them(api: ApiHome) -> None:
    made = await api.submit("do", "raw 41fffe0a", "print plain", "raw e2", name="odd")
    await api.until(made["metadata"]["uid"])
    odd, plain, half = (data for event, _, data in await stream(api, "/api/v1/jobs/odd/logs") if event == "line")
    assert (odd["text"], b64decode(odd["base64"])) == ("A\ufffd\ufffd", b"A\xff\xfe")
    assert "base64" not in plain
    assert (half["partial"], half["text"], b64decode(half["base64"])) == (True, "\ufffd", b"\xe2")
    text = await api.client.get("/api/v1/jobs/odd/logs", headers={"Accept": "text/plain"})
    assert text.content == b"A\xff\xfe\nplain\n\xe2"


async def test_the_description_names_what_a_line_of_a_log_holds(api: ApiHome) -> None:
    paths = (await api.client.get("/openapi.json")).json()["paths"]
    described = paths["/api/v1/jobs/{ref}/logs"]["get"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
    assert "`base64`" in described["properties"]["data"]["description"]


@pytest.mark.parametrize("query", ["tail=-1", "attempt=0", "stream=both", "tail=x", "folow=1"])
async def test_a_log_that_cannot_be_meant_is_refused(api: ApiHome, query: str) -> None:
    await api.submit("true", name="a")
    assert (await api.client.get(f"/api/v1/jobs/a/logs?{query}")).status_code == 400


@pytest.mark.parametrize("last", ["x", "-1", "1e3", "9" * 30])
async def test_an_event_id_that_is_none_of_ours_is_refused(api: ApiHome, last: str) -> None:
    await api.submit("true", name="a")
    for path in ("/api/v1/jobs/a/logs", "/api/v1/jobs/a/events", "/api/v1/events?follow=true"):
        assert (await api.client.get(path, headers={"Last-Event-ID": last})).status_code == 400


async def test_an_attempt_that_was_not_made_is_not_found(api: ApiHome) -> None:
    await api.submit("true", name="a", suspend=True)
    assert (await api.client.get("/api/v1/jobs/a/logs?attempt=3")).status_code == 404


async def test_events_tell_the_life_of_a_job(api: ApiHome) -> None:
    made = await api.submit("true", name="alive")
    await api.until(made["metadata"]["uid"])
    items = (await api.client.get("/api/v1/jobs/alive/events")).json()["items"]
    kinds = [item["kind"] for item in items]
    assert kinds[0] == "Accepted"
    assert kinds[-1] == "Succeeded"
    followed = await stream(api, "/api/v1/jobs/alive/events?follow=true")
    assert [data["kind"] for _, _, data in followed] == kinds
    for number, (_, last, _) in enumerate(followed):
        if last is not None:
            later = await stream(api, "/api/v1/jobs/alive/events?follow=true", **{"Last-Event-ID": last})
            assert [data["kind"] for _, _, data in later] == kinds[number + 1 :]


async def test_seats_are_bounded_and_given_back(api: ApiHome) -> None:
    await api.submit("true", name="a", suspend=True)
    seats = api.app.context.seats
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seats, "_free", 0)
        answer = await api.client.get("/api/v1/jobs/a/logs?follow=true")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (429, "streams", "5")
    free = seats._free
    await stream(api, "/api/v1/jobs/a/logs")
    assert seats._free == free
