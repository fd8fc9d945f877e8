"""A hundred jobs at once on one node: all end right, nothing is left, and what it cost is printed."""

import json

import psutil
import pytest

from tests.kube.lab import Lab
from tests.kube.operator import Operator
from tests.parts import busybox
from tests.parts.waiting import wait_for

COUNT = 100
FAILING = 10


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_hundred_jobs_at_once_all_end_right(lab: Lab, operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    calls = operator.metric("windlass_operator_api_calls")
    jobs = [job(number) for number in range(COUNT)]
    lab.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": jobs}))

    def phases() -> list[str]:
        return [one.get("status", {}).get("phase", "") for one in lab.items("eaj")]

    wait_for(lambda: all(phase in ("Succeeded", "Failed") for phase in phases()), 900, "all jobs to end")
    assert (phases().count("Failed"), phases().count("Succeeded")) == (FAILING, COUNT - FAILING)
    wait_for(lambda: lab.items("pods") == [], 300, "their pods to go")
    assert {one["status"]["attempt"] for one in lab.items("eaj")} == {1}
    assert len(lab.items("configmaps")) == COUNT + 1  # and the cluster's own certificate
    calls = operator.metric("windlass_operator_api_calls") - calls
    resident = psutil.Process(operator.pid).memory_info().rss >> 20
    with capsys.disabled():
        print(f"\n{COUNT} jobs: {calls / COUNT:.1f} API calls a job, operator {resident} MiB resident")


def job(number: int) -> dict[str, object]:
    is_failing = number < FAILING
    spec = {
        "image": busybox.IMAGE,
        "command": ["sh", "-c", f"echo {number}; exit {3 if is_failing else 0}"],
        "resources": {"gpu": 0, "cpu": "10m", "memory": "16Mi"},
    }
    metadata = {"name": f"job-{number:03}"}
    return {"apiVersion": "windlass.dev/v1", "kind": "EphemeralAccelerationJob", "metadata": metadata, "spec": spec}
