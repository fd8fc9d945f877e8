"""The CRD of EphemeralAccelerationJob, made from the models that validate every manifest: one truth for both doors.

What the schema refuses, the API server refuses with the field named. It is never stricter than the manifest's validator
in what it means, only in what it can carry: a command is a list here, a fraction of a core a text ("500m"),
a variable that is a secret's stands in `secretEnv`.
"""

from collections.abc import Mapping
from typing import Any, Final

from windlass.core.distribution.reference import REFERENCE_PATTERN
from windlass.wire.job import VOLUME_TTL_ALIAS, JobSpecDocument
from windlass.wire.kube.names import GROUP, KIND, PLURAL, SHORT, VERSION, Document
from windlass.wire.kube.schema import Schema, structural
from windlass.wire.kube.status import StatusDocument
from windlass.wire.names import (
    DNS_LABEL_PATTERN,
    ENV_NAME_PATTERN,
    LABEL_KEY_PATTERN,
    MODEL_PATTERN,
    SECRET_KEY_PATTERN,
)
from windlass.wire.quantities import write_bytes, write_cpu, write_seconds

_WRITTEN: Final[Mapping[str, Any]] = {
    "resources.cpu": write_cpu,
    "resources.memory": write_bytes,
    "lostAfter": write_seconds,
    "pvcSize": write_bytes,
}
_FIXED: Final = ("image", "resources", "pvcSize", "storageClass", "model")
"""What a job is; changing it under way would mean nothing."""
_FIXED_WORDS: Final = "is fixed once the job is made"
_COLUMNS: Final = (
    ("Phase", ".status.phase", "string", 0),
    ("Reason", ".status.reason", "string", 0),
    ("Attempt", ".status.attempt", "integer", 0),
    ("Age", ".metadata.creationTimestamp", "date", 0),
    ("Pod", ".status.podName", "string", 1),
    ("Node", ".status.node", "string", 1),
    ("Exit", ".status.exitCode", "integer", 1),
    ("Finished", ".status.finishedAt", "date", 1),
)


def ephemeral_crd() -> Document:
    names = {
        "kind": KIND,
        "listKind": f"{KIND}List",
        "plural": PLURAL,
        "singular": KIND.lower(),
        "shortNames": [SHORT],
        "categories": ["windlass"],
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "jsonPath": path, "type": kind, "priority": priority}
            for name, path, kind, priority in _COLUMNS
        ],
        "schema": {"openAPIV3Schema": _root()},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}", "labels": {"app.kubernetes.io/managed-by": "windlass"}},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _root() -> Schema:
    name = _rule(
        f"self.metadata.name.matches('{DNS_LABEL_PATTERN}')", "the name must be a DNS label of at most 63 characters"
    )
    return {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _spec(),
            "status": _status(),
        },
        "x-kubernetes-validations": [name],
    }


def _status() -> Schema:
    """Pending from the first moment, without a write that says so."""
    status = structural(StatusDocument)
    status["default"] = {}
    status["properties"]["phase"]["default"] = "Pending"
    return status


def _spec() -> Schema:
    spec = structural(JobSpecDocument)
    fields = spec["properties"]
    fields.pop(VOLUME_TTL_ALIAS)  # with a default on the one, nobody could give the other
    for parent in ("resources", "input", "output"):
        fields[parent]["default"] = {}
    fields["resources"]["properties"]["gpu"]["default"] = 1
    fields["image"]["pattern"] = REFERENCE_PATTERN
    fields["model"]["pattern"] = MODEL_PATTERN
    fields["webhook"]["properties"]["url"]["pattern"] = "^https?://[^/]"
    for path, write in _WRITTEN.items():
        _at(fields, path)["default"] = write(_at(fields, path)["default"])
    _add_rules(spec)
    return spec


def _add_rules(spec: Schema) -> None:
    fields = spec["properties"]
    for name in ("command", "env", "secretEnv", "secretFiles"):
        fields[name].pop("default", None)
    items = fields["command"]["items"]
    items["maxLength"] = 131_072
    fields["env"]["additionalProperties"]["maxLength"] = 131_072
    _rules(
        fields["env"], f"self.all(k, k.matches('{ENV_NAME_PATTERN}'))", "names are letters, digits, '_', '.' and '-'"
    )
    _rules(
        fields["secretEnv"],
        f"self.all(k, k.matches('{ENV_NAME_PATTERN}'))",
        "names are letters, digits, '_', '.' and '-'",
    )
    _rules(fields["secretFiles"], f"self.all(k, k.matches('{SECRET_KEY_PATTERN}'))", "a file's name, and no path")
    keys = f"self.all(k, k.matches('{LABEL_KEY_PATTERN}') && !k.startsWith('windlass.dev/'))"
    _rules(fields["nodeSelector"], keys, "keys are [domain/]name, not under windlass.dev/")
    for parent in ("input", "output"):
        path = fields[parent]["properties"]["path"]
        inside = "(!self.startsWith('/') || self.startsWith('/artifacts/')) && !self.split('/').exists(p, p == '..' || p == '.')"
        _rules(path, inside, "expected a path below /artifacts, without '.' and '..'")
    _fix(spec)


def _fix(spec: Schema) -> None:
    """A rule looks a field up in all that its object may have, each time, and every write of a status runs them all: so each
    field is compared by a rule of its own, and the object is asked only for what may come or go."""
    fields = spec["properties"]
    for name in _FIXED:
        _rules(fields[name], "self == oldSelf", f"{name} {_FIXED_WORDS}")
    spec["x-kubernetes-validations"] = [
        _rule(f"has(self.{name}) == has(oldSelf.{name})", f"{name} {_FIXED_WORDS}")
        for name in _FIXED
        if "default" not in fields[name]
    ]


def _rules(field: Schema, rule: str, message: str) -> None:
    field["x-kubernetes-validations"] = [_rule(rule, message)]


def _rule(rule: str, message: str) -> Document:
    # A backslash in a CEL text must be doubled; our patterns have none but for the dots in classes.
    return {"rule": rule.replace("\\", "\\\\"), "message": message}


def _at(fields: Schema, path: str) -> Schema:
    head, _, rest = path.partition(".")
    found: Schema = fields[head]
    return _at(found["properties"], rest) if rest else found
