"""Go, for the programs that Debian does not have."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.parts.failures import PartFailed

BUILD_DEADLINE_SECONDS = 3600


def go_program() -> str | None:
    return shutil.which("go")


def run_go(go: str, module: Path, *arguments: str) -> str:
    """What `go …` printed, run in the module's directory."""
    # Others may be at work on this machine: the build takes what they leave.
    command: Sequence[str] = ["nice", "-n", "10", go, *arguments]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false"}
    done = subprocess.run(
        command,
        cwd=module,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_DEADLINE_SECONDS,
        check=False,
    )
    if done.returncode:
        raise PartFailed(f"go {' '.join(arguments[:2])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout
