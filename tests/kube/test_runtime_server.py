"""Jobs sent to a server run as pods of a cluster that is one of its pools: log, exit code, files, cancel, and kill -9."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.lab import Lab
from tests.kube.operator import Operator
from tests.kube.parts import NODE
from tests.kube.served import ClusterServer
from tests.kube.test_crashes import starts
from tests.parts.busybox import IMAGE
from tests.parts.waiting import wait_for

DEADLINE = 240
ONCE = "echo once >> /artifacts/starts"


@pytest.fixture(scope="module")
def home(installed: object, common_operator: Operator) -> Iterator[Lab]:
    common_operator.start()
    with Lab(installed, f"t-{secrets.token_hex(4)}") as namespace:
        yield namespace


@pytest.fixture(scope="module")
def server(home: Lab) -> Iterator[ClusterServer]:
    with ClusterServer(home, cpu="64") as running:  # more than there is: the scheduler is to have the last word
        yield running


@pytest.fixture(autouse=True)
def _operator(operator: Operator) -> None:
    """Another test may have stopped it."""


def state(server: ClusterServer, name: str) -> str:
    return str(server.job(name)["state"])


def test_a_job_runs_as_a_pod_and_its_log_exit_code_and_files_come_back(
    server: ClusterServer, home: Lab, tmp_path: Path
) -> None:
    content = secrets.token_bytes(300_000)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "in").write_bytes(content)
    script = "echo on $(cat /etc/hostname); echo oh >&2; mkdir out; cp in out/copy; exit 3"
    said = server.run(
        "there",
        script,
        "--project-dir",
        str(tmp_path / "project"),
        "--workdir",
        "/artifacts",
        "--ttl",
        "1h",
        check=False,
    )
    uid = server.cli("get", "job", "there", "-o", "json").json()["metadata"]["uid"]
    assert said.code == 3, said
    assert set(said.out.splitlines()) == {f"on run-{uid}-1-1", "oh"}, said  # a cluster merges the two streams
    assert (server.job("there")["reason"], server.job("there")["node"]) == ("ExitCode", "kubernetes")
    server.cli("download", "there", "out/copy", "-d", str(tmp_path))
    assert (tmp_path / "copy").read_bytes() == content
    job = home.get("eaj", f"run-{uid}-1")
    assert job is not None
    assert job["metadata"]["labels"]["windlass.dev/run"] == f"{uid}-1"
    pod = home.get("pod", f"run-{uid}-1-1")
    assert pod is not None
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": f"volume-{uid}"}


def test_a_queue_that_a_job_names_is_kueues_label_on_its_pod(server: ClusterServer, home: Lab) -> None:
    """Nobody here listens to it; that the API server takes it and the pod carries it is what Kueue needs."""
    spec = {
        "image": IMAGE,
        "command": ["true"],
        "pool": "kubernetes",
        "queueName": "team-a",
        "ttlSecondsAfterFinished": 3600,
    }
    spec["resources"] = {"cpu": "100m", "memory": "64Mi"}
    manifest = {"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {"name": "queued"}, "spec": spec}
    server.cli("apply", "-f", "-", input=json.dumps(manifest))
    wait_for(lambda: state(server, "queued") == "SUCCEEDED", DEADLINE, "its end")
    uid = server.cli("get", "job", "queued", "-o", "json").json()["metadata"]["uid"]
    pod = home.get("pod", f"run-{uid}-1-1")
    assert pod is not None
    assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"


def selecting(name: str, labels: dict[str, str], **more: object) -> str:
    spec = {"image": IMAGE, "command": ["true"], "nodeSelector": labels, "storageClass": "late", **more}
    spec["resources"] = {"cpu": "100m", "memory": "64Mi"}
    return json.dumps({"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})


def test_a_node_selector_is_the_clusters_to_satisfy_and_one_that_nobody_satisfies_is_said(
    server: ClusterServer, home: Lab, tmp_path: Path
) -> None:
    """Also by the pod that fills the volume: it may be the first to use it, and where that is the volume stays."""
    wanted = {f"windlass.test/{home.namespace}": "tape"}
    key = next(iter(wanted))
    (tmp_path / "input").write_text("in\n")
    server.cli("apply", "-f", "-", input=selecting("choosy", wanted, pool="kubernetes", suspend=True))
    server.cli("cp", str(tmp_path / "input"), "choosy:input")
    server.cli("release", "choosy")
    uid = server.cli("get", "job", "choosy", "-o", "json").json()["metadata"]["uid"]
    assert home.wait_there("pod", f"volume-{uid}-files")["spec"]["nodeSelector"] == wanted
    server.cli("apply", "-f", "-", input=selecting("patient", wanted, pool="kubernetes"))
    words = f"Unschedulable: it asks for nodes labelled {key}=tape: 0/1 nodes are available"
    wait_for(lambda: words in server.job("patient").get("progress", ""), DEADLINE, "the scheduler's words")
    assert state(server, "patient") == "STARTING"
    home.cluster.kubectl("label", "node", NODE, f"{key}=tape")
    try:
        for name in ("choosy", "patient"):
            wait_for(lambda name=name: state(server, name) == "SUCCEEDED", DEADLINE, f"the end of {name}")  # type: ignore[misc]
    finally:
        home.cluster.kubectl("label", "node", NODE, f"{key}-")


def test_the_cluster_is_a_pool_and_a_node_beside_the_machines_own(server: ClusterServer) -> None:
    nodes = {node["name"]: node for node in server.cli("get", "nodes", "-o", "json").json()["items"]}
    assert {node["pool"] for node in nodes.values()} == {"local", "kubernetes"}
    assert nodes["kubernetes"]["runtime"].startswith("kubernetes v")
    assert nodes["kubernetes"]["capacity"]["cpu"] == "64"
    assert nodes["kubernetes"]["capacity"]["memory"] != "0"
    said = server.cli("run", "--name", "here", "--pool", "local", "--", "sh", "-c", "echo here")
    assert said.out == "here\n"
    assert server.job("here")["node"] != "kubernetes"
    assert "✓ kubernetes" in server.cli("doctor", check=False).out


def test_a_cancelled_job_is_asked_to_end_and_keeps_its_last_words(server: ClusterServer, home: Lab) -> None:
    server.run("long", "trap 'echo bye; exit 0' TERM; echo ready; sleep 600 & wait", "-d")
    wait_for(lambda: server.cli("logs", "long").out == "ready\n", DEADLINE, "its first line")
    server.cli("cancel", "long")
    wait_for(lambda: state(server, "long") == "CANCELLED", DEADLINE, "CANCELLED")
    assert server.cli("logs", "long").out == "ready\nbye\n"
    assert server.job("long")["message"] == "cancelled on request"
    uid = server.cli("get", "job", "long", "-o", "json").json()["metadata"]["uid"]
    assert "Cancelled" in wait_for(lambda: home.events(f"run-{uid}-1") - {"Suspended", "Started"}, DEADLINE, "its end")


def test_a_job_that_stops_reading_a_large_input_ends_with_its_own_code(server: ClusterServer) -> None:
    """Its connection may break off with it: what was not heard then is in its log, and that is said."""
    given = ("--cpu", "100m", "--memory", "64Mi", IMAGE, "--", "sh", "-c", "head -n 1; echo enough; exit 2")
    for name in ("head-1", "head-2", "head-3"):
        said = server.cli(
            "run",
            "-i",
            "--name",
            name,
            "--pool",
            "kubernetes",
            *given,
            check=False,
            timeout=240,
            input="y\n" * 5_000_000,
        )
        assert said.code == 2, said
        assert said.out == "y\nenough\n" or "its log has all that it printed" in said.err, said
        assert server.cli("logs", name).out == "y\nenough\n"


def test_what_finds_no_room_says_the_schedulers_words_and_can_be_cancelled(server: ClusterServer) -> None:
    server.run("vast", "true", "--cpu", "60", "-d")
    wait_for(lambda: "nsufficient cpu" in server.job("vast").get("progress", ""), DEADLINE, "the scheduler's words")
    assert state(server, "vast") == "STARTING"
    server.cli("cancel", "vast")
    wait_for(lambda: state(server, "vast") == "CANCELLED", DEADLINE, "CANCELLED")


def test_what_goes_wrong_on_the_cluster_has_its_name_on_the_server(server: ClusterServer, home: Lab) -> None:
    server.cli(
        "run",
        "-d",
        "--name",
        "greedy",
        "--pool",
        "kubernetes",
        "--cpu",
        "100m",
        "--memory",
        "64Mi",
        IMAGE,
        "--",
        *GREED,
    )
    server.cli("run", "-d", "--name", "imageless", "--pool", "kubernetes", "127.0.0.1:9/nowhere:1", "--", "true")
    server.run("robbed", "echo ready; sleep 600", "-d")
    wait_for(lambda: server.cli("logs", "robbed").out == "ready\n", DEADLINE, "its first line")
    uid = server.cli("get", "job", "robbed", "-o", "json").json()["metadata"]["uid"]
    home.kubectl("delete", "pod", f"run-{uid}-1-1", "--grace-period=0", "--force")
    for name, reason in (("greedy", "OOMKilled"), ("imageless", "ImagePull"), ("robbed", "PodDeleted")):
        wait_for(lambda name=name: state(server, name) == "FAILED", DEADLINE, f"{name} to fail")  # type: ignore[misc]
        assert server.job(name)["reason"] == reason


GREED = ("dd", "if=/dev/zero", "of=/dev/null", "bs=256M")


@pytest.mark.parametrize("place", ["agent.after_create_before_start", "agent.after_start_before_report"])
def test_a_server_killed_around_the_start_starts_it_once(lab: Lab, place: str) -> None:
    with ClusterServer(lab, environ={"WINDLASS_FAILPOINTS": f"{place}=kill@1"}) as server:
        server.run("survivor", ONCE, "-d")
        wait_for(lambda: not server.is_running, DEADLINE, f"the server to die at {place}")
        server.extra = {}
        server.start()
        ran_once(server, lab, "survivor")


def test_a_server_killed_in_mid_run_has_its_end_and_all_its_lines(lab: Lab, tmp_path: Path) -> None:
    with ClusterServer(lab) as server:
        server.run("survivor", f"{ONCE}; echo one; while [ ! -e /artifacts/go ]; do sleep 0.1; done; echo two", "-d")
        wait_for(lambda: server.cli("logs", "survivor").out == "one\n", DEADLINE, "its first line")
        server.kill()
        uid = next(iter(lab.items("eajs")))["metadata"]["labels"]["windlass.dev/volume"]
        pod = f"run-{uid}-1-1"
        lab.kubectl("exec", pod, "--", "touch", "/artifacts/go")
        server.start()
        ran_once(server, lab, "survivor")
        assert server.cli("logs", "survivor").out == "one\ntwo\n"


def ran_once(server: ClusterServer, lab: Lab, name: str) -> None:
    wait_for(lambda: state(server, name) == "SUCCEEDED", DEADLINE, "its end")
    assert server.job(name)["attempt"] == 1
    uid = server.cli("get", "job", name, "-o", "json").json()["metadata"]["uid"]
    wait_for(lambda: starts(lab, f"run-{uid}-1-1"), DEADLINE, "the kubelet's word of its start")
    assert starts(lab, f"run-{uid}-1-1") == 1
    server.cli("download", name, "starts", "-d", str(server.directory))
    assert (server.directory / "starts").read_text() == "once\n"
