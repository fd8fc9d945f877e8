"""Jobs through the front door: submit, get, list, apply, cancel, release, delete, retry."""

from datetime import datetime

import anyio
import pytest
from msgspec.structs import replace

from tests.api.home import DEADLINE_SECONDS, ApiHome, api_home, manifest
from windlass.core.model.ids import Millis
from windlass.testing.behind import held_back
from windlass.wire.schema import JobList, JobManifest, Problem

pytestmark = pytest.mark.anyio

YAML = """
apiVersion: windlass.dev/v1
kind: Job
metadata: {name: from-yaml}
spec:
  image: windlass-test/busybox:1
  command: print "two words" no 012
  env: {DEBUG: "yes"}
"""


async def test_a_submitted_job_runs_to_its_end(api: ApiHome) -> None:
    made = await api.submit("do", "print hello", "exit 3", name="first")
    over = await api.until(made["metadata"]["uid"])
    assert (over["status"]["state"], over["status"]["exitCode"]) == ("FAILED", 3)
    assert over["status"]["runs"][0]["state"] == "EXITED"
    JobManifest.model_validate(over)


async def test_the_answer_to_a_submit_is_the_manifest_with_its_address(api: ApiHome) -> None:
    answer = await api.client.post("/api/v1/jobs", json=manifest("true", name="addressed"))
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/v1/jobs/{answer.json()['metadata']['uid']}"
    assert int(answer.headers["windlass-revision"]) > 0
    assert answer.json()["status"]["state"] == "PENDING"
    assert (await api.client.get(answer.headers["location"])).json()["metadata"]["name"] == "addressed"


async def test_yaml_says_the_same_as_json(api: ApiHome) -> None:
    answer = await api.client.post("/api/v1/jobs", content=YAML, headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"]["command"] == ["print", "two words", "no", "012"]
    assert answer.json()["spec"]["env"] == {"DEBUG": "yes"}


async def test_every_fault_of_a_manifest_is_named_at_once(api: ApiHome) -> None:
    document = {"apiVersion": "v2", "kind": "Job", "spec": {"resources": {"cpu": "x", "memory": 1}, "retrys": 1}}
    answer = await api.client.post("/api/v1/jobs", json=document)
    problem = answer.json()
    Problem.model_validate(problem)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    fields = {fault["field"] for fault in problem["faults"]}
    assert fields == {"apiVersion", "spec.resources.cpu", "spec.resources.memory", "spec.retrys", "spec.image"}


async def test_a_name_can_be_taken_only_once(api: ApiHome) -> None:
    await api.submit("true", name="mine")
    answer = await api.client.post("/api/v1/jobs", json=manifest("true", name="mine"))
    assert (answer.status_code, answer.json()["code"]) == (409, "name-taken")


async def test_a_repeated_key_gets_the_first_answer_byte_for_byte(api: ApiHome) -> None:
    body = manifest("true", name="once")
    first = await api.client.post("/api/v1/jobs", json=body, headers={"Idempotency-Key": "k-1"})
    await api.until(first.json()["metadata"]["uid"])
    again = await api.client.post("/api/v1/jobs", json=body, headers={"Idempotency-Key": "k-1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert first.headers["location"] == again.headers["location"]


async def test_a_repeated_key_with_another_body_is_a_conflict(api: ApiHome) -> None:
    headers = {"Idempotency-Key": "k-2"}
    await api.client.post("/api/v1/jobs", json=manifest("true"), headers=headers)
    answer = await api.client.post("/api/v1/jobs", json=manifest("false"), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency-mismatch")


@pytest.mark.parametrize("key", ["", "a b", "k" * 201, "schön"])
async def test_a_key_that_is_no_key_is_refused(api: ApiHome, key: str) -> None:
    headers = [("Idempotency-Key", key.encode())]
    answer = await api.client.post("/api/v1/jobs", json=manifest("true"), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency-key")


@pytest.mark.parametrize("path", ["jobs/a%2Fb", "jobs/a%2fb/logs", "tenants/x%2Fy", "pools/p%2F"])
async def test_a_name_with_a_slash_is_refused_as_a_name_and_not_taken_for_an_address(api: ApiHome, path: str) -> None:
    answer = await api.client.get(f"/api/v1/{path}")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "invalid")
    assert "holds a '/'" in problem["faults"][0]["message"]
    nowhere = await api.client.get("/api/v1/nowhere/at/all")
    assert (nowhere.status_code, nowhere.json()["code"]) == (404, "not-found")


async def test_a_batch_is_accepted_whole(api: ApiHome) -> None:
    items = [manifest("true", name=f"batch-{n}") for n in range(50)]
    answer = await api.client.post("/api/v1/jobs/bulk", json={"items": items})
    assert answer.status_code == 201
    assert [item["name"] for item in answer.json()["items"]] == [f"batch-{n}" for n in range(50)]
    await api.until(answer.json()["items"][-1]["uid"], "SUCCEEDED")


async def test_a_batch_with_one_fault_leaves_nothing(api: ApiHome) -> None:
    before = await api.trace()
    items = [manifest("true", name=f"b-{n}") for n in range(3)] + [manifest("true", name="Bad Name")]
    answer = await api.client.post("/api/v1/jobs/bulk", json={"items": items})
    assert answer.status_code == 400
    assert [fault["field"] for fault in answer.json()["faults"]] == ["items[3].metadata.name"]
    assert await api.trace() == before


async def test_a_batch_with_a_taken_name_leaves_nothing(api: ApiHome) -> None:
    items = [manifest("true", name="twin"), manifest("true", name="other"), manifest("true", name="twin")]
    answer = await api.client.post("/api/v1/jobs/bulk", json={"items": items})
    assert (answer.status_code, answer.json()["code"]) == (409, "name-taken")
    assert answer.json()["faults"] == [
        {"field": "items[2].metadata.name", "message": "'twin' is given in items[0] too"}
    ]
    assert (await api.client.get("/api/v1/jobs")).json()["items"] == []
    await api.submit("true", name="twin")
    answer = await api.client.post("/api/v1/jobs/bulk", json={"items": items[1:]})
    assert (answer.status_code, answer.json()["code"]) == (409, "name-taken")
    assert answer.json()["detail"].startswith("items[1]: the name 'twin' is taken by job ")


async def test_what_no_node_and_no_secret_allows_is_told_of_each_item_of_a_batch(api: ApiHome) -> None:
    before = await api.trace()
    items = [
        manifest("true", name="fine"),
        manifest("true", pool="nowhere"),
        manifest("true", env={"KEY": {"secret": "absent"}}),
        manifest("true", resources={"cpu": 999}),
    ]
    answer = await api.client.post("/api/v1/jobs/bulk", json={"items": items})
    assert answer.status_code == 400
    assert [fault["field"] for fault in answer.json()["faults"]] == [
        "items[1].spec.pool",
        "items[2].spec.env.KEY",
        "items[3].spec.resources.cpu",
    ]
    assert await api.trace() == before


async def test_a_batch_with_a_repeated_key_is_made_once_and_answered_as_first(api: ApiHome) -> None:
    body, headers = {"items": [manifest("true") for _ in range(3)]}, {"Idempotency-Key": "lot-1"}
    first = await api.client.post("/api/v1/jobs/bulk", json=body, headers=headers)
    for item in first.json()["items"]:
        await api.until(item["uid"])
    again = await api.client.post("/api/v1/jobs/bulk", json=body, headers=headers)
    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    assert len((await api.client.get("/api/v1/jobs")).json()["items"]) == 3
    other = await api.client.post("/api/v1/jobs/bulk", json={"items": [manifest("false")]}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency-mismatch")
    single = await api.client.post("/api/v1/jobs", json=manifest("true"), headers=headers)
    assert (single.status_code, single.json()["code"]) == (409, "idempotency-mismatch")


async def test_a_batch_that_was_refused_leaves_its_key_free(api: ApiHome) -> None:
    headers = {"Idempotency-Key": "lot-2"}
    twins = {"items": [manifest("true", name="twin"), manifest("true", name="twin")]}
    assert (await api.client.post("/api/v1/jobs/bulk", json=twins, headers=headers)).status_code == 409
    one = {"items": [manifest("true", name="twin")]}
    assert (await api.client.post("/api/v1/jobs/bulk", json=one, headers=headers)).status_code == 201


async def test_many_requests_with_one_key_at_once_make_one_batch(api: ApiHome) -> None:
    body, answers = {"items": [manifest("true") for _ in range(5)]}, list[bytes]()

    async def send() -> None:
        answer = await api.client.post("/api/v1/jobs/bulk", json=body, headers={"Idempotency-Key": "lot-3"})
        answers.append(answer.content)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(send)
    assert (len(answers), len(set(answers))) == (8, 1)
    assert len((await api.client.get("/api/v1/jobs")).json()["items"]) == 5


async def test_applying_makes_the_job_once_and_then_leaves_it_alone(api: ApiHome) -> None:
    body = manifest("true")
    first = await api.client.put("/api/v1/jobs/applied", json=body)
    again = await api.client.put("/api/v1/jobs/applied", json=body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["metadata"]["uid"] == again.json()["metadata"]["uid"]


async def test_what_was_read_can_be_applied_again(api: ApiHome) -> None:
    made = await api.submit("true", name="round", retries=2)
    read = (await api.client.get("/api/v1/jobs/round")).json()
    answer = await api.client.put("/api/v1/jobs/round", json=read)
    assert (answer.status_code, answer.json()["metadata"]["uid"]) == (200, made["metadata"]["uid"])


async def test_applying_another_spec_names_what_differs(api: ApiHome) -> None:
    await api.client.put("/api/v1/jobs/fixed", json=manifest("true"))
    answer = await api.client.put("/api/v1/jobs/fixed", json=manifest("true", retries=1, priority=5))
    assert (answer.status_code, answer.json()["code"]) == (409, "spec-immutable")
    assert {fault["field"] for fault in answer.json()["faults"]} == {"spec.priority", "spec.retries"}


async def test_the_name_in_the_document_must_be_that_of_the_address(api: ApiHome) -> None:
    answer = await api.client.put("/api/v1/jobs/one", json=manifest("true", name="two"))
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (400, "metadata.name")


async def test_a_suspended_job_waits_until_it_is_released(api: ApiHome) -> None:
    made = await api.submit("true", name="held", suspend=True)
    assert made["spec"]["suspend"] is True
    read = (await api.client.get("/api/v1/jobs/held")).json()
    assert "released" in read["status"]["waiting"][0]
    released = await api.client.post("/api/v1/jobs/held/release")
    assert (released.status_code, released.json()["spec"]["suspend"]) == (200, False)
    assert (await api.until(made["metadata"]["uid"]))["status"]["state"] == "SUCCEEDED"


async def test_a_running_job_can_be_cancelled_and_a_finished_one_not(api: ApiHome) -> None:
    made = await api.submit("sleep", "600", name="long", graceSeconds=0)
    await api.until(made["metadata"]["uid"], "RUNNING")
    answer = await api.client.post("/api/v1/jobs/long/cancel")
    assert answer.status_code == 202
    assert (await api.until(made["metadata"]["uid"]))["status"]["state"] == "CANCELLED"
    again = await api.client.post("/api/v1/jobs/long/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "already-over")


async def test_a_deleted_job_is_gone_and_its_name_free(api: ApiHome) -> None:
    made = await api.submit("true", name="short")
    await api.until(made["metadata"]["uid"])
    answer = await api.client.delete("/api/v1/jobs/short")
    assert (answer.status_code, answer.json()["uid"]) == (202, made["metadata"]["uid"])
    assert (await api.client.get("/api/v1/jobs/short")).status_code == 404
    assert (await api.submit("true", name="short"))["metadata"]["uid"] != made["metadata"]["uid"]


async def test_a_live_job_that_is_deleted_is_not_gone_before_it_has_ended(api: ApiHome) -> None:
    made = await api.submit("sleep", "600", name="stubborn", graceSeconds=3600)
    uid = made["metadata"]["uid"]
    await api.until(uid, "RUNNING")
    api.home.machine.is_down = True  # so that it cannot end
    told = (await api.client.delete("/api/v1/jobs/stubborn")).json()
    assert told == {"name": "stubborn", "uid": uid, "isGone": False}
    api.home.machine.is_down = False
    with anyio.fail_after(DEADLINE_SECONDS):
        while (await api.client.get(f"/api/v1/jobs/{uid}")).status_code != 404:
            await anyio.sleep(0.01)
    held = (await api.submit("true", name="held-back", suspend=True))["metadata"]["uid"]
    assert (await api.client.delete("/api/v1/jobs/held-back")).json() == {
        "name": "held-back",
        "uid": held,
        "isGone": True,
    }


async def test_a_job_is_found_by_name_uid_and_the_beginning_of_its_uid(api: ApiHome) -> None:
    made = await api.submit("true", name="findable")
    uid = made["metadata"]["uid"]
    for ref in ("findable", uid, uid[:30]):
        assert (await api.client.get(f"/api/v1/jobs/{ref}")).json()["metadata"]["uid"] == uid


async def test_lists_go_by_page_in_the_order_asked_for(api: ApiHome) -> None:
    for n in range(7):
        await api.submit("true", name=f"page-{n}", suspend=True)
    names: list[str] = []
    cursor = ""
    while True:
        page = (await api.client.get("/api/v1/jobs", params={"limit": 3, "order": "oldest", "cursor": cursor})).json()
        JobList.model_validate(page)
        names += [item["metadata"]["name"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = page["next"]
    assert names == [f"page-{n}" for n in range(7)]


async def test_lists_are_filtered_by_state_label_kind_and_name(api: ApiHome) -> None:
    document = manifest("true", name="labelled", suspend=True)
    document["metadata"]["labels"] = {"team": "a"}
    await api.client.post("/api/v1/jobs", json=document)
    done = await api.submit("true", name="plain")
    await api.until(done["metadata"]["uid"])

    async def names(**params: object) -> list[str]:
        page = (await api.client.get("/api/v1/jobs", params=params)).json()
        return [item["metadata"]["name"] for item in page["items"]]

    assert await names(label="team=a") == ["labelled"]
    assert await names(state="SUCCEEDED") == ["plain"]
    assert await names(state="SUSPENDED") == ["labelled"], "as lists show it"
    assert await names(state="PENDING") == ["labelled"], "as its status has it"
    assert await names(state=["SUSPENDED", "SUCCEEDED"]) == ["plain", "labelled"]
    assert await names(state=["SUSPENDED", "SUCCEEDED"], active="true") == ["labelled"]
    assert await names(active="true") == ["labelled"]
    assert await names(name="pl") == ["plain"]
    assert await names(kind="EphemeralAccelerationJob") == []
    await api.client.post("/api/v1/nodes/n1/cordon", headers=api.bearer(roles=("admin",)))
    await api.submit("true", name="waits")
    assert await names(state="PENDING") == ["waits", "labelled"]
    assert await names(state="SUSPENDED") == ["labelled"]
    await api.client.post("/api/v1/jobs/labelled/cancel")
    assert await names(state="SUSPENDED") == [], "over, though it was never released"


async def test_how_long_a_job_ran_is_the_time_of_its_runs_in_lists_too(api: ApiHome) -> None:
    world = api.home.plane.brain.world
    world.policy = replace(world.policy, retry_backoff_ms=Millis(300), retry_backoff_max_ms=Millis(300))
    made = await api.submit("exit", "1", name="tried", retries=1)
    over = (await api.until(made["metadata"]["uid"]))["status"]
    assert len(over["runs"]) == 2
    spans = [_between(run["startedAt"], run["endedAt"]) for run in over["runs"]]
    assert 0 < over["ranSeconds"] <= sum(spans) + 0.001, "as the node measured it, and not when it was heard"
    assert over["ranSeconds"] < _between(over["startedAt"], over["finishedAt"]), "without the backoff"
    (listed,) = (await api.client.get("/api/v1/jobs")).json()["items"]
    assert (listed["status"]["ranSeconds"], "runs" in listed["status"]) == (over["ranSeconds"], False)


def _between(began: str, ended: str) -> float:
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()


async def test_a_job_that_runs_says_since_when_and_one_that_never_did_says_nothing(api: ApiHome) -> None:
    made = await api.submit("sleep", "99999", name="runs")
    running = (await api.until(made["metadata"]["uid"], "RUNNING"))["status"]
    assert (running["ranSeconds"], running["runStartedAt"]) == (0, running["startedAt"])
    held = (await api.submit("true", suspend=True))["status"]
    assert "ranSeconds" not in held
    assert "runStartedAt" not in held


@pytest.mark.parametrize(
    "params",
    [
        {"limit": 0},
        {"limit": 1001},
        {"limit": "x"},
        {"state": "DONE"},
        {"label": "x"},
        {"cursor": "zz"},
        {"lable": "a=b"},
    ],
)
async def test_a_list_that_cannot_be_meant_is_refused_by_field(api: ApiHome, params: dict[str, object]) -> None:
    answer = await api.client.get("/api/v1/jobs", params=params)
    assert answer.status_code == 400
    Problem.model_validate(answer.json())


async def test_a_state_that_no_job_has_is_one_fault_of_the_parameter_with_those_there_are(api: ApiHome) -> None:
    answer = await api.client.get("/api/v1/jobs", params={"state": ["RUNNING", "DONE"]})
    assert answer.json()["detail"] == "the request has one fault"
    (fault,) = answer.json()["faults"]
    assert fault["field"] == "state"
    assert fault["message"].startswith("expected 'PENDING', 'SUSPENDED', 'SCHEDULED',")


async def test_a_reader_waits_for_the_revision_it_has_seen(api: ApiHome) -> None:
    answer = await api.client.post("/api/v1/jobs", json=manifest("true", name="seen", suspend=True))
    headers = {"Windlass-Revision": answer.headers["windlass-revision"]}
    read = await api.client.get("/api/v1/jobs/seen", headers=headers)
    assert read.status_code == 200
    assert int(read.headers["windlass-revision"]) >= int(answer.headers["windlass-revision"])


async def test_a_reader_from_the_future_gets_a_stale_answer_that_says_so() -> None:
    async with api_home(patience_seconds=0.05) as api:
        answer = await api.client.get("/api/v1/jobs", headers={"Windlass-Revision": "999999999"})
    assert (answer.status_code, answer.headers["windlass-stale"]) == (200, "true")


async def test_a_job_is_not_called_absent_by_a_read_model_that_is_behind() -> None:
    async with api_home(patience_seconds=0.05) as api:
        with held_back(api.home.plane.read_model):
            await api.submit("true", name="new", suspend=True)
            for method, path in (("GET", "new"), ("POST", "new/cancel"), ("GET", "new/logs"), ("GET", "other")):
                answer = await api.client.request(method, f"/api/v1/jobs/{path}")
                assert (answer.status_code, answer.json()["code"]) == (503, "read-model-behind")
                assert int(answer.headers["retry-after"]) >= 1
            applied = await api.client.put("/api/v1/jobs/new", json=manifest("true", name="new", suspend=True))
            assert applied.status_code == 503
            listed = await api.client.get("/api/v1/jobs")
            assert (listed.status_code, listed.headers["windlass-stale"]) == (200, "true")
        assert await api.home.plane.read_model.caught_up(timeout=DEADLINE_SECONDS)
        assert (await api.client.get("/api/v1/jobs/new")).status_code == 200
        assert (await api.client.get("/api/v1/jobs/other")).status_code == 404


async def test_another_tenant_sees_and_touches_nothing_of_it(api: ApiHome) -> None:
    made = await api.submit("true", name="secret", suspend=True)
    theirs = api.bearer(tenant="other")
    for ref in ("secret", made["metadata"]["uid"]):
        assert (await api.client.get(f"/api/v1/jobs/{ref}", headers=theirs)).status_code == 404
        assert (await api.client.post(f"/api/v1/jobs/{ref}/cancel", headers=theirs)).status_code == 404
        assert (await api.client.delete(f"/api/v1/jobs/{ref}", headers=theirs)).status_code == 404
    assert (await api.client.get("/api/v1/jobs", headers=theirs)).json()["items"] == []
    assert (await api.client.get("/api/v1/jobs/secret")).status_code == 200
