"""The kinds of objects we speak of with an API server, and each one's way in its API."""

import re
from typing import Final

from windlass.core.errors import Invalid
from windlass.wire.faults import show

_PREFIXES: Final = {"v1": "/api/v1"}
_SEGMENT: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._:]*", re.ASCII)
"""What any object may be called. Nothing in it leads elsewhere when it stands in a path: no slash, no dots alone, no query."""


class Kind:
    """A kind of object and its way in the API: `Kind("v1", "pods")`."""

    def __init__(self, api_version: str, plural: str, *, is_namespaced: bool = True) -> None:
        self.prefix = _PREFIXES.get(api_version, f"/apis/{api_version}")
        self.plural = plural
        self.is_namespaced = is_namespaced

    def path(self, namespace: str = "", name: str = "", sub: str = "") -> str:
        """Of all of them, or of the one named. Whatever was typed as a name stays one: it is refused if it could be more."""
        parts = [
            self.prefix,
            f"namespaces/{_segment(namespace)}" if self.is_namespaced and namespace else "",
            self.plural,
            _segment(name) if name else "",
            sub,
        ]
        return "/".join(part for part in parts if part)


def _segment(name: str) -> str:
    if not _SEGMENT.fullmatch(name):
        raise Invalid(f"nothing on a cluster can be called {show(name)}", code="kube-name")
    return name


PODS: Final = Kind("v1", "pods")
CLAIMS: Final = Kind("v1", "persistentvolumeclaims")
CONFIG_MAPS: Final = Kind("v1", "configmaps")
SECRETS: Final = Kind("v1", "secrets")
EVENTS: Final = Kind("v1", "events")
NODES: Final = Kind("v1", "nodes", is_namespaced=False)
NAMESPACES: Final = Kind("v1", "namespaces", is_namespaced=False)
STORAGE_CLASSES: Final = Kind("storage.k8s.io/v1", "storageclasses", is_namespaced=False)
ROLES: Final = Kind("rbac.authorization.k8s.io/v1", "roles")
ROLE_BINDINGS: Final = Kind("rbac.authorization.k8s.io/v1", "rolebindings")
JOBS: Final = Kind("windlass.dev/v1", "ephemeralaccelerationjobs")
