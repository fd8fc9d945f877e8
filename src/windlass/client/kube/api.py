"""A handful of verbs on a Kubernetes API server, over documents.

Configuration, TLS and every kind of login (certificates, tokens that rotate, exec plugins) are lightkube's. The verbs are
ours, because what we rely on is in the details that its client leaves out: deletion with a UID as precondition, status
written with the resourceVersion it was judged by, raw logs with a bound.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx2
from lightkube import KubeConfig
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError

from windlass.core.errors import Conflict, Denied, Invalid, NotFound, Unauthenticated, Unavailable, WindlassError
from windlass.wire.kube.names import OPERATOR, Document

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
TIMEOUT_SECONDS: Final = 30.0
_PREFIXES: Final = {"v1": "/api/v1"}


class Kind:
    """A kind of object and its way in the API: `Kind("v1", "pods")`."""

    def __init__(self, api_version: str, plural: str, *, is_namespaced: bool = True) -> None:
        self.prefix = _PREFIXES.get(api_version, f"/apis/{api_version}")
        self.plural = plural
        self.is_namespaced = is_namespaced

    def path(self, namespace: str = "", name: str = "", sub: str = "") -> str:
        parts = [
            self.prefix,
            f"namespaces/{namespace}" if self.is_namespaced and namespace else "",
            self.plural,
            name,
            sub,
        ]
        return "/".join(part for part in parts if part)


PODS: Final = Kind("v1", "pods")
CLAIMS: Final = Kind("v1", "persistentvolumeclaims")
CONFIG_MAPS: Final = Kind("v1", "configmaps")
EVENTS: Final = Kind("v1", "events")
NODES: Final = Kind("v1", "nodes", is_namespaced=False)
STORAGE_CLASSES: Final = Kind("storage.k8s.io/v1", "storageclasses", is_namespaced=False)
JOBS: Final = Kind("windlass.dev/v1", "ephemeralaccelerationjobs")


class KubeApi:
    """Open with `async with`. Every refusal is one of our errors; `Conflict` with code `kube-exists` or `kube-conflict`."""

    def __init__(self, config: SingleConfig, *, manager: str = OPERATOR) -> None:
        self.namespace = config.namespace or "default"
        limits = ConnectionParams(timeout=httpx2.Timeout(TIMEOUT_SECONDS))
        self._http = AsyncClient(config, limits)
        self._manager = manager
        self.calls = 0
        """Requests made so far."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Document | None:
        try:
            return await self._call("GET", kind.path(namespace, name))
        except NotFound:
            return None

    async def list(self, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Document]:
        found: list[Document] = []
        query = {"limit": "500", **({"labelSelector": labels} if labels else {})}
        while True:
            page = await self._call("GET", kind.path(namespace), query=query)
            found += page.get("items", [])
            following = page.get("metadata", {}).get("continue")
            if not following:
                return found
            query["continue"] = following

    async def create(self, kind: Kind, document: Document, namespace: str = "") -> Document:
        return await self._call("POST", kind.path(namespace), document, query={"fieldManager": self._manager})

    async def apply(self, kind: Kind, document: Document, namespace: str = "", *, sub: str = "") -> Document:
        """Server-side apply, ours by force. With a resourceVersion in it: only onto that version, else Conflict."""
        path = kind.path(namespace, document["metadata"]["name"], sub)
        return await self._call(
            "PATCH", path, document, query={"fieldManager": self._manager, "force": "true"}, media=APPLY
        )

    async def merge(self, kind: Kind, name: str, change: Document, namespace: str = "") -> Document:
        return await self._call("PATCH", kind.path(namespace, name), change, media=MERGE)

    async def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str, grace: int | None = None) -> bool:
        """Whether there was one with that UID to delete; another of that name is left alone."""
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        options["propagationPolicy"] = "Background"
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            await self._call("DELETE", kind.path(namespace, name), options)
        except NotFound:
            return False
        except Conflict:
            return False
        return True

    @asynccontextmanager
    async def log(self, name: str, namespace: str, *, follow: bool = False) -> AsyncIterator[AsyncIterator[bytes]]:
        """What the pod's container printed, in pieces."""
        request = self._http.build_request(
            "GET", PODS.path(namespace, name, "log"), params={"follow": str(follow).lower()}
        )
        if follow:
            request.extensions["timeout"] = httpx2.Timeout(TIMEOUT_SECONDS, read=None).as_dict()
        self.calls += 1
        try:
            answer = await self._http.send(request, stream=True)
        except httpx2.HTTPError as exc:
            raise _unreachable(exc) from exc
        try:
            if answer.is_error:
                await answer.aread()
                raise error_of(answer)
            yield answer.aiter_bytes()
        finally:
            await answer.aclose()

    async def _call(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        *,
        query: Mapping[str, str] | None = None,
        media: str = "application/json",
    ) -> Document:
        headers = {"Content-Type": media} if body is not None else {}
        self.calls += 1
        try:
            answer = await self._http.request(method, path, json=body, params=dict(query or {}), headers=headers)
        except httpx2.HTTPError as exc:
            raise _unreachable(exc) from exc
        if answer.is_error:
            raise error_of(answer)
        document: Document = answer.json()
        return document


def read_config(kubeconfig: Path | None = None, context: str | None = None) -> SingleConfig:
    """The named file; else a pod's own service account; else KUBECONFIG and ~/.kube/config, as kubectl reads them."""
    try:
        found = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_env()
        config = found.get(context_name=context)
    except (ConfigError, OSError) as exc:
        raise Invalid(f"no Kubernetes configuration: {exc}", code="kube-config", hint=_CONFIG_HINT) from exc
    if config is None:
        raise Invalid("the Kubernetes configuration names no context", code="kube-config", hint=_CONFIG_HINT)
    return config


_CONFIG_HINT: Final = "name a file with KUBECONFIG or --kubeconfig, and one of its contexts with --context"


def error_of(answer: httpx2.Response) -> WindlassError:
    """Ours, from what the API server said."""
    try:
        status: dict[str, Any] = answer.json()
    except ValueError:
        status = {}
    message = str(status.get("message") or f"the Kubernetes API server answered {answer.status_code}")
    reason = status.get("reason", "")
    match answer.status_code:
        case 401:
            return Unauthenticated(message, code="kube-unauthenticated", hint="log in to the cluster again")
        case 403:
            return Denied(message, code="kube-forbidden", hint="the cluster's admin grants rights and quota")
        case 404:
            return NotFound(message)
        case 409 if reason == "AlreadyExists":
            return Conflict(message, code="kube-exists")
        case 409:
            return Conflict(message, code="kube-conflict")
        case 400 | 422:
            return Invalid(message, code="kube-refused")
        case _:
            return Unavailable(message, code="kube-unavailable")


def _unreachable(exc: httpx2.HTTPError) -> Unavailable:
    return Unavailable(f"the Kubernetes API server does not answer: {exc}", code="kube-unavailable")
