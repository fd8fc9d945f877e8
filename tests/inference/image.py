"""The inference image, built on the spot where none can be pulled: the example's own Dockerfile on a base made of Debian packages.

    Debian's python3 and pip (apt's download of the closure, unpacked) + the wheels of requirements.txt  ->  base
    examples/inference/Dockerfile with BASE=<that>, without network                                      ->  the image

Needs no root and no debootstrap. What took long is kept in a cache named by everything it was made from, so a change of
the recipe makes a new one and the second run only loads it. `build_inference_image` is for every test that wants a job
with a known answer.
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.parts import present
from tests.parts.cache import cache_directory
from tests.parts.engine_api import EngineApi, EngineRefused

EXAMPLE = Path(__file__).parents[2] / "examples" / "inference"
REPOSITORY = "windlass-test/inference"
BASE = "windlass-test/inference-base"
DEADLINE_SECONDS = 800
KEPT = 2  # of each kind: this recipe and the one before, so that going back and forth builds nothing

DEBIAN_PACKAGES = ("python3", "python3-pip", "libstdc++6", "libgcc-s1")
UNWANTED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian")
IN_BASE = ("ENV PIP_NO_INDEX=1", "ENV PIP_FIND_LINKS=/wheels", "ENV PATH=/usr/local/bin:/usr/bin:/bin")


def build_inference_image(engine: EngineApi) -> str:
    """The tag of the inference image, present in `engine`."""
    recipe = _digest_of(_recipe_files())
    tag = f"{REPOSITORY}:{recipe}"
    with _cached("image", recipe, lambda directory: _build(engine, tag, directory / "image.tar")) as directory:
        _tell(engine, "/images/load", {"quiet": "1"}, (directory / "image.tar").read_bytes())
    return tag


def inference_archive(engine: Callable[[], EngineApi]) -> tuple[str, Path]:
    """The tag and the archive of the image, for whoever loads it elsewhere; an engine is asked for only to build it."""
    recipe = _digest_of(_recipe_files())
    tag = f"{REPOSITORY}:{recipe}"
    with _cached("image", recipe, lambda directory: _build(engine(), tag, directory / "image.tar")) as directory:
        return tag, directory / "image.tar"


def python_packages() -> Path:
    """A directory with the wheels of requirements.txt installed for the interpreter that runs the tests."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    recipe = f"{version}-{_digest_of([EXAMPLE / 'requirements.txt'])}"
    with _cached("packages", recipe, lambda directory: _pip("install", "--target", str(directory))) as directory:
        return directory


def python_base() -> Path:
    """The archive of a root filesystem with Debian's Python and nothing of ours."""
    recipe = _digest_of([EXAMPLE / "requirements.txt", Path(__file__)])
    with _cached("base", recipe, lambda directory: _make_base(directory / "base.tar")) as directory:
        return directory / "base.tar"


def _build(engine: EngineApi, tag: str, archive: Path) -> None:
    recipe = _digest_of([EXAMPLE / "requirements.txt", Path(__file__)])
    with _cached("base", recipe, lambda directory: _make_base(directory / "base.tar")) as directory:
        rootfs = (directory / "base.tar").read_bytes()
    changes = "\n".join(IN_BASE)
    _tell(engine, "/images/create", {"fromSrc": "-", "repo": BASE, "tag": recipe, "changes": changes}, rootfs)
    query = {"t": tag, "networkmode": "none", "buildargs": {"BASE": f"{BASE}:{recipe}"}, "rm": True, "forcerm": True}
    _tell(engine, "/build", query, _context())
    archive.write_bytes(engine.call("GET", f"/images/{quote(tag, safe='')}/get", timeout=DEADLINE_SECONDS))


def _tell(engine: EngineApi, path: str, query: dict[str, Any], archive: bytes) -> None:
    """POST an archive. These routes answer 200 first and tell of a failure in the stream of progress that follows."""
    progress = engine.call("POST", path, query=query, body=archive, timeout=DEADLINE_SECONDS)
    told = [json.loads(line) for line in progress.splitlines() if line.strip()]
    said = "".join(message.get("stream", "") for message in told)
    for message in told:
        if "error" in message:
            raise EngineRefused(200, f"{path}: {said[-2000:]}{message['error']}")


def _context() -> bytes:
    """The build context, in the words of .dockerignore: the recipe's files and no other."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as context:
        for path in _recipe_files():
            if path.is_relative_to(EXAMPLE):
                context.add(path, arcname=str(path.relative_to(EXAMPLE)), recursive=False)
    return stream.getvalue()


def _recipe_files() -> list[Path]:
    program = sorted((EXAMPLE / "infer").glob("*.py"))
    return [EXAMPLE / "Dockerfile", EXAMPLE / "requirements.txt", *program, Path(__file__)]


def _make_base(archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        rootfs = Path(scratch, "rootfs")
        rootfs.mkdir()
        for package in _download_packages(Path(scratch)):
            subprocess.run([present.program("dpkg-deb"), "-x", package, rootfs], check=True, timeout=800)
        for directory in UNWANTED:
            shutil.rmtree(rootfs / directory, ignore_errors=True)
        python = os.readlink(rootfs / "usr" / "bin" / "python3")  # "python3.11": the wheels are this one's
        _pip("download", "--dest", str(rootfs / "wheels"), "--python-version", python.removeprefix("python"))
        (rootfs / "tmp").mkdir(mode=0o1777, exist_ok=True)
        with tarfile.open(archive, "w") as tar:
            tar.add(rootfs, arcname=".", filter=_owned_by_root)


def _download_packages(scratch: Path) -> list[Path]:
    """The packages and all they depend on, checked by apt against the signed lists, as if nothing were installed."""
    archives, lists = scratch / "archives", scratch / "lists"
    (archives / "partial").mkdir(parents=True)
    (lists / "partial").mkdir(parents=True)
    (scratch / "status").touch()
    apt = [
        present.program("apt-get"), "-qq", "-y", "--no-install-recommends",
        "-o", f"Dir::State::status={scratch / 'status'}", "-o", f"Dir::Cache::archives={archives}",
        "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
        "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root",
    ]  # fmt: skip
    install = ["--download-only", "install", *DEBIAN_PACKAGES]
    done = subprocess.run([*apt, *install], capture_output=True, text=True, timeout=800)
    if done.returncode:  # the machine's own lists are absent or old: fetch fresh ones, without touching those
        own_lists = ["-o", f"Dir::State::lists={lists}"]
        subprocess.run([*apt, *own_lists, "update"], capture_output=True, timeout=800)
        done = subprocess.run([*apt, *own_lists, *install], capture_output=True, text=True, timeout=800)
    if done.returncode:
        raise RuntimeError(f"apt-get could not download {', '.join(DEBIAN_PACKAGES)}: {done.stderr.strip()}")
    return sorted(archives.glob("*.deb"))


def _pip(command: str, *arguments: str) -> None:
    flags = [
        "--quiet",
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--requirement",
        str(EXAMPLE / "requirements.txt"),
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", command, *flags, *arguments],
        check=True,
        timeout=800,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"},
    )


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _digest_of(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _cached(kind: str, recipe: str, make: Callable[[Path], None]) -> Iterator[Path]:
    """The directory `make` filled, now or in an earlier run; whole or absent, also when two test processes race for it."""
    home = cache_directory("inference", kind)
    with (home / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        directory = home / f"made-{recipe}"
        if not directory.is_dir():
            with tempfile.TemporaryDirectory(dir=home, prefix="making-") as scratch:
                unfinished = Path(scratch, "made")
                unfinished.mkdir()
                make(unfinished)
                unfinished.rename(directory)
        os.utime(directory)
        for old in sorted(home.glob("made-*"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            shutil.rmtree(old)
        yield directory
