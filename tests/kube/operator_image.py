"""The operator's image where none can be pulled: Debian's Python, our source, and the packages it needs from this environment."""

import hashlib
import importlib.metadata
import io
import json
import tarfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tests.inference.image import python_base
from tests.kube.operator import ROOT

IMAGE = "windlass-test/operator:1"
_COMMAND = b"#!/usr/bin/python3\nfrom windlass.boot.entry import windlass\nwindlass()\n"


def operator_archive() -> bytes:
    """In the form of `docker save`."""
    layers = [python_base().read_bytes(), _application()]
    digests = [hashlib.sha256(layer).hexdigest() for layer in layers]
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONPATH=/opt/windlass"], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    ).encode()
    names = [f"{digest}/layer.tar" for digest in digests]
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [IMAGE], "Layers": names}]).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in [("config.json", config), *zip(names, layers, strict=True), ("manifest.json", manifest)]:
            _add(tar, name, content, 0o644)
    return out.getvalue()


def _application() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in sorted(_needed()):
            for file in importlib.metadata.distribution(name).files or []:
                path = Path(str(file.locate()))
                if not str(file).startswith("..") and path.is_file() and path.suffix != ".pyc":
                    _add(tar, f"opt/windlass/{file}", path.read_bytes(), 0o755)
        for path in sorted((ROOT / "src" / "windlass").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                _add(tar, f"opt/windlass/{path.relative_to(ROOT / 'src')}", path.read_bytes(), 0o644)
        _add(tar, "usr/local/bin/windlass", _COMMAND, 0o755)
    return out.getvalue()


def _needed() -> set[str]:
    """Of pyproject's dependencies with the extra `k8s`, and of theirs: all that is installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pending = [*project["dependencies"], *project["optional-dependencies"]["k8s"]]
    found: set[tuple[str, str]] = set()
    while pending:
        wanted = Requirement(pending.pop())
        for extra in ("", *wanted.extras):
            if (wanted.name, extra) in found or (wanted.marker and not wanted.marker.evaluate({"extra": extra})):
                continue
            try:
                inner = importlib.metadata.requires(wanted.name) or []
            except importlib.metadata.PackageNotFoundError:
                continue  # for another platform
            found.add((wanted.name, extra))
            pending += [text.partition(";")[0] for text in inner if _applies(text, extra)]
    return {name for name, _ in found}


def _applies(text: str, extra: str) -> bool:
    marker = Requirement(text).marker
    return marker is None or marker.evaluate({"extra": extra})


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
