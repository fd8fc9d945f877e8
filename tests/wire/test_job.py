"""The manifest: what is meant is read exactly, what cannot be meant is named, what is written out can be read again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import Invalid
from windlass.core.model.ids import JobId, Millis, NodeId, RunId, TenantId
from windlass.core.model.job import Job, JobKind, JobState, OnLostNode
from windlass.core.model.money import Micros
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run, RunState, Token
from windlass.core.model.shape import Shape
from windlass.core.model.submission import Submission
from windlass.wire.bulk import read_bulk
from windlass.wire.job import read_manifest
from windlass.wire.render import asked_for, job_manifest, spec_document
from windlass.wire.schema import JobManifest

BASE: dict[str, Any] = {"apiVersion": "windlass.dev/v1", "kind": "Job", "spec": {"image": "busybox"}}


def document(*, kind: str = "Job", metadata: Any = None, **spec: Any) -> dict[str, Any]:
    made = {**BASE, "kind": kind, "spec": {**BASE["spec"], **spec}}
    return made if metadata is None else {**made, "metadata": metadata}


def read(data: object, runtime: str = "container") -> Submission:
    return read_manifest(data, runtime=runtime)


def faults(data: object, runtime: str = "container") -> dict[str, str]:
    with pytest.raises(Invalid) as refusal:
        read(data, runtime)
    return {fault.field: fault.message for fault in refusal.value.faults}


def test_the_least_manifest_has_the_documented_defaults() -> None:
    asked = read(BASE)
    assert asked.spec.needs == Resources(cpu_millis=1000, memory_bytes=512 << 20, gpus=0)
    assert (asked.retries, asked.priority, asked.run_ttl_ms, asked.volume_ttl_ms) == (0, 0, 0, 3_600_000)
    assert (asked.timeout_ms, asked.on_lost_node, asked.lost_after_ms, asked.grace_ms) == (None, None, 600_000, 10_000)
    assert (asked.spec.pids_max, asked.spec.wants_network, asked.spec.volume_size_bytes) == (4096, True, 1 << 30)


def test_the_inference_preset_asks_for_a_gpu_and_has_its_paths() -> None:
    asked = read(document(kind="EphemeralAccelerationJob"))
    assert (asked.kind, asked.spec.needs.gpus, asked.spec.model) == (JobKind.EPHEMERAL, 1, "resnet50")
    assert (asked.spec.input_path, asked.spec.output_path) == ("/artifacts/input.jpg", "/artifacts/output.json")
    assert read(document(kind="EphemeralAccelerationJob", resources={"gpu": 0})).spec.needs.gpus == 0


def test_the_preset_may_come_without_an_image_where_the_server_has_one() -> None:
    bare = {**BASE, "kind": "EphemeralAccelerationJob", "spec": {}}
    assert read_manifest(bare, runtime="container", preset_image="windlass/infer:1").spec.image == "windlass/infer:1"
    assert faults(bare) == {"spec.image": "is required"}


def test_a_command_as_a_text_is_split_and_never_given_to_a_shell() -> None:
    assert read(document(command="sh -c 'echo $HOME; id'")).spec.command == ("sh", "-c", "echo $HOME; id")


def test_plain_processes_need_a_command_and_take_no_image() -> None:
    spec = {**BASE, "spec": {"command": ["true"]}}
    assert read(spec, runtime="process").runtime == "process"
    assert set(faults(document(), runtime="process")) == {"spec.image", "spec.command"}


def test_both_names_of_the_volume_ttl_mean_the_same() -> None:
    assert read(document(volumeTTLSecondsAfterFinished=7)).volume_ttl_ms == 7000
    assert read(document(pvcTTLSecondsAfterFinished=7)).volume_ttl_ms == 7000
    both = document(pvcTTLSecondsAfterFinished=7, volumeTTLSecondsAfterFinished=8)
    assert "another name" in faults(both)["spec.volumeTTLSecondsAfterFinished"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"imagee": "x"}, "spec.imagee"),
    "a snake-case field": ({"timeout_seconds": 5}, "spec.timeout_seconds"),
    "a number for a text": ({"image": 5}, "spec.image"),
    "an image that is an option": ({"image": "--privileged"}, "spec.image"),
    "a text for a number": ({"retries": "3"}, "spec.retries"),
    "a truth value for a number": ({"retries": True}, "spec.retries"),
    "a number for a truth value": ({"suspend": 1}, "spec.suspend"),
    "a text for a truth value": ({"suspend": "yes"}, "spec.suspend"),
    "too many retries": ({"retries": 101}, "spec.retries"),
    "negative retries": ({"retries": -1}, "spec.retries"),
    "a huge number": ({"timeoutSeconds": 10**400}, "spec.timeoutSeconds"),
    "no time at all": ({"timeoutSeconds": 0}, "spec.timeoutSeconds"),
    "a priority out of range": ({"priority": 101}, "spec.priority"),
    "a quick loss": ({"lostAfter": 9}, "spec.lostAfter"),
    "an odd wish for lost nodes": ({"onLostNode": "panic"}, "spec.onLostNode"),
    "pids without limit": ({"pidsLimit": -5}, "spec.pidsLimit"),
    "a memory of 2^63": ({"resources": {"memory": 2**63 - 1}}, "spec.resources.memory"),
    "a negative gpu": ({"resources": {"gpu": -1}}, "spec.resources.gpu"),
    "an unknown resource": ({"resources": {"disk": 1}}, "spec.resources.disk"),
    "a list of resources": ({"resources": []}, "spec.resources"),
    "a variable with a newline": ({"env": {"A=1\nB": "2"}}, "spec.env"),
    "a variable with a NUL": ({"env": {"A": "\0"}}, "spec.env"),
    "a number as a variable": ({"env": {"A": 1}}, "spec.env.A"),
    "a list of variables": ({"env": [{"name": "A"}]}, "spec.env"),
    "variables beyond measure": ({"env": {f"V{n}": "x" * 300 for n in range(1000)}}, "spec.env"),
    "too many variables": ({"env": {f"V{n}": "" for n in range(1001)}}, "spec.env"),
    "a command beyond measure": ({"command": ["x" * 200_000]}, "spec.command"),
    "a command text beyond measure": ({"command": "x" * 200_000}, "spec.command"),
    "an open quotation": ({"command": "echo 'x"}, "spec.command"),
    "a NUL in a command": ({"command": ["a\0b"]}, "spec.command"),
    "an empty program": ({"command": [""]}, "spec.command"),
    "a number in a command": ({"command": ["sleep", 5]}, "spec.command[1]"),
    "a relative workdir": ({"workdir": "a"}, "spec.workdir"),
    "a climbing workdir": ({"workdir": "/a/../b"}, "spec.workdir"),
    "a workdir at a descriptor": ({"workdir": "/proc/self/fd/\x00"}, "spec.workdir"),
    "a pool that is no name": ({"pool": "A b"}, "spec.pool"),
    "a webhook to a file": ({"webhook": {"url": "file:///etc/passwd"}}, "spec.webhook.url"),
    "a webhook without an address": ({"webhook": {}}, "spec.webhook.url"),
    "a model of a plain job": ({"model": "resnet50"}, "spec.model"),
    "a volume too small": ({"pvcSize": "1"}, "spec.pvcSize"),
    "a negative price": ({"maxCost": -1}, "spec.maxCost"),
    "a price at which nothing runs": ({"maxCost": 0}, "spec.maxCost"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_field_is_named_where_its_writer_sees_it(case: str) -> None:
    spec, field = WRONG[case]
    assert field in faults(document(**spec))


WRONG_DOCUMENTS: dict[str, tuple[Any, str]] = {
    "a list": ([], "(document)"),
    "a text": ("job", "(document)"),
    "nothing": (None, "(document)"),
    "no spec": ({"apiVersion": "windlass.dev/v1", "kind": "Job"}, "spec"),
    "another version": ({**BASE, "apiVersion": "v1"}, "apiVersion"),
    "another kind": ({**BASE, "kind": "Pod"}, "kind"),
    "a name that is none": (document(metadata={"name": "A"}), "metadata.name"),
    "a name with a newline": (document(metadata={"name": "a\n"}), "metadata.name"),
    "a tenant in the body": (document(metadata={"tenant": "b"}), "metadata.tenant"),
    "a label of ours": (document(metadata={"labels": {"windlass.dev/node": "x"}}), "metadata.labels"),
    "a field on top": ({**BASE, "tenant": "b"}, "tenant"),
}


@pytest.mark.parametrize("case", WRONG_DOCUMENTS)
def test_a_wrong_document_is_named(case: str) -> None:
    data, field = WRONG_DOCUMENTS[case]
    assert field in faults(data)


def test_a_hostile_field_name_is_shown_short_and_harmless() -> None:
    (field,) = (name for name in faults(document(**{"\x1b[31m" + "x" * 500: 1})) if name != "spec.image")
    assert field.isprintable()
    assert len(field) < 100


def test_what_the_server_said_is_read_over_on_the_way_in() -> None:
    metadata = {"name": "a", "uid": "x", "creationTimestamp": "2026-11-15T00:00:00.000Z"}
    assert read({**document(metadata=metadata), "status": {"state": "RUNNING"}}).name == "a"


LABELS = st.dictionaries(
    st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.from_regex(r"[a-z0-9]{0,8}", fullmatch=True), max_size=3
)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.integers(10, 4_096_000).map(lambda millis: f"{millis}m"),
        "memory": st.integers(6 << 20, 64 << 40),
        "gpu": st.integers(0, 64),
    },
)
SPECS = st.fixed_dictionaries(
    {"image": st.sampled_from(["busybox", "a/b:1"])},
    optional={
        "command": st.lists(TEXT, max_size=3).map(lambda rest: ["x", *rest]),
        "env": st.dictionaries(st.from_regex(r"[A-Z]{1,5}", fullmatch=True), TEXT, max_size=3),
        "workdir": st.sampled_from(["/", "/a/b"]),
        "resources": RESOURCES,
        "timeoutSeconds": st.integers(1, 10**6),
        "expectedSeconds": st.integers(1, 10**6),
        "sla": st.sampled_from(["5m", "15m", "1h", "4h", "24h"]),
        "retries": st.integers(0, 100),
        "priority": st.integers(-100, 100),
        "ttlSecondsAfterFinished": st.integers(0, 10**6),
        "pvcTTLSecondsAfterFinished": st.integers(0, 10**6),
        "onLostNode": st.sampled_from([one.value for one in OnLostNode]),
        "lostAfter": st.integers(10, 10**6),
        "suspend": st.booleans(),
        "collect": st.booleans(),
        "pool": st.just("gold"),
        "nodeSelector": LABELS,
        "webhook": st.just({"url": "https://example.com/hook"}),
        "pidsLimit": st.integers(1, 1 << 20),
        "graceSeconds": st.integers(0, 3600),
        "terminal": st.booleans(),
        "network": st.booleans(),
        "pvcSize": st.integers(1 << 20, 1 << 40),
        "queueName": st.just("q"),
        "maxCost": st.integers(1, 10**15),
    },
)


@given(SPECS, st.sampled_from(["Job", "EphemeralAccelerationJob"]))
def test_a_manifest_written_out_is_read_back_to_the_same(spec: dict[str, Any], kind: str) -> None:
    asked = read({**BASE, "kind": kind, "spec": spec})
    again = read({**BASE, "kind": kind, "spec": spec_document(asked)})
    assert again == asked


def a_job(**fields: Any) -> Job:
    needs = Resources(cpu_millis=1000, memory_bytes=1 << 30)
    base: dict[str, Any] = {
        "id": JobId("0190"), "tenant": TenantId("local"), "name": "a", "seq": 1, "shape": Shape(needs=needs),
        "created_at": Millis(1000), "since": Millis(1000),
    }  # fmt: skip
    return Job(**{**base, **fields})


@pytest.mark.parametrize("state", list(JobState))
@pytest.mark.parametrize("kind", list(JobKind))
def test_a_job_in_every_state_is_rendered_as_documented(state: JobState, kind: JobKind) -> None:
    spec = read(document(kind=kind.value)).spec
    job = a_job(
        state=state,
        kind=kind,
        attempt=1,
        started_at=Millis(2000),
        finished_at=Millis(3500),
        exit_code=3,
        cost=Micros(7),
    )
    run = Run(
        id=RunId("0190-1"), job=job.id, tenant=job.tenant, node=NodeId("n1"), attempt=1, token=Token(1, 1), needs=spec.needs,
        since=Millis(1), assigned_at=Millis(1), state=RunState.EXITED, progress="pulling", ran_ms=Millis(3_600_000),
    )  # fmt: skip
    shown = job_manifest(job, spec, (run,), waiting=("no room",), wall=lambda at: at / 1000)
    JobManifest.model_validate(shown)
    assert shown["metadata"]["creationTimestamp"] == "1970-01-01T00:00:01.000Z"
    assert shown["status"]["finishedAt"] == "1970-01-01T00:00:03.500Z"
    assert ("waiting" in shown["status"]) == (state is JobState.PENDING)
    assert ("progress" in shown["status"]) == (state is JobState.STARTING)
    assert shown["status"]["cost"] == 7


def test_what_a_job_was_asked_for_can_be_told_from_it() -> None:
    asked = read(document(metadata={"name": "a"}, retries=1, onLostNode="move"))
    job = a_job(retries=1, on_lost_node=OnLostNode.MOVE, is_name_given=True)
    assert spec_document(asked_for(job, asked.spec)) == spec_document(asked)


def test_a_batch_reads_equal_specs_as_one_by_one() -> None:
    items = [document(metadata={"name": f"a{n}", "labels": {"n": str(n)}}) for n in range(5)]
    batch = read_bulk({"items": items}, items_max=10, runtime="container")
    assert batch == [read(item) for item in items]


def test_a_batch_does_not_take_one_item_for_another() -> None:
    items = [
        document(env={"A": "1"}),
        document(env={"A": 1}),
        document(suspend=True),
        document(suspend=1),
        document(metadata={"name": "B"}),
    ]
    with pytest.raises(Invalid) as refusal:
        read_bulk({"items": items}, items_max=10, runtime="container")
    assert [fault.field for fault in refusal.value.faults] == [
        "items[1].spec.env.A",
        "items[3].spec.suspend",
        "items[4].metadata.name",
    ]


@pytest.mark.parametrize(
    "data", [None, [], {}, {"items": []}, {"items": {}}, {"items": [BASE] * 11}, {"items": [BASE], "x": 1}]
)
def test_a_batch_that_is_none_is_refused(data: object) -> None:
    with pytest.raises(Invalid):
        read_bulk(data, items_max=10, runtime="container")


@pytest.mark.parametrize("name", ["fast", "gp3.csi.example.com", "a" * 253])
def test_a_storage_class_may_have_any_name_that_kubernetes_gives_one(name: str) -> None:
    assert read(document(storageClass=name)).spec.storage_class == name


@pytest.mark.parametrize("name", ["", ".fast", "fast.", "a..b", "Fast", "a/b", "-a", "a-.b", "a\n", "a" * 254])
def test_a_storage_class_of_a_name_that_none_can_have_is_refused(name: str) -> None:
    assert [*faults(document(storageClass=name))] == ["spec.storageClass"]
