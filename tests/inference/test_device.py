"""Which device a run uses, and that it never names another. The GPU is pretended; what is chosen and said is the program's."""

from pathlib import Path

import pytest
from examples.inference.infer.failures import Exit
from tests.inference.expected import read_strictly
from tests.inference.workbench import Workbench

PRETENDED = Path(__file__).parent / "pretend_cuda"


@pytest.mark.parametrize("asked", ["1", "4", None])
def test_a_gpu_that_works_is_used_if_asked_for_and_if_nobody_said(bench: Workbench, asked: str | None) -> None:
    pretend(bench, "works", asked=asked)
    done = bench.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert "running resnet50 on device cuda:0\n" in done.stdout
    assert read_strictly(bench.output.read_bytes())["device"] == "cuda:0"


def test_a_job_that_asked_for_no_gpu_keeps_away_from_one_it_can_see(bench: Workbench) -> None:
    pretend(bench, "works", asked="0")
    assert bench.run().returncode == 0
    assert read_strictly(bench.output.read_bytes())["device"] == "cpu"


@pytest.mark.parametrize(
    ("cuda", "reason"), [("is dropped", "CUDA could not be loaded"), ("fails to open", "no CUDA-capable device")]
)
def test_a_gpu_that_does_not_work_is_as_good_as_none(bench: Workbench, cuda: str, reason: str) -> None:
    pretend(bench, cuda, asked="1")
    refused = bench.run()
    assert refused.returncode == Exit.GPU_MISSING
    assert reason in refused.stderr

    bench.variables["WINDLASS_ALLOW_CPU"] = "1"
    stood_in = bench.run()
    assert (stood_in.returncode, stood_in.stderr) == (0, "")
    assert "on device cpu, in place of the GPU that was asked for: " in stood_in.stdout
    assert reason in stood_in.stdout
    assert read_strictly(bench.output.read_bytes())["device"] == "cpu"


def test_a_gpu_that_fails_half_way_fails_the_run_and_no_cpu_steps_in(bench: Workbench) -> None:
    pretend(bench, "fails to run", asked="1")
    bench.variables["WINDLASS_ALLOW_CPU"] = "1"
    done = bench.run()
    assert done.returncode == Exit.INFERENCE_FAILED
    assert "stopped on cuda:0 (CUDA failure 2: out of memory)" in done.stderr
    assert not bench.output.exists()


def pretend(bench: Workbench, cuda: str, *, asked: str | None) -> None:
    bench.before_packages = PRETENDED
    bench.variables["PRETEND_CUDA"] = cuda
    bench.variables["WINDLASS_GPU"] = asked or ""  # an empty variable is an unset one
