"""`egpu` on a cluster: the seed's life of a job, from a directory or a URL to the answer, and what is left of it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chaos.clock_shim import ClockShim
from tests.kube.cluster import KubeCluster
from tests.kube.lab import Egpu, Lab
from tests.kube.operator import ROOT, Operator
from tests.kube.serving import served
from tests.parts import busybox
from tests.parts.waiting import wait_for
from windlass.client.kube.api import read_config
from windlass.client.kube.home import KubeClient
from windlass.client.pack import Project
from windlass.core.errors import Conflict
from windlass.wire.kube.names import UPLOAD

LIGHT = ("--image", busybox.IMAGE, "--gpu", "0", "--cpu", "100m", "--memory", "64Mi")


def project(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def test_a_directory_goes_in_the_job_runs_on_it_and_the_answer_comes_out(
    lab: Lab, operator: Operator, egpu: Egpu, tmp_path: Path
) -> None:
    code = project(tmp_path / "code", **{"input.txt": "seven\n", "deep/er/x": "1", "ünïcode name": "2"})
    script = "cd /artifacts; cat input.txt; find . -type f | sort > output.json"
    done = egpu("create", "whole", "--project-dir", str(code), *LIGHT, "--pvc-ttl", "1h", "--", "sh", "-c", script)
    assert "seven" in done.stdout
    assert lab.status("whole")["phase"] == "Succeeded"
    egpu("download", "whole", "output.json")
    listed = (tmp_path / "output.json").read_text().split("\n")
    assert {"./input.txt", "./deep/er/x", "./ünïcode name"} <= set(listed)
    assert not any(".windlass-" in line for line in listed)
    # Helpers and the pod itself are gone; the output is not.
    lab.wait_gone("pod", "whole-1")
    wait_for(lambda: lab.items("pods") == [], 120, "the helpers to go")
    assert egpu("logs", "whole").stdout == "seven\n"


def test_an_upload_that_does_not_verify_lets_no_pod_of_the_job_be_made(
    lab: Lab, operator: Operator, tmp_path: Path
) -> None:
    config = read_config(lab.cluster.kubeconfig)
    client = KubeClient(config, namespace=lab.namespace, side_image=busybox.IMAGE)
    command = ["sh", "-c", "cd /artifacts; ls -A; cat a"]
    job = client.create(manifest("ordered", command=command, suspend=True))
    uid = job["metadata"]["uid"]
    packed = Project(project(tmp_path / "code", a="right\n"))
    with pytest.raises(Conflict, match="something else arrived"):
        client.upload(uid, packed, digest="0" * 64)
    assert lab.wait_status("ordered", phase="Pending", reason="Suspended").get("attempt", 0) == 0
    client.upload(uid, packed, digest=packed.digest())
    client.release(uid)
    lab.wait_status("ordered", phase="Succeeded")
    assert lab.log("ordered") == "a\nright\n", "and nothing is left of what did not verify"
    client.close()


def test_a_job_that_waits_for_its_upload_says_so_until_it_is_released(
    lab: Lab, operator: Operator, tmp_path: Path
) -> None:
    client = KubeClient(read_config(lab.cluster.kubeconfig), namespace=lab.namespace, side_image=busybox.IMAGE)
    uid = client.create_for_upload(manifest("cut", command=["cat", "/artifacts/a"]))["metadata"]["uid"]
    assert lab.wait_status("cut", reason="Suspended")["message"].startswith("it waits for its upload; if that was")
    packed = Project(project(tmp_path / "code", a="right\n"))
    client.upload(uid, packed, digest=packed.digest())
    client.release(uid)
    lab.wait_status("cut", phase="Succeeded")
    assert lab.log("cut") == "right\n"
    found = lab.get("eaj", "cut")
    assert found is not None
    assert UPLOAD not in found["metadata"].get("annotations", {})
    client.close()


def test_what_is_applied_again_is_unchanged_when_it_means_the_same_and_refused_when_it_does_not(lab: Lab) -> None:
    client = KubeClient(read_config(lab.cluster.kubeconfig), namespace=lab.namespace)
    small = {"gpu": 0, "memory": "64Mi", "cpu": Decimal("0.05")}
    assert client.apply(manifest("same", resources=small, pvcSize="1Gi", env={"A": "1"}))[1] == "created"
    assert client.apply(manifest("same", resources=small, pvcSize="1024Mi", env={"A": "1"}))[1] == "unchanged"
    client.release("same")
    assert client.apply(manifest("same", resources=small, env={"A": "1"}))[1] == "unchanged"
    for changed in (
        manifest("same", resources={**small, "memory": "4Gi"}, env={"A": "1"}),
        manifest("same", resources=small, env={"A": "2"}),
        manifest("same", resources=small),
        manifest("same", resources=small, env={"A": "1"}, retries=1),
    ):
        with pytest.raises(Conflict, match="with another spec"):
            client.apply(changed)
    client.close()


def manifest(name: str, **spec: Any) -> dict[str, Any]:
    given = {"image": busybox.IMAGE, "resources": {"gpu": 0}, **spec}
    return {
        "apiVersion": "windlass.dev/v1",
        "kind": "EphemeralAccelerationJob",
        "metadata": {"name": name},
        "spec": given,
    }


def test_a_job_whose_volume_the_quota_does_not_grant_is_not_left_behind(
    lab: Lab, operator: Operator, egpu: Egpu, tmp_path: Path
) -> None:
    lab.kubectl("create", "quota", "none", "--hard=persistentvolumeclaims=0")
    code = project(tmp_path / "code", a="1")
    done = egpu("create", "roomless", "--project-dir", str(code), *LIGHT, "--", "true", check=False)
    assert (done.returncode, "exceeded quota: none" in done.stderr) == (4, True), done.stderr
    lab.wait_gone("eaj", "roomless")


def test_looking_at_jobs_and_cancelling_one(lab: Lab, operator: Operator, egpu: Egpu) -> None:
    egpu("create", "long", *LIGHT, "--", "sleep", "300")
    lab.wait_status("long", phase="Running")
    assert json.loads(egpu("get", "long", "-o", "json").stdout)["status"]["phase"] == "Running"
    assert "long" in egpu("list").stdout
    assert "cancelled" in egpu("cancel", "long").stdout
    assert "Cancelled" in egpu("watch", "long").stdout
    assert egpu("get", "nowhere", check=False).returncode != 0


def test_a_failed_job_gives_its_exit_code_and_output(lab: Lab, operator: Operator, egpu: Egpu) -> None:
    done = egpu("create", "bad", *LIGHT, "--watch", "--", "sh", "-c", "echo no; exit 9", check=False)
    assert done.returncode == 9
    assert "no" in done.stdout


def test_debug_is_a_shell_beside_the_artifacts_and_is_gone_afterwards(
    lab: Lab, operator: Operator, egpu: Egpu, tmp_path: Path
) -> None:
    egpu("create", "seen", *LIGHT, "--watch", "--", "sh", "-c", "echo inside > /artifacts/it")
    done = egpu("debug", "seen", "--exec", "cat /mnt/it", stdin="")
    assert "inside" in done.stdout
    done = egpu("debug", "seen", "--exec", "nosuch", stdin="", check=False)
    assert (done.returncode, done.stderr) == (127, "no such command in the image: nosuch\n")
    wait_for(lambda: lab.items("pods") == [], 120, "the debug pod to go")
    egpu("debug", "seen", "--exec", "true", "--keep", "--pod-name", "look", stdin="")
    assert lab.get("pod", "look") is not None


def test_a_job_deleted_without_its_volume_leaves_it_dated_and_with_it_nothing(
    lab: Lab, operator: Operator, egpu: Egpu
) -> None:
    for name in ("stays", "goes"):
        egpu("create", name, *LIGHT, "--pvc-ttl", "2h", "--watch", "--", "true")
    egpu("delete", "stays")
    egpu("delete", "goes", "--delete-pvc")
    lab.wait_gone("pvc", "artifacts-goes")
    lab.wait_gone("eaj", "stays")
    left = lab.get("pvc", "artifacts-stays")
    assert left is not None
    assert "ownerReferences" not in left["metadata"]
    assert "windlass.dev/expires-at" in left["metadata"]["annotations"]
    assert "0 deleted, 1 skipped" in egpu("cleanup", "-v").stdout


def test_cleanup_deletes_what_is_due_and_says_so(lab: Lab, egpu: Egpu, common_operator: Operator) -> None:
    common_operator.start()
    egpu("create", "due", *LIGHT, "--pvc-ttl", "1h", "--watch", "--", "true")
    assert "0 deleted, 1 skipped" in egpu("cleanup").stdout
    common_operator.stop()  # it would be quicker
    lab.kubectl("patch", "eaj", "due", "--type=merge", "-p", '{"spec":{"pvcTTLSecondsAfterFinished":0}}')
    assert "1 deleted, 0 skipped" in egpu("cleanup", "-v").stdout
    lab.wait_gone("pvc", "artifacts-due")


def test_a_laptops_clock_deletes_nothing_that_is_not_due(
    lab: Lab, operator: Operator, egpu: Egpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    egpu("create", "kept", *LIGHT, "--pvc-ttl", "1h", "--watch", "--", "true")
    shim = ClockShim(tmp_path)
    shim.shift(2 * 3600)
    for name, value in shim.environment().items():
        monkeypatch.setenv(name, value)
    assert "0 deleted, 1 skipped" in egpu("cleanup").stdout


def test_a_file_is_fetched_into_a_volume_before_its_job_and_the_job_finds_it(
    lab: Lab, operator: Operator, egpu: Egpu, cluster: KubeCluster
) -> None:
    if not isinstance(cluster, KubeCluster):
        pytest.skip("the pods of somebody else's cluster do not reach a server here")
    with served({"/cat.jpg": b"a cat\n"}, cluster.host) as url:
        copied = egpu("copy-file", "fed", f"{url}/cat.jpg")
        egpu("copy-file", "fed", f"{url}/cat.jpg", "--target-path", "d/cat.jpg")
        onto = egpu("copy-file", "fed", f"{url}/cat.jpg", "--target-path", "d", check=False)
        nowhere = egpu("copy-file", "other", f"{url}/dog.jpg", check=False)
        hostile = egpu("copy-file", "other", f"{url}/cat.jpg", "--target-path", "../../etc/passwd", check=False)
        words = egpu("copy-file", "other", "http://x/;reboot -O /x", check=False)
    assert all(done.returncode for done in (nowhere, hostile, words))
    lab.wait_gone("pvc", "artifacts-other")
    assert copied.stdout.startswith("/artifacts/input.jpg in artifacts-fed: 6 B")
    assert (onto.returncode, "/artifacts/d is a directory in the volume" in onto.stderr) == (1, True), onto.stderr
    claim = lab.get("pvc", "artifacts-fed")
    assert claim is not None
    assert "windlass.dev/expires-at" in claim["metadata"]["annotations"]
    wait_for(lambda: lab.items("pods") == [], 120, "the helpers to go")
    done = egpu("create", "fed", *LIGHT, "--watch", "--", "sh", "-c", "cat /artifacts/input.jpg; ls -A /artifacts/d")
    assert done.stdout.endswith("a cat\ncat.jpg\n")


def test_several_kubeconfigs_are_one_and_context_and_namespace_choose_in_it(lab: Lab, tmp_path: Path) -> None:
    """As with kubectl: of one name the first counts, also of the current context; a file that is not there is none."""
    lab.apply("here", suspend=True)
    document = yaml.safe_load(lab.cluster.kubeconfig.read_text())
    context = document["contexts"][0]["context"]
    away = {"name": "away", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}}
    first = {"contexts": [{"name": "away", "context": {"cluster": "away", "user": document["users"][0]["name"]}}]}
    first |= {"current-context": "away", "clusters": [away]}
    second = {**document, "contexts": [{"name": "lab", "context": {**context, "namespace": lab.namespace}}]}
    second |= {"current-context": "lab"}
    files = [tmp_path / "absent", tmp_path / "first", tmp_path / "deep" / "second"]
    files[2].parent.mkdir()
    (tmp_path / "deep" / "ca.crt").write_bytes(lab.cluster.authority.read_bytes())
    del second["clusters"][0]["cluster"]["certificate-authority-data"]
    second["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"  # beside the file it stands in
    for file, content in zip(files[1:], (first, second), strict=True):
        file.write_text(yaml.safe_dump(content))

    def listed(*options: str, home: str = "", some: Sequence[Path] = files) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", "from windlass.boot.entry import egpu; egpu()", *options, "list"]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src", "KUBECONFIG": ":".join(map(str, some))}
        environment |= {"WINDLASS_HOME": home} if home else {}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    assert "here" in listed("--context", "lab").stdout
    assert "here" not in listed("--context", "lab", "-n", "default").stdout
    assert "here" in listed(home="kubernetes", some=files[2:]).stdout
    assert "does not answer" in listed("-n", lab.namespace).stderr  # the first file's context is the current one
    unknown = listed("--context", "nobody")
    assert unknown.returncode != 0
    assert "nobody" in unknown.stderr


def test_a_job_that_no_operator_has_looked_at_says_so_and_no_longer_when_one_has(
    lab: Lab, own_operator: Callable[..., Operator]
) -> None:
    lab.apply("alone", suspend=True)
    assert lab.status("alone") == {"phase": "Pending"}, "which the API server puts there by itself"
    client = KubeClient(read_config(lab.cluster.kubeconfig), namespace=lab.namespace)
    assert f"must name {lab.namespace}" in client.unseen("alone")
    own_operator().start()
    lab.wait_status("alone", reason="Suspended")
    assert client.unseen("alone") == ""
    client.close()


def test_a_list_of_a_namespace_that_is_not_there_says_so(lab: Lab, egpu: Egpu) -> None:
    assert "no jobs yet" in egpu("list").stderr
    done = egpu("-n", "nosuch", "list", check=False)
    assert (done.returncode, "there is no namespace nosuch" in done.stderr) == (3, True), done.stderr
