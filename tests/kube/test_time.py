"""Times-to-live on a real cluster: each at its own time, never early, also when a clock is wrong."""

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from tests.chaos.clock_shim import ClockShim
from tests.kube.lab import Lab
from tests.kube.operator import Operator

EIGHT_DAYS = 8 * 86_400


def go_through_every_loop(lab: Lab, name: str) -> None:
    """A job whose parts go at once: when they are gone, whatever else was due is gone too."""
    lab.kubectl("annotate", "eaj", "precious", f"looked/at={name}", "--overwrite")
    lab.shell(name, "true", pvcTTLSecondsAfterFinished=0)
    lab.wait_status(name, phase="Succeeded")
    lab.wait_gone("pod", f"{name}-1")
    lab.wait_gone("pvc", f"artifacts-{name}")


def test_a_clock_that_jumps_eight_days_deletes_nothing_also_over_a_restart(
    lab: Lab, own_operator: Callable[..., Operator], tmp_path: Path
) -> None:
    shim = ClockShim(tmp_path)
    operator = own_operator(environ=shim.environment()).start()
    lab.shell("precious", "true", ttlSecondsAfterFinished=3600, pvcTTLSecondsAfterFinished=3600)
    lab.wait_status("precious", phase="Succeeded")
    shim.shift(EIGHT_DAYS)
    go_through_every_loop(lab, "forward")
    assert lab.get("pod", "precious-1") is not None
    assert lab.get("pvc", "artifacts-precious") is not None
    operator.kill()
    operator.start()
    go_through_every_loop(lab, "anew")
    assert lab.get("pod", "precious-1") is not None
    assert lab.get("pvc", "artifacts-precious") is not None
    finished = lab.status("anew")["finishedAt"]
    assert datetime.fromisoformat(finished.replace("Z", "+00:00")).timestamp() < time.time() + 60


@pytest.mark.soak
def test_a_pod_stays_for_twenty_seconds_and_its_volume_for_thirty(lab: Lab, operator: Operator) -> None:
    lab.shell("timed", "true", ttlSecondsAfterFinished=20, pvcTTLSecondsAfterFinished=30)
    status = lab.wait_status("timed", phase="Succeeded")
    finished = datetime.fromisoformat(status["finishedAt"].replace("Z", "+00:00")).timestamp()
    lab.wait_gone("pod", "timed-1")
    assert time.time() - finished >= 20, "the pod went early"
    lab.wait_gone("pvc", "artifacts-timed")
    assert time.time() - finished >= 30, "the volume went early"
    assert lab.status("timed")["phase"] == "Succeeded"
