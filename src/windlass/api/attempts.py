"""What a refused request was about, for its record in the audit: read from its address, and from its body where that was read."""

from typing import Any, Final

from starlette.requests import HTTPConnection

from windlass.core.errors import WindlassError
from windlass.wire import documents
from windlass.wire.faults import show

BODY: Final = "body"
"""Key in a request's state: its document as it was sent."""
_YAML: Final = "application/yaml"
_BODY_BYTES_MAX: Final = 16 * 1024
"""Of a larger one the name is not looked for: who is refused must not cost much."""
_KINDS: Final = {
    "tokens": "Token",
    "burst": "Burst",
    "pools": "Pool",
    "nodes": "Node",
    "volumes": "Volume",
    "secrets": "Secret",
    "registries": "RegistryLogin",
    "prices": "Price",
    "tenants": "Tenant",
    "jobs": "Job",
}
"""By a part of the address; the first that is in it counts. The names are those of the records of what was done."""
_OF_A_TENANT: Final = {"Token", "Burst"}
"""In their addresses stands whose they are."""


def attempted(connection: HTTPConnection) -> dict[str, str]:
    """Fields of a Deed: kind, name, uid and tenant, as far as the caller said them."""
    parts = set(connection.scope["route"].path.split("/"))
    kind = next((kind for part, kind in _KINDS.items() if part in parts), "")
    said = {key: show(str(value)) for key, value in connection.scope.get("path_params", {}).items()}
    if kind in _OF_A_TENANT:
        name, uid, tenant = _named_in_body(connection), said.get("token", ""), said.get("name", "")
    else:
        name, uid, tenant = next(iter(said.values()), "") or _named_in_body(connection), "", ""
    return {"kind": kind, "name": name, "uid": uid, "tenant": tenant}


def _named_in_body(connection: HTTPConnection) -> str:
    raw: bytes = connection.scope["state"].get(BODY, b"")
    if not raw or len(raw) > _BODY_BYTES_MAX:
        return ""
    is_json = raw.lstrip()[:1] in (b"{", b"[")
    try:
        document = documents.read_one(raw, documents.JSON_TYPE if is_json else _YAML)
    except WindlassError:
        return ""
    return _name_of(document)


def _name_of(document: Any) -> str:
    if not isinstance(document, dict):
        return ""
    about = document.get("metadata")
    name = about.get("name") if isinstance(about, dict) else document.get("subject")
    return show(name) if isinstance(name, str) else ""
