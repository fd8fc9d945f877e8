"""The programs of a Kubernetes node, which Debian does not have: built once from their Go modules into the test cache.

`make kube`, and so `make test`, runs this first: it is longer than a test may take. A module of our own requires
`k8s.io/kubernetes` and replaces its staging repositories, which the released module points at by relative paths, by their
published versions.
"""

import os
import shutil
import sys
import tempfile
from fcntl import LOCK_EX, flock
from pathlib import Path

from tests.images.crictl import crictl
from tests.kube.coredns import coredns
from tests.kube.golang import go_program, run_go
from tests.parts.cache import cache_directory
from tests.parts.failures import MissingPart

VERSION = "1.36.4"
LIGHT = ("kube-apiserver", "kube-controller-manager")
NODE = ("kube-scheduler", "kubelet", "kube-proxy", "kubectl")


def kube_binaries() -> Path:
    """The directory with all of them. MissingPart where they are not and there is no Go to build them."""
    if named := _named():
        return named
    directory = cache_directory("kube") / f"v{VERSION}"
    if not has_all(directory):
        _build_once(directory)
    return directory


def has_all(directory: Path) -> bool:
    return all((directory / name).exists() for name in (*LIGHT, *NODE, "crictl"))


def can_have() -> bool:
    """Whether a cluster is to be had here, be it after a build."""
    return bool(_named() or has_all(cache_directory("kube") / f"v{VERSION}") or go_program() is not None)


def _named() -> Path | None:
    """KUBEBUILDER_ASSETS, if a node can be made of them: envtest's own have no kubelet, and then ours are taken."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(named) if named and has_all(Path(named)) else None


def _build_once(directory: Path) -> None:
    go = go_program()
    if go is None:
        raise MissingPart(f"NO GO ON THIS MACHINE: Kubernetes v{VERSION} cannot be built, its tests are left out")
    with (cache_directory("kube") / "lock").open("w") as lock:
        flock(lock, LOCK_EX)  # two runs at once: the second waits, and finds it made
        if has_all(directory):
            return
        sys.stderr.write(f"\nbuilding Kubernetes v{VERSION} from its Go modules, once: ten to twenty minutes\n")
        with tempfile.TemporaryDirectory(prefix="wl-kube-") as folder:
            _build(go, Path(folder))
            shutil.copy2(crictl(), Path(folder, "out", "crictl"))
            # Renamed into place whole: nobody sees half of it.
            fresh = Path(tempfile.mkdtemp(prefix="new-", dir=directory.parent))
            shutil.copytree(Path(folder, "out"), fresh, dirs_exist_ok=True)
            shutil.rmtree(directory, ignore_errors=True)
            fresh.rename(directory)


def _build(go: str, module: Path) -> None:
    packages = [f"k8s.io/kubernetes/cmd/{name}" for name in (*LIGHT, *NODE)]
    (module / "go.mod").write_text("module windlass.test/kube\n\ngo 1.24\n")
    # A package that needs them, or `go mod tidy` would find nothing to do.
    imports = "\n".join(f'\t_ "{package}"' for package in packages)
    (module / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\nimport (\n{imports}\n)\n")
    run_go(go, module, "mod", "edit", f"-require=k8s.io/kubernetes@v{VERSION}", *_replacements(go, module))
    run_go(go, module, "mod", "tidy", "-e")
    numbers = {"gitVersion": f"v{VERSION}", "gitMajor": VERSION.split(".")[0], "gitMinor": VERSION.split(".")[1]}
    flags = [
        f"-X {package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in numbers.items()
    ]
    (module / "out").mkdir()
    run_go(go, module, "build", "-trimpath", "-ldflags", " ".join(["-s -w", *flags]), "-o", "out/", *packages)


def _replacements(go: str, module: Path) -> list[str]:
    """`k8s.io/api => ./staging/src/k8s.io/api` in its go.mod becomes the version of the same release."""
    told = run_go(go, module, "mod", "download", "-json", f"k8s.io/kubernetes@v{VERSION}")
    path = next(line.split('"')[3] for line in told.splitlines() if '"GoMod"' in line)
    staged = [line.split("=>")[0].split()[-1] for line in Path(path).read_text().splitlines() if "=> ./staging" in line]
    return [f"-replace={name}={name}@v0.{VERSION.partition('.')[2]}" for name in staged]


if __name__ == "__main__":
    try:
        kube_binaries()
        coredns()
    except MissingPart as missing:
        sys.stderr.write(f"· {missing}\n")
