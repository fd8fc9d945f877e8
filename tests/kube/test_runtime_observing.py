"""What a job object's status is taken for, and what a run becomes as an object. No cluster."""

from typing import Any

import pytest

from windlass.adapters.runtime.kubernetes.machine import machine_of
from windlass.adapters.runtime.kubernetes.objects import Owner, claim_name, object_name, run_object, secrets
from windlass.adapters.runtime.kubernetes.observing import is_settled, observed
from windlass.core.errors import Invalid
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import JobId, Millis, RunId, TenantId, VolumeId
from windlass.core.model.job import JobSpec
from windlass.core.model.resources import Resources
from windlass.core.model.run import Intent, Token
from windlass.core.model.secret import Credentials, Handed
from windlass.operator.reconcile import read_wish
from windlass.ports.runtime import Phase
from windlass.wire.kube.errand import read_errand
from windlass.wire.kube.pod import PodPolicy, run_pod
from windlass.wire.kube.taints import read_tolerations

RUN = RunId("0190-1")
OURS = Owner(installation="here", node="cluster")
TIMES = {"startedAt": "2026-01-01T00:00:05Z", "finishedAt": "2026-01-01T00:00:09Z"}


def an_object(*, suspend: bool = False, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "run-0190-1", "labels": {"windlass.dev/token": "3.14"}},
        "spec": {"suspend": suspend},
        "status": status,
    }


def an_assignment(**changes: Any) -> Assignment:
    fields: dict[str, Any] = {
        "run": RUN,
        "job": JobId("0190"),
        "tenant": TenantId("acme"),
        "name": "train",
        "token": Token(3, 14),
        "intent": Intent.RUN,
        "volume": VolumeId("0190"),
        "attempt": 2,
        "spec": JobSpec(image="busybox", needs=Resources(cpu_millis=500, memory_bytes=64 << 20), queue_name="team-a"),
    }
    return Assignment(**(fields | changes))


@pytest.mark.parametrize(
    ("job", "expected"),
    {
        "made": (an_object(suspend=True), (Phase.CREATED, None, "", "")),
        "held": (an_object(suspend=True, phase="Pending", reason="Suspended"), (Phase.CREATED, None, "", "")),
        "no room": (
            an_object(phase="Pending", reason="Unschedulable", message="0/1 nodes"),
            (Phase.CREATED, None, "", "Unschedulable: 0/1 nodes"),
        ),
        "runs": (
            an_object(phase="Running", reason="Started", startedAt=TIMES["startedAt"]),
            (Phase.RUNNING, None, "", ""),
        ),
        "done": (an_object(phase="Succeeded", reason="Completed", exitCode=0, **TIMES), (Phase.EXITED, 0, "", "")),
        "failed": (an_object(phase="Failed", reason="ExitCode", exitCode=3, **TIMES), (Phase.EXITED, 3, "", "")),
        "evicted": (
            an_object(phase="Failed", reason="Evicted", message="room; its last lines:\nx", **TIMES),
            (Phase.EXITED, None, "room", ""),
        ),
        "no image": (
            an_object(phase="Failed", reason="ImagePull", message="not found", finishedAt=TIMES["finishedAt"]),
            (Phase.CREATED, None, "not found", ""),
        ),
    }.values(),
    ids=["made", "held", "no room", "runs", "done", "failed", "evicted", "no image"],
)
def test_a_status_is_taken_for_a_phase(job: dict[str, Any], expected: tuple[object, ...]) -> None:
    seen = observed(RUN, job)
    assert (seen.phase, seen.exit_code, seen.error, seen.waits_for) == expected
    assert seen.token == Token(3, 14)
    assert is_settled(seen) is (job["status"].get("phase") in ("Succeeded", "Failed"))


def test_an_end_is_named_only_where_the_exit_code_says_too_little() -> None:
    ended = observed(RUN, an_object(phase="Failed", reason="NodeLost", message="gone", **TIMES))
    assert (ended.reason, ended.ran_ms) == ("NodeLost", 4000)
    oom = observed(RUN, an_object(phase="Failed", reason="OOMKilled", exitCode=137, **TIMES))
    assert (oom.reason, oom.is_oom, oom.exit_code) == ("", True, 137)


def test_a_run_becomes_a_suspended_object_the_operators_own_reader_takes() -> None:
    handed = Handed(
        variables=(("TOKEN", "hush"),),
        files=(("key.pem", b"hush"),),
        credentials=Credentials(registry="registry.example", username="u", password="hush"),
    )
    spec = JobSpec(
        image="busybox", env=(("TOKEN", "old"), ("A", "b")), needs=Resources(cpu_millis=500, memory_bytes=64 << 20)
    )
    document = run_object(an_assignment(spec=spec, timeout_ms=Millis(1500)), OURS, handed)
    assert "hush" not in str(document)
    wish, asked = read_wish(document, "")
    assert (wish.fault, wish.is_volume_given) == ("", True)
    assert (asked.is_suspended, asked.retries, asked.timeout_ms, asked.spec.env) == (True, 0, 2000, (("A", "b"),))
    assert [one.name for one in asked.spec.secret_env] == ["TOKEN"]
    assert [one.name for one in asked.spec.secret_files] == ["key.pem"]
    names = {one["metadata"]["name"] for one in secrets(RUN, "uid", OURS, handed)}
    assert names == {"run-0190-1-handed", "run-0190-1-login"}
    assert {asked.spec.secret_env[0].secret, asked.spec.secret_files[0].secret} == {"run-0190-1-handed"}


def test_the_pod_of_a_run_has_its_identity_its_volume_and_its_queue() -> None:
    document = run_object(an_assignment(), OURS, Handed())
    errand = read_errand(document)
    assert errand is not None
    _, asked = read_wish(document, "")
    pod = run_pod("run-0190-1", "uid", 1, asked, PodPolicy(), errand)
    told = {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}
    assert (told["WINDLASS_JOB"], told["WINDLASS_RUN"], told["WINDLASS_ATTEMPT"]) == ("0190", "0190-1", "2")
    assert "WINDLASS_MODEL" not in told
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "volume-0190"}
    assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"


def test_names_come_from_ids_and_stay_names() -> None:
    assert (object_name(RUN), claim_name(VolumeId("0190"))) == ("run-0190-1", "volume-0190")
    strange = [object_name(RunId(text)) for text in ("Upper-1", "x" * 200, "dots.and_lines-1")]
    assert len(set(strange)) == 3
    assert all(len(name) <= 50 and name.startswith("run-") for name in strange)
    with pytest.raises(Invalid):
        Owner(installation="no spaces", node="x")


def test_a_cluster_offers_what_its_ready_and_open_nodes_can_give() -> None:
    def node(name: str, *, ready: bool = True, **spec: Any) -> dict[str, Any]:
        status = {
            "allocatable": {"cpu": "1930m", "memory": "3914Mi", "nvidia.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "nodeInfo": {"kubeletVersion": "v1.36.4"},
        }
        return {"metadata": {"name": name, "labels": {}}, "spec": spec, "status": status}

    tainted = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    nodes = [
        node("a"),
        node("b"),
        node("down", ready=False),
        node("drained", unschedulable=True),
        node("c", taints=tainted),
    ]
    machine = machine_of(nodes, PodPolicy())
    assert machine.capacity == Resources(cpu_millis=3860, memory_bytes=2 * 3914 << 20, gpus=4)
    assert (len(machine.gpu_ids), machine.runtime) == (4, "kubernetes v1.36.4")
    kept = node("d", taints=[{"key": "nvidia.com/gpu", "value": "only", "effect": "NoSchedule"}])
    for text, gpus in (("nvidia.com/gpu", 6), ("nvidia.com/gpu=only", 6), ("nvidia.com/gpu=no", 4)):
        policy = PodPolicy(gpu_tolerations=read_tolerations([text]))
        assert machine_of([*nodes, kept], policy).capacity.gpus == gpus
