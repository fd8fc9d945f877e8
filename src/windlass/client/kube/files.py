"""Several kubeconfigs read as one, as kubectl does: KUBECONFIG is a list, and of two things of one name the first counts."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from lightkube import KubeConfig
from lightkube.core.exceptions import ConfigError

Document = dict[str, Any]
_PATHS: Final = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile")),
    "contexts": ("context", ()),
}
"""What is named, and which of its fields are paths: they count from the file they stand in."""


def read_environment(environ: Mapping[str, str]) -> KubeConfig:
    """A pod's own service account; else the files of KUBECONFIG; else ~/.kube/config."""
    files = [Path(name).expanduser() for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if len(files) < 2:
        return KubeConfig.from_env()
    try:
        return KubeConfig.from_service_account()
    except ConfigError:
        return _merged([file for file in files if file.is_file()])


def _merged(files: list[Path]) -> KubeConfig:
    if not files:
        raise ConfigError("none of the files in KUBECONFIG is there")
    whole: Document = {kind: [] for kind in _PATHS}
    for file in files:
        document: Document = yaml.safe_load(file.read_text()) or {}
        if document.get("current-context"):
            whole.setdefault("current-context", document["current-context"])
        for kind, known in whole.items():
            if kind in _PATHS:
                names = {one["name"] for one in known}
                known += [_placed(kind, one, file) for one in document.get(kind) or () if one["name"] not in names]
    return KubeConfig.from_dict(whole, fname=files[0])


def _placed(kind: str, one: Document, file: Path) -> Document:
    inner, paths = _PATHS[kind]
    body = dict(one.get(inner) or {})
    body |= {name: str(file.parent.absolute() / body[name]) for name in paths if body.get(name)}
    plugin = body.get("exec")
    if plugin and os.sep in plugin.get("command", ""):
        body["exec"] = {**plugin, "command": str(file.parent.absolute() / plugin["command"])}
    return {**one, inner: body}
