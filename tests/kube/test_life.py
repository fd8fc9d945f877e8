"""The life of a job on a real cluster, by `kubectl apply`: volume, pod, end, and both times-to-live."""

import json

from tests.kube.lab import DEADLINE, Lab
from tests.kube.operator import Operator
from tests.parts.waiting import wait_for


def conditions(status: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status["conditions"]}


def test_a_job_gets_its_volume_then_its_pod_runs_and_succeeds(lab: Lab, operator: Operator) -> None:
    lab.shell("hello", "echo it is me; echo answer > /artifacts/output.json; id -u", ttlSecondsAfterFinished=300)
    status = lab.wait_status("hello", phase="Succeeded")
    assert (status["reason"], status["attempt"], status["exitCode"], status["podName"]) == (
        "Completed",
        1,
        0,
        "hello-1",
    )
    assert status["startedAt"] <= status["finishedAt"]
    assert conditions(status) == {"Suspended": "False", "Started": "True", "Complete": "True", "Failed": "False"}
    claim = lab.get("pvc", "artifacts-hello")
    assert claim is not None
    assert claim["status"]["phase"] == "Bound"
    assert claim["metadata"]["ownerReferences"][0]["kind"] == "EphemeralAccelerationJob"
    assert lab.log("hello") == "it is me\n1000\n"
    wait_for(lambda: {"Started", "Completed"} <= lab.events("hello"), DEADLINE, "what is told after it is written")
    # The volume is still there for who wants the answer, and the pod for its time-to-live.
    assert lab.get("pod", "hello-1") is not None


def test_the_pod_fits_the_restricted_profile_and_has_no_token(lab: Lab, operator: Operator) -> None:
    lab.shell(
        "tight",
        "ls /var/run/secrets 2>&1; cat /proc/self/status | grep -E 'CapEff|NoNewPrivs'",
        ttlSecondsAfterFinished=300,
    )
    lab.wait_status("tight", phase="Succeeded")
    assert "No such file" in lab.log("tight")
    assert "CapEff:\t0000000000000000" in lab.log("tight")
    assert "NoNewPrivs:\t1" in lab.log("tight")
    pod = lab.get("pod", "tight-1")
    assert pod is not None
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "10Gi"}
    asked = pod["spec"]["containers"][0]["resources"]["requests"]
    assert asked == {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "64Mi"}


def test_a_class_that_binds_on_first_consumer_gets_the_pod_first(lab: Lab, operator: Operator) -> None:
    lab.shell("late", "echo yes > /artifacts/x", storageClass="late")
    lab.wait_status("late", phase="Succeeded")
    claim = lab.get("pvc", "artifacts-late")
    assert claim is not None
    assert claim["status"]["phase"] == "Bound"


def test_a_suspended_job_has_its_volume_and_no_pod_until_it_is_released(lab: Lab, operator: Operator) -> None:
    lab.shell("held", "echo now", suspend=True)
    lab.wait_status("held", phase="Pending", reason="Suspended")
    assert lab.get("pvc", "artifacts-held") is not None
    assert lab.items("pods") == []
    lab.kubectl("patch", "eaj", "held", "--type=merge", "-p", json.dumps({"spec": {"suspend": False}}))
    lab.wait_status("held", phase="Succeeded")
    wait_for(lambda: "Suspended" in lab.events("held"), DEADLINE, "what is told after it is written")


def test_a_pod_with_no_time_to_live_goes_at_once_and_its_log_stays(lab: Lab, operator: Operator) -> None:
    lab.shell("brief", "echo last words")
    lab.wait_status("brief", phase="Succeeded")
    lab.wait_gone("pod", "brief-1")
    assert lab.log("brief") == "last words\n"
    assert lab.status("brief")["logName"] == "brief-1-log"


def test_both_times_to_live_delete_and_neither_early(lab: Lab, operator: Operator) -> None:
    lab.shell("timed", "true", ttlSecondsAfterFinished=4, pvcTTLSecondsAfterFinished=8)
    lab.wait_status("timed", phase="Succeeded")
    uid = (lab.get("pvc", "artifacts-timed") or {})["metadata"]["uid"]
    lab.wait_gone("pod", "timed-1")
    claim = lab.get("pvc", "artifacts-timed")
    assert claim is None or claim["metadata"]["uid"] == uid
    lab.wait_gone("pvc", "artifacts-timed")
    wait_for(lambda: "artifactPath" not in lab.status("timed"), 120, "the status to say that the volume is gone")
    assert lab.status("timed")["phase"] == "Succeeded"


def test_deleting_the_job_takes_pod_volume_and_log_along(lab: Lab, operator: Operator) -> None:
    lab.shell("whole", "echo x", ttlSecondsAfterFinished=300)
    lab.wait_status("whole", phase="Succeeded")
    lab.kubectl("delete", "eaj", "whole")
    for kind, name in (("pod", "whole-1"), ("pvc", "artifacts-whole"), ("configmap", "whole-1-log")):
        lab.wait_gone(kind, name)


def test_a_volume_made_beforehand_is_adopted_and_one_that_nobody_claims_goes(lab: Lab, operator: Operator) -> None:
    def claim(job: str, expires: str) -> str:
        metadata = {
            "name": f"artifacts-{job}",
            "labels": {"windlass.dev/job": job, "windlass.dev/part": "volume"},
            "annotations": {"windlass.dev/expires-at": expires},
        }
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        lab.kubectl("apply", "-f", "-", stdin=json.dumps(document))
        return str((lab.get("pvc", f"artifacts-{job}") or {})["metadata"]["uid"])

    uid = claim("early", "2999-01-01T00:00:00Z")
    claim("never", "2020-01-01T00:00:00Z")
    lab.shell("early", "true")
    lab.wait_status("early", phase="Succeeded", volumeUID=uid)
    adopted = lab.get("pvc", "artifacts-early")
    assert adopted is not None
    assert adopted["metadata"]["ownerReferences"][0]["name"] == "early"
    assert "windlass.dev/expires-at" not in adopted["metadata"].get("annotations", {})
    lab.wait_gone("pvc", "artifacts-never")


def test_a_volume_that_somebody_else_made_is_used_and_never_deleted(lab: Lab, operator: Operator) -> None:
    metadata = {"name": "artifacts-mine"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    lab.shell("mine", "true", pvcTTLSecondsAfterFinished=0)
    lab.wait_status("mine", phase="Succeeded")
    lab.wait_gone("pod", "mine-1")
    lab.kubectl("delete", "eaj", "mine")
    lab.wait_gone("eaj", "mine")
    assert (lab.get("pvc", "artifacts-mine") or {})["metadata"].get("ownerReferences") is None


def test_a_pod_is_given_the_clusters_secrets_by_reference(lab: Lab, operator: Operator) -> None:
    lab.kubectl("create", "secret", "generic", "hub", "--from-literal=token=canary")
    reference = {"secret": "hub", "key": "token"}
    lab.shell(
        "holder",
        'echo "$TOKEN"; cat "$WINDLASS_SECRETS/f"; echo; touch "$WINDLASS_SECRETS/g" 2>/dev/null || echo fixed',
        secretEnv={"TOKEN": reference},
        secretFiles={"f": reference},
        ttlSecondsAfterFinished=300,
    )
    lab.wait_status("holder", phase="Succeeded")
    assert lab.log("holder") == "canary\ncanary\nfixed\n"
    for kind, name in (("eaj", "holder"), ("pod", "holder-1")):
        found = lab.get(kind, name)
        assert found is not None
        assert '"hub"' in json.dumps(found["spec"])
        assert "canary" not in json.dumps(found["spec"])


def test_a_dollar_arrives_as_it_was_written(lab: Lab, operator: Operator) -> None:
    """Kubernetes would make one of two, and put a variable in the place of `$(NAME)`."""
    said = 'printf "%s\\n" "$P" "$1"; [ "$$" = 1 ] && echo its own number'
    command = ["sh", "-c", said, "it", "$(HOME) $$(HOME) $$"]
    lab.apply("dollars", command=command, env={"P": "a$$b $(HOME)"})
    lab.wait_status("dollars", phase="Succeeded")
    assert lab.log("dollars") == "a$$b $(HOME)\n$(HOME) $$(HOME) $$\nits own number\n"


def test_a_job_ends_whatever_its_last_words_are(lab: Lab, operator: Operator) -> None:
    """They go into the status, which the API server reads as YAML."""
    odd = [
        "\\177",
        "\\302\\200",
        "\\302\\205",
        "\\342\\200\\250",
        "\\357\\273\\277",
        "\\357\\277\\276",
        "\\360\\237\\230\\200",
    ]
    lab.shell("odd", f"printf 'a{''.join(odd)}b\\n'; exit 2")
    status = lab.wait_status("odd", phase="Failed")
    assert (status["reason"], status["exitCode"]) == ("ExitCode", 2)
    assert "a\x7f\x80\x85\u2028\ufeff\ufffe\U0001f600b" in status["message"]
