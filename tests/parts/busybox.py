"""A small image made on the spot: nothing can be pulled where the tests run.

The archive has the form of `docker save`, which Docker, Podman, containerd and skopeo all read, and it is the same to the
byte each time: the same image has the same id on every node.
"""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.parts import present

IMAGE = "windlass-test/busybox:1"

_DIRECTORIES = {
    "bin": 0o755,
    "dev": 0o755,
    "etc": 0o755,
    "proc": 0o755,
    "root": 0o700,
    "sys": 0o755,
    "tmp": 0o1777,
    "usr": 0o755,
}
_FILES = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
}


def image_archive(
    tag: str = IMAGE, *, files: Mapping[str, bytes] | None = None, command: tuple[str, ...] = ("sh",)
) -> bytes:
    """The image as a `docker save` archive; extra `files` (path → content) make another image, with another id."""
    layer = _layer(tuple(sorted((files or {}).items())))
    diff_id = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": _architecture(),
            "config": {"Cmd": list(command), "Env": ["PATH=/bin"], "WorkingDir": "/"},
            "created": "2024-01-01T00:00:00Z",
            "history": [{"created": "2024-01-01T00:00:00Z", "created_by": "windlass tests"}],
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]},
        },
        sort_keys=True,
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [tag], "Layers": [f"{diff_id}/layer.tar"]}]).encode()
    return _tar({config_name: config, f"{diff_id}/layer.tar": layer, "manifest.json": manifest})


def image_id(*, files: Mapping[str, bytes] | None = None) -> str:
    """The id every engine gives the image: the digest of its configuration."""
    with tarfile.open(fileobj=io.BytesIO(image_archive(files=files))) as archive:
        name = next(member.name for member in archive if member.name.endswith(".json") and len(member.name) == 69)
    return f"sha256:{name.removesuffix('.json')}"


@cache
def _layer(extra: tuple[tuple[str, bytes], ...]) -> bytes:
    binary = Path(present.program("busybox"))
    applets = subprocess.run([binary, "--list"], capture_output=True, text=True, check=True).stdout.split()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, mode in _DIRECTORIES.items():
            tar.addfile(_entry(name, type=tarfile.DIRTYPE, mode=mode))
        # Scripts may say /usr/bin/env or /sbin/ip.
        for name in ("sbin", "usr/bin", "usr/sbin"):
            tar.addfile(_entry(name, type=tarfile.SYMTYPE, linkname="../bin" if "/" in name else "bin"))
        _add(tar, "bin/busybox", binary.read_bytes(), mode=0o755)
        for applet in sorted(set(applets) - {"busybox"}):
            tar.addfile(_entry(f"bin/{applet}", type=tarfile.SYMTYPE, linkname="busybox"))
        for name, content in [*_FILES.items(), *extra]:
            _add(tar, name, content, mode=0o644)
    return out.getvalue()


def _tar(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files.items():
            _add(tar, name, content, mode=0o644)
    return out.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int) -> None:
    entry = _entry(name, mode=mode)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _entry(name: str, *, type: bytes = tarfile.REGTYPE, mode: int = 0o777, linkname: str = "") -> tarfile.TarInfo:  # noqa: A002
    entry = tarfile.TarInfo(name)  # owner root, time 0: nothing of this machine gets into the digest
    entry.type, entry.mode, entry.linkname = type, mode, linkname
    return entry


@cache
def _architecture() -> str:
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
