"""A handful of verbs on a Kubernetes API server, over documents.

Configuration, TLS and every kind of login (certificates, tokens that rotate, exec plugins) are lightkube's. The verbs are
ours, because what we rely on is in the details that its client leaves out: deletion with a UID as precondition, status
written with the resourceVersion it was judged by, raw logs with a bound.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx2
from lightkube import KubeConfig
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError

from windlass.client.kube.streams import PodStream, open_stream
from windlass.core.errors import Conflict, Denied, Invalid, NotFound, Unauthenticated, Unavailable, WindlassError
from windlass.wire.kube.kinds import (
    CLAIMS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    STORAGE_CLASSES,
    Kind,
)
from windlass.wire.kube.names import OPERATOR, Document

__all__ = [
    "CLAIMS",
    "CONFIG_MAPS",
    "EVENTS",
    "JOBS",
    "NODES",
    "PODS",
    "STORAGE_CLASSES",
    "Kind",
    "KubeApi",
    "error_of",
    "read_config",
]

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
TIMEOUT_SECONDS: Final = 30.0


class KubeApi:
    """Open with `async with`. Every refusal is one of our errors; `Conflict` with code `kube-exists` or `kube-conflict`."""

    def __init__(self, config: SingleConfig, *, manager: str = OPERATOR) -> None:
        self.namespace = config.namespace or "default"
        parameters = ConnectionParams(timeout=httpx2.Timeout(TIMEOUT_SECONDS)).httpx_params(config)
        # Every followed log is a connection of its own: a bound on them would hold up all other calls.
        self._http = httpx2.AsyncClient(**parameters, limits=httpx2.Limits(max_connections=None))
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

    async def watch(
        self, kind: Kind, namespace: str = "", *, labels: str = "", after: str
    ) -> AsyncIterator[tuple[str, Document]]:
        """Every change after that version, with what kind of change it was. It ends when the server has had enough or
        remembers no longer; then one lists again."""
        query = {"watch": "true", "resourceVersion": after, "timeoutSeconds": "300"}
        query |= {"labelSelector": labels} if labels else {}
        async with self._stream(kind.path(namespace), query) as answer:
            async for line in answer.aiter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]

    async def version(self, kind: Kind, namespace: str = "") -> str:
        """From which to watch on."""
        page = await self._call("GET", kind.path(namespace), query={"limit": "1"})
        return str(page["metadata"]["resourceVersion"])

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
    async def log(
        self,
        name: str,
        namespace: str,
        *,
        follow: bool = False,
        timestamps: bool = False,
        since: str = "",
        tail: int | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """What the pod's container printed, in pieces; `since` is RFC 3339, `tail` a number of lines."""
        query = {"follow": str(follow).lower(), "timestamps": str(timestamps).lower()}
        query |= {"sinceTime": since} if since else {}
        query |= {"tailLines": str(tail)} if tail is not None else {}
        async with self._stream(PODS.path(namespace, name, "log"), query, is_endless=follow) as answer:
            yield answer.aiter_bytes()

    def terminal(
        self,
        pod: str,
        namespace: str,
        command: Sequence[str] = (),
        *,
        has_input: bool = True,
        tty: bool = False,
    ) -> AbstractAsyncContextManager[PodStream]:
        """A command in the pod's container; without one, its own first process."""
        return open_stream(self._http, pod, namespace, command, has_input=has_input, tty=tty)

    @asynccontextmanager
    async def _stream(
        self, path: str, query: Mapping[str, str], *, is_endless: bool = True
    ) -> AsyncIterator[httpx2.Response]:
        request = self._http.build_request("GET", path, params=dict(query))
        if is_endless:
            request.extensions["timeout"] = httpx2.Timeout(TIMEOUT_SECONDS, read=None).as_dict()
        self.calls += 1
        try:
            answer = await self._http.send(request, stream=True)
            try:
                if answer.is_error:
                    await answer.aread()
                    raise error_of(answer)
                yield answer
            finally:
                await answer.aclose()
        except httpx2.HTTPError as exc:
            raise _unreachable(exc) from exc

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
