"""Images made on the spot and put into a registry by its HTTP API: no engine, no base image needed."""

import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
_PIECE = 1 << 20


def layer(files: dict[str, bytes]) -> bytes:
    """An uncompressed layer; the same files make the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def push(
    registry: str,
    repository: str,
    tags: Sequence[str],
    layers: Sequence[bytes],
    *,
    created: str = "2024-01-01T00:00:00Z",
    architecture: str = "amd64",
) -> tuple[str, str]:
    """Put an image into the registry; (image id, manifest digest)."""
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": {"Cmd": ["/bin/true"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(one) for one in layers]},
        }
    ).encode()
    blobs = [gzip.compress(one, 1, mtime=0) for one in layers]
    for blob in (config, *blobs):
        _put_blob(registry, repository, blob)
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, config),
            "layers": [_descriptor(LAYER, blob) for blob in blobs],
        }
    ).encode()
    for tag in (*tags, _digest(manifest)):
        put_manifest(registry, repository, tag, manifest, MANIFEST)
    return _digest(config), _digest(manifest)


def push_index(registry: str, repository: str, tag: str, layers: dict[str, Sequence[bytes]]) -> str:
    """One name for several platforms: architecture → layers. The digest of the index."""
    entries = []
    for architecture, some in layers.items():
        _, digest = push(registry, repository, [], some, architecture=architecture)
        size = _request("GET", f"http://{registry}/v2/{repository}/manifests/{digest}", None, {"Accept": MANIFEST})
        platform = {"architecture": architecture, "os": "linux"}
        entries.append({"mediaType": MANIFEST, "size": len(size.read()), "digest": digest, "platform": platform})
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
    put_manifest(registry, repository, tag, index, INDEX)
    return _digest(index)


def put_manifest(registry: str, repository: str, tag: str, manifest: bytes, media_type: str) -> None:
    _request("PUT", f"http://{registry}/v2/{repository}/manifests/{tag}", manifest, {"Content-Type": media_type})


def _put_blob(registry: str, repository: str, blob: bytes) -> None:
    started = _request("POST", f"http://{registry}/v2/{repository}/blobs/uploads/", b"", {})
    location = started.headers["Location"]
    joint = "&" if "?" in location else "?"
    where = location if location.startswith("http") else f"http://{registry}{location}"
    headers = {"Content-Type": "application/octet-stream"}
    _request("PUT", f"{where}{joint}digest={_digest(blob)}", blob, headers)


def _request(method: str, url: str, body: bytes | None, headers: dict[str, str]) -> "urllib.request.addinfourl":
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    return urllib.request.urlopen(request, timeout=240)


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "size": len(blob), "digest": _digest(blob)}


def write_layer(path: Path, size: int) -> None:
    """A layer of so many random bytes, written as a stream: for images larger than memory should hold."""
    with tarfile.open(path, mode="w") as archive, tempfile.TemporaryFile() as content:
        for _ in range(-(-size // _PIECE)):
            content.write(os.urandom(min(_PIECE, size)))
        content.seek(0)
        entry = tarfile.TarInfo(path.name)
        entry.size = size
        archive.addfile(entry, content)


def write_archive(path: Path, name: str, layers: Sequence[Path]) -> None:
    """An image of layers that lie in files, as `docker load` takes it."""
    digests = [_file_digest(layer) for layer in layers]
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "created": "2024-01-01T00:00:00Z",
            "config": {"Cmd": ["/bin/true"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    members = [f"{digest}/layer.tar" for digest in digests]
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": members}]).encode()
    with tarfile.open(path, mode="w") as archive:
        for member, content in ((config_name, config), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for member, layer_path in zip(members, layers, strict=True):
            archive.add(layer_path, arcname=member)


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
