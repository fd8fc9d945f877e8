"""CoreDNS, built once from its Go module into the test cache: the real one, with only the plugins that our nodes use.

All of its plugins would bring the clients of three clouds into the build.
"""

import os
import shutil
import sys
import tempfile
from fcntl import LOCK_EX, flock
from pathlib import Path

from tests.kube.golang import go_program, run_go
from tests.parts.cache import cache_directory
from tests.parts.failures import MissingPart, PartFailed

VERSION = "v1.15.0"
MODULE = "github.com/coredns/coredns"
PLUGINS = ("bind", "errors", "kubernetes", "ready")


def coredns() -> Path:
    """The binary. MissingPart where it is not and cannot be built."""
    given = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "coredns"
    if given.is_absolute() and given.exists():
        return given
    directory = cache_directory("coredns")
    binary = directory / f"coredns-{VERSION}"
    if binary.exists():
        return binary
    go = go_program()
    if go is None:
        raise MissingPart(f"NO GO ON THIS MACHINE: CoreDNS {VERSION} cannot be built, its tests are left out")
    with (directory / "lock").open("w") as lock:
        flock(lock, LOCK_EX)  # two runs at once: the second waits, and finds it made
        if not binary.exists():
            sys.stderr.write(f"\nbuilding CoreDNS {VERSION} from its Go module, once: two to five minutes\n")
            try:
                _build(go, binary)
            except PartFailed as failed:  # no module to be had: a cluster without names is still a cluster
                raise MissingPart(
                    f"CoreDNS {VERSION} CANNOT BE BUILT HERE, its tests are left out: {failed}"
                ) from failed
    return binary


def has_coredns() -> bool:
    try:
        return coredns().exists()
    except MissingPart:
        return False


def _build(go: str, binary: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="wl-coredns-") as folder:
        module = Path(folder)
        plugins = "\n".join(f'\t_ "{MODULE}/plugin/{name}"' for name in PLUGINS)
        (module / "go.mod").write_text("module windlass.test/coredns\n\ngo 1.24\n")
        (module / "main.go").write_text(
            f'package main\n\nimport (\n\t"{MODULE}/coremain"\n{plugins}\n)\n\nfunc main() {{ coremain.Run() }}\n'
        )
        run_go(go, module, "get", f"{MODULE}@{VERSION}")
        run_go(go, module, "mod", "tidy")
        run_go(go, module, "build", "-trimpath", "-ldflags", "-s -w", "-o", "coredns", ".")
        # Renamed into place: nobody sees half of it.
        shutil.copy2(module / "coredns", binary.with_suffix(".new"))
        binary.with_suffix(".new").rename(binary)
