"""The example's papers say what the program does: settings, manifest, pins."""

import re
import subprocess
import sys

import pytest
from tests.inference.image import EXAMPLE

from windlass.wire.documents import read_yaml
from windlass.wire.job import read_manifest

PINNED = re.compile(r"[a-z0-9][a-z0-9.-]*==[0-9][0-9.]*( --hash=sha256:[0-9a-f]{64})+")


def test_the_readme_documents_every_setting() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "infer", "--help"],
        env={"PYTHONPATH": str(EXAMPLE)},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    flags = set(re.findall(r"^  --([a-z0-9-]+) ", shown.stdout, re.MULTILINE))
    rows = re.findall(r"^\| `WINDLASS_([A-Z0-9_]+)` \|", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    assert {name.lower().replace("_", "-") for name in rows} == flags


def test_the_manifest_is_one_that_windlass_takes() -> None:
    (document,) = read_yaml((EXAMPLE / "job.yaml").read_bytes())
    job = read_manifest(document, runtime="container")
    assert (job.kind, job.spec.model, job.spec.needs.gpus) == ("EphemeralAccelerationJob", "resnet50", 0)
    assert (job.spec.input_path, job.spec.output_path) == ("/artifacts/input.jpg", "/artifacts/output.json")
    assert not job.spec.wants_network


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-gpu.txt"])
def test_every_package_is_pinned_with_its_hashes_and_no_index_is_named(name: str) -> None:
    text = re.sub(r"^#.*\n", "", (EXAMPLE / name).read_text(), flags=re.MULTILINE)
    requirements = re.sub(r"\s*\\\n\s*", " ", text).split("\n")
    for requirement in filter(None, requirements):
        assert PINNED.fullmatch(requirement), requirement
    assert any(requirement.startswith("onnxruntime") for requirement in requirements)
