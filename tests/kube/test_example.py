"""The example, as its page says; only the image's name is another where none can be pulled."""

from pathlib import Path

from tests.kube.lab import Egpu, Lab
from tests.kube.operator import ROOT, Operator
from tests.parts import busybox

EXAMPLE = ROOT / "examples" / "kubernetes" / "job.yaml"


def test_the_example_runs_by_kubectl_and_its_answer_comes_home(
    lab: Lab, operator: Operator, egpu: Egpu, tmp_path: Path
) -> None:
    lab.kubectl("apply", "-f", "-", stdin=EXAMPLE.read_text().replace("busybox:1.37", busybox.IMAGE))
    lab.kubectl("wait", "--for=condition=Complete", "eaj/answer", "--timeout=100s")
    assert "Succeeded" in lab.kubectl("get", "eaj", "answer", "-o", "wide")
    assert egpu("logs", "answer").stdout == "computing\n"
    egpu("download", "answer", "output.json")
    assert (tmp_path / "output.json").read_text() == "42\n"
    lab.kubectl("delete", "eaj", "answer")
    lab.wait_gone("pvc", "artifacts-answer")
