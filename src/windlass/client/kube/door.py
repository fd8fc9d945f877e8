"""The same API server for the command line: blocking, with commands and terminals inside pods.

What it shares with `api` are the paths and the meaning of refusals. A terminal reads and writes at once; TLS under Python
3.11 does not bear that from two threads, so it lives on an event loop of its own.
"""

import json
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Any, Final

import anyio
import httpx2
from anyio.from_thread import BlockingPortal
from lightkube.config.client_adapter import AsyncClient, Client, ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError
from msgspec import Struct

from windlass.client.kube.api import ENCODE, MERGE, NOT_INSTALLED, PODS, Kind, error_of
from windlass.client.kube.portal import open_portal
from windlass.client.kube.streams import (
    BROKEN,
    CLOSE,
    FRAME,
    SILENCE_SECONDS,
    SIZE,
    STDERR,
    STDIN,
    STDOUT,
    VERDICT,
    broken,
    innermost,
    open_socket,
    read_verdict,
)
from windlass.client.terminal import Output
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable
from windlass.wire.kube.names import CONTAINER, Document

TIMEOUT_SECONDS: Final = 30.0


class Done(Struct, frozen=True):
    """A command in a pod that has ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class KubeDoor:
    def __init__(self, config: SingleConfig) -> None:
        self._config = config
        self._http = Client(config, ConnectionParams(timeout=httpx2.Timeout(TIMEOUT_SECONDS)))

    def another(self) -> "KubeDoor":
        return KubeDoor(self._config)

    def close(self) -> None:
        self._http.close()

    def get(self, kind: Kind, name: str, namespace: str) -> Document | None:
        try:
            return self.call("GET", kind.path(namespace, name))
        except NotFound as exc:
            if exc.code == NOT_INSTALLED:
                raise
            return None

    def list(self, kind: Kind, namespace: str, *, labels: str = "") -> tuple[list[Document], str]:
        """All of them, and the version they were listed at."""
        page = self.call("GET", kind.path(namespace), query={"labelSelector": labels} if labels else {})
        return page.get("items", []), page["metadata"]["resourceVersion"]

    def create(self, kind: Kind, document: Document, namespace: str) -> Document:
        return self.call("POST", kind.path(namespace), document, query={"fieldManager": "windlass"})

    def merge(self, kind: Kind, name: str, change: Document, namespace: str) -> Document:
        return self.call("PATCH", kind.path(namespace, name), change, media=MERGE)

    def delete(
        self, kind: Kind, name: str, namespace: str, *, uid: str, version: str = "", grace: int | None = None
    ) -> bool:
        """Whether there was one with that UID, and in that version if one is given, to delete."""
        only = {"uid": uid, **({"resourceVersion": version} if version else {})}
        options: Document = {"preconditions": only, "propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            self.call("DELETE", kind.path(namespace, name), options)
        except (NotFound, Conflict):
            return False
        return True

    def watch(self, kind: Kind, namespace: str, *, after: str, name: str = "") -> Iterator[Document]:
        """Every change after that version; it ends when the server has had enough, and then one lists again."""
        query = {"watch": "true", "resourceVersion": after, "timeoutSeconds": "300"}
        if name:
            query["fieldSelector"] = f"metadata.name={name}"
        with self.stream(kind.path(namespace), query) as answer:
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event

    @contextmanager
    def stream(self, path: str, query: Mapping[str, str]) -> Iterator[httpx2.Response]:
        timeout = httpx2.Timeout(TIMEOUT_SECONDS, read=None)
        try:
            with self._http.stream("GET", path, params=dict(query), timeout=timeout) as answer:
                if answer.is_error:
                    answer.read()
                    raise error_of(answer.status_code, answer.content)
                yield answer
        except httpx2.HTTPError as exc:
            raise broken(exc) from exc

    def run(self, pod: str, namespace: str, command: Iterable[str]) -> Done:
        """Run a command in the pod to its end. Never a shell's text: words only."""
        out, err = bytearray(), bytearray()
        with self.terminal(pod, namespace, command, has_input=False) as terminal:
            for piece in terminal.output():
                (err if piece.is_stderr else out).extend(piece.data)
        return Done(terminal.exit_code or 0, bytes(out), bytes(err))

    def store(self, pod: str, namespace: str, path: str, content: Iterable[bytes]) -> None:
        """Bytes into a file in the pod; what arrived is for the caller to verify.

        By `tee`, whose echo is thrown away: containerd takes a command's stdin away when it closes its stdout, as `dd` and a
        shell's `cat >` do, and then silently loses the rest.
        """
        with self.terminal(pod, namespace, ["tee", path], has_input=True) as terminal:
            failed: list[Exception] = []
            feeding = threading.Thread(target=_feed, args=(terminal, content, failed), daemon=True)
            feeding.start()
            try:
                for _ in terminal.output():
                    pass
            except Unavailable:
                if failed:  # what was to be sent, not the way there
                    raise failed[0] from None
                raise
            feeding.join()

    @contextmanager
    def terminal(
        self, pod: str, namespace: str, command: Iterable[str], *, has_input: bool, tty: bool = False
    ) -> Iterator["PodTerminal"]:
        query: dict[str, Any] = {"command": list(command), "container": CONTAINER, "stdout": "true"}
        query |= {"stdin": str(has_input).lower(), "tty": str(tty).lower(), "stderr": str(not tty).lower()}
        path = PODS.path(namespace, pod, "exec")
        left: BaseException | None = None
        try:
            with open_portal() as portal:
                http = AsyncClient(self._config, ConnectionParams(timeout=httpx2.Timeout(TIMEOUT_SECONDS)))
                opened = open_socket(http, path, query)
                with portal.wrap_async_context_manager(http), portal.wrap_async_context_manager(opened) as socket:
                    terminal = PodTerminal(portal, socket, silence=None if tty else SILENCE_SECONDS)
                    try:
                        yield terminal
                    except BaseException as exc:  # kept from the event loop, which a Ctrl-C that passes through it ends
                        left = exc
                        terminal.abandon()
        except BROKEN as exc:
            raise left or broken(exc) from exc
        except BaseExceptionGroup as group:  # the socket's task group wraps whatever passes through it
            raise left or innermost(group) from None
        if left is not None:
            raise left

    def call(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        *,
        query: Mapping[str, str] | None = None,
        media: str = "application/json",
    ) -> Document:
        headers = {"Content-Type": media} if body is not None else {}
        content = None if body is None else ENCODE(body)
        document: Document = self._ask(method, path, content=content, params=dict(query or {}), headers=headers).json()
        return document

    def now(self) -> float:
        """What time it is for the API server, in seconds since the epoch: times-to-live are judged by it, whoever judges."""
        return parsedate_to_datetime(self._ask("GET", "/version").headers["Date"]).timestamp()

    def _ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        try:
            answer = self._http.request(method, path, **options)
        except ConfigError as exc:  # a login plugin, which is run when it is first needed
            raise Invalid(str(exc), code="kube-config", hint="run it by hand to see what it says") from exc
        except httpx2.HTTPError as exc:
            raise broken(exc) from exc
        if answer.is_error:
            raise error_of(answer.status_code, answer.content)
        return answer


class PodTerminal:
    """A command in a pod, spoken to like `client.terminal.Terminal`: reading and writing may happen in two threads."""

    def __init__(self, portal: BlockingPortal, socket: Any, *, silence: float | None) -> None:
        self._portal = portal
        self._socket = socket
        self._silence = silence
        self._under_way: set[anyio.CancelScope] = set()
        """The event loop's: a signal may come between the beginning of a call and whatever its caller does next."""
        self._is_abandoned = False
        self.exit_code: int | None = None
        self.has_spoken = False
        self.is_given_up = False

    def output(self) -> Iterator[Output]:
        while True:
            frame: bytes = self._do(self._socket.receive_bytes, self._silence)
            channel, data = frame[0], frame[1:]
            if channel in (STDOUT, STDERR):
                self.has_spoken = True
                if data:
                    yield Output(channel == STDERR, data)
            elif channel == VERDICT:
                verdict = read_verdict(json.loads(data))
                if verdict.words:
                    yield Output(True, verdict.words)
                self.exit_code = verdict.exit_code
                return

    def send(self, data: bytes) -> None:
        self._do(self._socket.send_bytes, bytes((STDIN,)) + data)

    def resize(self, rows: int, columns: int) -> None:
        with suppress(Unavailable):
            size = json.dumps({"Height": rows, "Width": columns}).encode()
            self._do(self._socket.send_bytes, bytes((SIZE,)) + size)

    def end_input(self) -> None:
        with suppress(Unavailable):
            self._do(self._socket.send_bytes, bytes((CLOSE, STDIN)))

    def give_up(self) -> None:
        self.is_given_up = not self.has_spoken

    def close(self) -> None:
        self._do(self._socket.close)

    def abandon(self) -> None:
        """At once, without the words that part with the other side: it may be one that hears nothing any more."""
        self._is_abandoned = True
        with suppress(Exception):
            self._portal.call(self._cancel_all)
            self._portal.call(self._socket.stream.aclose)

    def _cancel_all(self) -> None:
        for scope in tuple(self._under_way):
            scope.cancel()

    def _do(self, call: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """On the event loop. Whatever ends it there, also that the loop has ended, is a way that broke."""
        try:
            return self._portal.call(self._run, call, *arguments)
        except Unavailable:
            raise
        except Exception as exc:
            raise broken(exc) from exc

    async def _run(self, call: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        with anyio.CancelScope() as scope:
            self._under_way.add(scope)
            try:
                if not self._is_abandoned:
                    return await call(*arguments)
            finally:
                self._under_way.discard(scope)
        raise Unavailable("the connection to the pod is closed", code="kube-unavailable")


def _feed(terminal: PodTerminal, content: Iterable[bytes], failed: list[Exception]) -> None:
    """A way that breaks is noticed by the reader, and a short file by its digest; what cannot be read is told."""
    try:
        for chunk in content:
            for at in range(0, len(chunk), FRAME):
                terminal.send(chunk[at : at + FRAME])
        terminal.end_input()
    except Unavailable:
        return
    except Exception as exc:
        failed.append(exc)
        terminal.abandon()
