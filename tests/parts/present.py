"""Which real parts this machine has, and what it means when one is missing.

`tools/parts` installs them as root on Debian, so there a missing part is a failure. Elsewhere the tests that need it are
left out; `tests/conftest.py` makes that difference.
"""

import os
import shutil
from pathlib import Path

from tests.parts.failures import MissingPart

# Servers live where a plain user's PATH does not look.
SEARCH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def program(name: str) -> str:
    """Where the program is; MissingPart when it is nowhere."""
    path = shutil.which(name, path=SEARCH)
    if path is None:
        raise MissingPart(f"{name} is not on this machine (tools/parts installs it as root on Debian)")
    return path


def need_root(part: str) -> None:
    """Parts that make mounts, cgroups and bridges ask for this first."""
    if os.geteuid() != 0:
        raise MissingPart(f"{part} is started as root only")


def must_be_complete() -> bool:
    """Root on Debian: `tools/parts` could install everything, so nothing may be missing."""
    return os.geteuid() == 0 and _distribution() == "debian"


def _distribution() -> str:
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return ""
    return dict(line.split("=", 1) for line in lines if "=" in line).get("ID", "").strip('"')
