"""A handful of verbs on a Kubernetes API server, over documents.

A kubeconfig is read by lightkube. The verbs are ours, because what we rely on is in the details that its client leaves out:
deletion with a UID as precondition, status written with the resourceVersion it was judged by, raw logs with a bound. They go by
aiohttp, which takes a sixth of the processor time of lightkube's own HTTP client; an operator's time is mostly spent in here.
"""

import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import httpx2
from lightkube import KubeConfig
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError
from msgspec import DecodeError
from msgspec.json import Encoder, decode
from yaml import YAMLError

from windlass.client.kube.files import read_environment
from windlass.client.kube.login import Login, prepare_plugin
from windlass.client.kube.streams import PodStream, open_stream
from windlass.core.errors import Conflict, Denied, Invalid, NotFound, Unauthenticated, Unavailable, WindlassError
from windlass.core.model.ids import Millis
from windlass.ports.failpoints import NONE, Failpoints
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
    "lines_of",
    "read_config",
]

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
"""As a merge, but lists are of named things: one of them can be taken out. Not for custom resources."""
ENCODE: Final = Encoder(decimal_format="number").encode
"""Numbers go as they were written: with a fraction a manifest has Decimals."""
TIMEOUT_SECONDS: Final = 30.0
THROTTLED: Final = "kube-throttled"
"""It has too much to do and says when to come again."""
RETRY_AFTER_MAX_SECONDS: Final = 60
NOT_INSTALLED: Final = "operator-not-installed"


class KubeApi:
    """Open with `async with`. Every refusal is one of our errors; `Conflict` with code `kube-exists` or `kube-conflict`."""

    def __init__(self, config: SingleConfig, *, manager: str = OPERATOR, failpoints: Failpoints = NONE) -> None:
        self.namespace = config.namespace or "default"
        self._config = config
        self._server = str(config.cluster.server).rstrip("/")
        self._login = Login(config)
        self._manager = manager
        self._failpoints = failpoints
        self.calls: Counter[tuple[str, str]] = Counter()
        """Requests made so far, by method and what was asked for (`pods`, `pods/log`)."""

    async def __aenter__(self) -> Self:
        # Every followed log is a connection of its own: a bound on them would hold up all other calls.
        connector = aiohttp.TCPConnector(ssl=self._login.context(), limit=0)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        self._http = aiohttp.ClientSession(connector=connector, timeout=timeout, proxy=self._login.proxy())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Document | None:
        try:
            return await self._call("GET", kind, namespace, name)
        except NotFound:
            return None

    async def list(self, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Document]:
        found: list[Document] = []
        query = {"limit": "500", **({"labelSelector": labels} if labels else {})}
        while True:
            page = await self._call("GET", kind, namespace, query=query)
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
        self.calls["GET", kind.plural] += 1
        async with self._answer("GET", kind.path(namespace), params=query, timeout=_ENDLESS) as answer:
            async for line in lines_of(answer.content):
                event = decode(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]

    async def version(self, kind: Kind, namespace: str = "") -> str:
        """From which to watch on."""
        page = await self._call("GET", kind, namespace, query={"limit": "1"})
        return str(page["metadata"]["resourceVersion"])

    async def create(self, kind: Kind, document: Document, namespace: str = "") -> Document:
        return await self._write("POST", kind, namespace, body=document, query={"fieldManager": self._manager})

    async def apply(self, kind: Kind, document: Document, namespace: str = "", *, sub: str = "") -> Document:
        """Server-side apply, ours by force. With a resourceVersion in it: only onto that version, else Conflict."""
        query = {"fieldManager": self._manager, "force": "true"}
        name = document["metadata"]["name"]
        return await self._write("PATCH", kind, namespace, name, sub, body=document, query=query, media=APPLY)

    async def merge(
        self, kind: Kind, name: str, change: Document, namespace: str = "", *, media: str = MERGE
    ) -> Document:
        return await self._write("PATCH", kind, namespace, name, body=change, media=media)

    async def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str, grace: int | None = None) -> bool:
        """Whether there was one with that UID to delete; another of that name is left alone."""
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        options["propagationPolicy"] = "Background"
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            await self._write("DELETE", kind, namespace, name, body=options)
        except NotFound:
            return False
        except Conflict as exc:
            if _NOT_THAT_ONE not in exc.message:
                raise
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
        self.calls["GET", "pods/log"] += 1
        timeout = _ENDLESS if follow else aiohttp.ClientTimeout(sock_connect=TIMEOUT_SECONDS, sock_read=TIMEOUT_SECONDS)
        async with self._answer("GET", PODS.path(namespace, name, "log"), params=query, timeout=timeout) as answer:
            yield answer.content.iter_any()

    async def date(self) -> Millis:
        """What time it is for the API server, to the second."""
        async with self._answer("GET", "/version") as answer:
            return Millis(round(parsedate_to_datetime(answer.headers["Date"]).timestamp() * 1000))

    @asynccontextmanager
    async def terminal(
        self,
        pod: str,
        namespace: str,
        command: Sequence[str] = (),
        *,
        has_input: bool = True,
        tty: bool = False,
    ) -> AsyncIterator[PodStream]:
        """A command in the pod's container; without one, its own first process."""
        limits = ConnectionParams(timeout=httpx2.Timeout(TIMEOUT_SECONDS))
        async with (
            AsyncClient(self._config, limits) as http,
            open_stream(http, pod, namespace, command, has_input=has_input, tty=tty) as stream,
        ):
            yield stream

    async def _write(
        self, method: str, kind: Kind, namespace: str, name: str = "", sub: str = "", **what: Any
    ) -> Document:
        """Every write goes through here, so that a test can end the process before and after any of them."""
        await self._failpoints.reach("operator.before_write")
        await self._failpoints.reach(f"operator.before_write.{kind.plural}")
        written = await self._call(method, kind, namespace, name, sub, **what)
        await self._failpoints.reach(f"operator.after_write.{kind.plural}")
        await self._failpoints.reach("operator.after_write")
        return written

    async def _call(
        self,
        method: str,
        kind: Kind,
        namespace: str,
        name: str = "",
        sub: str = "",
        *,
        body: Document | None = None,
        query: Mapping[str, str] | None = None,
        media: str = "application/json",
    ) -> Document:
        self.calls[method, f"{kind.plural}/{sub}" if sub else kind.plural] += 1
        headers = {} if body is None else {"Content-Type": media}
        content = None if body is None else _readable(ENCODE(body), media)
        path = kind.path(namespace, name, sub)
        async with self._answer(method, path, headers=headers, params=query or {}, data=content) as answer:
            document: Document = decode(await answer.read())
            return document

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A refusal is raised as ours. A login that is no longer good is renewed, once."""
        try:
            for is_last in (False, True):
                given = {**(headers or {}), **await self._login.headers(anew=is_last)}
                async with self._http.request(method, self._server + path, headers=given, **options) as answer:
                    if answer.status == 401 and not is_last:
                        continue
                    if answer.status >= 400:
                        raise error_of(answer.status, await answer.read(), answer.headers.get("Retry-After", ""))
                    yield answer
                    return
        except (aiohttp.ClientError, TimeoutError) as exc:
            words = f"the Kubernetes API server does not answer: {exc or 'it took too long'}"
            raise Unavailable(words, code="kube-unavailable") from exc


_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What JSON lets stand in a string, and YAML does not, or takes for a line's end."""


def _readable(content: bytes, media: str) -> bytes:
    """What is applied is read as YAML, and a job may end with any words."""
    if media != APPLY or (content.isascii() and b"\x7f" not in content):
        return content
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", content.decode()).encode()


_NOT_THAT_ONE: Final = "precondition"
_ENDLESS: Final = aiohttp.ClientTimeout(sock_connect=TIMEOUT_SECONDS)


async def lines_of(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """However long they are: aiohttp's own have a bound, and an object may be larger."""
    rest = b""
    async for piece in content.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line


def read_config(kubeconfig: Path | None = None, context: str | None = None) -> SingleConfig:
    """The named file; else a pod's own service account; else KUBECONFIG and ~/.kube/config, as kubectl reads them."""
    try:
        found = KubeConfig.from_file(kubeconfig) if kubeconfig else read_environment(os.environ)
        config = found.get(context_name=context)
    except (ConfigError, OSError, YAMLError) as exc:
        raise Invalid(f"no Kubernetes configuration: {exc}", code="kube-config", hint=_CONFIG_HINT) from exc
    if config is None:
        raise Invalid("the Kubernetes configuration names no context", code="kube-config", hint=_CONFIG_HINT)
    prepare_plugin(config)
    return config


_CONFIG_HINT: Final = "name a file with KUBECONFIG or --kubeconfig, and one of its contexts with --context"


def error_of(code: int, body: bytes, retry_after: str = "") -> WindlassError:
    """Ours, from what the API server said. `retry_after` is its header of that name."""
    try:
        found: Any = decode(body)
    except DecodeError:
        found = None
    status: dict[str, Any] = found if isinstance(found, dict) else {}
    message = str(status.get("message") or f"the Kubernetes API server answered {code}")
    reason = status.get("reason", "")
    match code:
        case 401:
            return Unauthenticated(message, code="kube-unauthenticated", hint="log in to the cluster again")
        case 403:
            return Denied(message, code="kube-forbidden", hint="the cluster's admin grants rights and quota")
        case 404 if not status:  # not of an object, but of the whole way
            words = "the cluster has no ephemeral accelerated jobs: the operator's CRDs are not installed"
            return NotFound(words, code=NOT_INSTALLED, hint="`windlass operator install` brings them")
        case 404:
            return NotFound(message)
        case 409 if reason == "AlreadyExists":
            return Conflict(message, code="kube-exists")
        case 409:
            return Conflict(message, code="kube-conflict")
        case 400 | 422:
            return Invalid(message, code="kube-refused")
        case 429:
            seconds = int(retry_after) if retry_after.isdecimal() else 1
            return Unavailable(message, code=THROTTLED, retry_after_seconds=min(seconds, RETRY_AFTER_MAX_SECONDS))
        case _:
            return Unavailable(message, code="kube-unavailable")
