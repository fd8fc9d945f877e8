"""crictl, which Debian does not have: built once from its Go module into the test cache."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.parts.cache import cache_directory

VERSION = "v1.36.0"


def crictl() -> Path:
    """The binary. Where there is no Go to build it, the test is left out, loudly."""
    binary = cache_directory("crictl") / f"crictl-{VERSION}"
    if not binary.exists():
        go = shutil.which("go")
        if go is None:
            pytest.skip(f"NO GO ON THIS MACHINE: crictl {VERSION} cannot be built, its tests are left out")
        _build(go, binary)
    return binary


def _build(go: str, binary: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="wl-crictl-") as folder:
        module = Path(folder)
        (module / "go.mod").write_text("module windlass.test/crictl\n\ngo 1.24\n")
        # A package that needs it, or `go mod tidy` would find nothing to do.
        (module / "tools.go").write_text(
            '//go:build tools\n\npackage tools\n\nimport _ "sigs.k8s.io/cri-tools/cmd/crictl"\n'
        )
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
        steps = (
            ["get", f"sigs.k8s.io/cri-tools@{VERSION}"],
            ["mod", "tidy"],
            ["build", "-o", str(module / "crictl"), "sigs.k8s.io/cri-tools/cmd/crictl"],
        )
        for step in steps:
            subprocess.run([go, *step], cwd=module, env=environment, check=True, capture_output=True, timeout=900)
        # Renamed into place: a run at the same time sees all of it or nothing.
        shutil.copy2(module / "crictl", binary.with_suffix(".new"))
        binary.with_suffix(".new").rename(binary)
