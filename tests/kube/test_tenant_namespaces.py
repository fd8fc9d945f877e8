"""A namespace labelled with a tenant: what is made there runs when the tenant's server has admitted it, and not before."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.kube.lab import Lab
from tests.kube.operator import Operator
from tests.kube.served import ClusterServer
from tests.parts.waiting import wait_for

DEADLINE = 240
UNTIL_TOLD = "while [ ! -e /artifacts/go ]; do sleep 0.1; done; echo done"
FORGED = "is not what the server has admitted"
SMALL = {"gpu": 0, "cpu": "100m", "memory": "64Mi"}
COST_OF_TWO_SECONDS = 4
"""In micro-units, rounded up."""


@pytest.fixture
def runs(installed: Any, lab: Lab) -> Iterator[Lab]:
    """The server's own namespace, beside the tenant's."""
    with Lab(installed, f"{lab.namespace}-runs") as own:
        yield own


@pytest.fixture
def server(runs: Lab, lab: Lab, own_operator: Callable[..., Operator]) -> Iterator[ClusterServer]:
    """With an operator that knows its key; `lab` is of tenant `local`, which may have one job at a time and is refused the next."""
    lab.kubectl("label", "namespace", lab.namespace, "windlass.dev/tenant=local")
    with ClusterServer(runs, tenants=True) as running:
        said = running.cli("doctor", check=False).out
        key = next(line.split()[-1] for line in said.splitlines() if "release key" in line)
        with own_operator(release_key=key):
            running.cli("tenants", "quota", "local", "--jobs", "1", "--policy", "reject")
            yield running


def admitted(lab: Lab, name: str) -> dict[str, Any]:
    conditions = lab.status(name).get("conditions", [])
    found: dict[str, Any] = next((one for one in conditions if one["type"] == "Admitted"), {})
    return found


def jobs(server: ClusterServer) -> dict[str, dict[str, Any]]:
    """The server's, by the name of the object they stand for."""
    items = server.cli("get", "jobs", "--all", "-o", "json").json()["items"]
    return {one["metadata"]["labels"]["kubernetes.name"]: one for one in items}


def state(server: ClusterServer, name: str) -> str:
    """Empty while the server shows no such job."""
    return str(jobs(server).get(name, {}).get("status", {}).get("state", ""))


def test_what_is_over_quota_waits_with_its_numbers_and_runs_when_there_is_room(lab: Lab, server: ClusterServer) -> None:
    lab.shell("first", UNTIL_TOLD)
    lab.wait_status("first", phase="Running")
    lab.shell("second", "echo mine")
    status = lab.wait_status("second", reason="AwaitingAdmission")
    wait_for(lambda: "1 of 1" in admitted(lab, "second").get("message", ""), DEADLINE, "the numbers")
    assert admitted(lab, "second")["status"] == "False"
    assert status["phase"] == "Pending"
    assert lab.get("pod", "second-1") is None
    # A cluster tells of ends in whole seconds: what is to cost something there must run for more than one.
    wait_for(lambda: jobs(server)["first"]["status"].get("cost", 0) >= COST_OF_TWO_SECONDS, DEADLINE, "it to cost")
    lab.kubectl("exec", "first-1", "--", "touch", "/artifacts/go")
    assert lab.wait_status("second", phase="Succeeded", deadline=DEADLINE)["exitCode"] == 0
    assert admitted(lab, "second")["status"] == "True"
    for name in ("first", "second"):
        wait_for(lambda name=name: state(server, name) == "SUCCEEDED", DEADLINE, f"the end of {name}")  # type: ignore[misc]
    assert set(jobs(server)) == {"first", "second"}
    assert jobs(server)["first"]["status"]["cost"]


def test_nobody_runs_anything_there_without_the_server(lab: Lab, server: ClusterServer) -> None:
    """Neither by the spec, nor by a signature of another job or of nobody, nor by a status that says it has begun."""
    lab.shell("honest", "true")
    lab.wait_status("honest", phase="Succeeded", deadline=DEADLINE)
    honest = lab.get("eaj", "honest")
    assert honest is not None
    borrowed = honest["metadata"]["annotations"]["windlass.dev/release"]
    lab.apply("greedy", command=["true"], suspend=False, resources={**SMALL, "cpu": "4000"})
    lab.wait_status("greedy", reason="AwaitingAdmission")
    began = json.dumps({"status": {"phase": "Pending", "attempt": 1}})
    for number, forged in enumerate((borrowed, "e30.e30.e30")):
        lab.kubectl("annotate", "--overwrite", "eaj", "greedy", f"windlass.dev/release={forged}")
        lab.kubectl("patch", "eaj", "greedy", "--type=merge", "-p", '{"spec": {"suspend": false, "retries": 3}}')
        lab.kubectl("patch", "eaj", "greedy", "--type=merge", "--subresource=status", "-p", began)
        lab.shell(f"barrier-{number}", "true")  # admitted after all this, and by its end the operator has gone on
        lab.wait_status(f"barrier-{number}", phase="Succeeded", deadline=DEADLINE)
        wait_for(lambda: FORGED in lab.status("greedy").get("message", ""), DEADLINE, "the forgery to be seen")
        assert (lab.status("greedy")["phase"], lab.status("greedy")["reason"]) == ("Pending", "AwaitingAdmission")
        assert lab.get("pod", "greedy-1") is None
    assert state(server, "greedy") == ""


def test_who_withdraws_it_there_cancels_it_here_and_the_other_way_round(lab: Lab, server: ClusterServer) -> None:
    server.cli("tenants", "quota", "local", "--jobs", "1", "--policy", "queue")
    lab.shell("first", UNTIL_TOLD, graceSeconds=0, stdin=True)
    lab.wait_status("first", phase="Running")
    name = jobs(server)["first"]["metadata"]["name"]
    there = ("-n", lab.namespace)
    for asked, hint in (
        (("exec", name, "--", "ls", "a b"), ("kubectl", *there, "exec", "-it", "first-1", "--", "ls", "'a b'")),
        (("attach", name), ("kubectl", *there, "attach", "-it", "first-1")),
        (("download", name, "out.txt"), ("egpu", *there, "download", "first", "out.txt")),
        (("debug", name), ("egpu", *there, "debug", "first")),
    ):
        refused = server.cli(*asked, check=False)
        assert refused.code != 0
        assert "is reached there" in refused.err, refused
        assert " ".join(hint) in refused.err, refused
    lab.shell("second", "true")
    lab.shell("third", "true")
    wait_for(lambda: {"second", "third"} <= jobs(server).keys(), DEADLINE, "both to be accepted")
    lab.kubectl("delete", "eaj", "second")
    wait_for(lambda: state(server, "second") == "CANCELLED", DEADLINE, "the cancel to come here")
    server.cli("cancel", jobs(server)["third"]["metadata"]["name"])
    assert lab.wait_status("third", phase="Failed", deadline=DEADLINE)["reason"] == "Cancelled"
    server.cli("cancel", jobs(server)["first"]["metadata"]["name"])
    assert lab.wait_status("first", phase="Failed", deadline=DEADLINE)["reason"] == "Cancelled"
    wait_for(lambda: state(server, "first") == "CANCELLED", DEADLINE, "its end")


def test_a_server_killed_while_a_guest_runs_has_its_end_and_submits_it_once(lab: Lab, server: ClusterServer) -> None:
    lab.shell("steady", UNTIL_TOLD)
    lab.wait_status("steady", phase="Running", deadline=DEADLINE)
    server.kill()
    lab.kubectl("exec", "steady-1", "--", "touch", "/artifacts/go")
    lab.wait_status("steady", phase="Succeeded", deadline=DEADLINE)
    server.start()
    wait_for(lambda: state(server, "steady") == "SUCCEEDED", DEADLINE, "its end to be known")
    assert len(server.cli("get", "jobs", "--all", "-o", "json").json()["items"]) == 1
    assert lab.log("steady") == "done\n"
