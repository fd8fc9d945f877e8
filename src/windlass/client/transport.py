"""One kept-alive HTTP connection, with retries where a repeat is harmless, and streams beside it.

A call may be repeated when it is idempotent by nature or carries an Idempotency-Key. A connection that was never made is
always worth another try: nothing can have happened. Not for use from several threads; `another()` gives each its own.
"""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.client import problems
from windlass.client.connection import Connection
from windlass.client.http1 import Answer as RawAnswer
from windlass.client.http1 import Body, Broken, Link
from windlass.client.retry import Backoff, Patience
from windlass.core.errors import Invalid, Unavailable, WindlassError

CHUNK = 1 << 16
REVISION = "Windlass-Revision"
STALE = "windlass-stale"
BEHIND = "read-model-behind"
"""Said before anything was done: the server did not come to look for what the call is about."""

Query = Mapping[str, str | int | bool | list[str] | None]


class Answer(Struct, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        try:
            return msgspec.json.decode(self.body)
        except msgspec.MsgspecError as exc:
            raise WindlassError(
                "the answer is not JSON: is this address a Windlass server?", code="not-windlass"
            ) from exc


class Timeouts(Struct, frozen=True, kw_only=True):
    connect_seconds: float = 5.0
    answer_seconds: float = 60.0
    silence_seconds: float = 60.0
    """A stream sends a comment every few seconds; this much silence means that the other side is gone."""


class Transport:
    def __init__(
        self,
        connection: Connection,
        *,
        timeouts: Timeouts | None = None,
        patience: Patience | None = None,
        backoff: Callable[..., Backoff] = Backoff,
    ) -> None:
        self.connection = connection
        self._timeouts = timeouts or Timeouts()
        self._patience = patience or Patience()
        self._backoff = backoff
        self._host, self._port, self._is_tls, self._base = _split(connection.url)
        self._kept: Link | None = None
        self._is_known = False
        self.revision = 0
        """The highest the server has shown us; sent back, so that we read our own writes from any server."""

    def another(self) -> "Transport":
        twin = Transport(self.connection, timeouts=self._timeouts, patience=self._patience, backoff=self._backoff)
        twin._is_known, twin.revision = self._is_known, self.revision
        return twin

    def new_backoff(self) -> Backoff:
        return self._backoff(self._patience, is_known=self._is_known)

    def target(self, path: str, query: Query | None) -> str:
        """Path and query as they go on the wire."""
        pairs = {k: _as_text(v) for k, v in (query or {}).items() if v is not None}
        return self._base + path + (f"?{urlencode(pairs, doseq=True)}" if pairs else "")

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | Body | None = None,
        headers: Mapping[str, str] | None = None,
        may_repeat: bool | None = None,
    ) -> Answer:
        """The answer, or the error it stands for."""
        repeatable = method in {"GET", "PUT", "DELETE"} if may_repeat is None else may_repeat
        was_known, backoff, target = self._is_known, self.new_backoff(), self.target(path, query)
        while True:
            if not repeatable:
                self.close()  # a kept connection may be gone without our knowing, and then we could not tell what happened
            try:
                answer = self._once(method, target, body, self._headers(headers, body))
                return self._fresher(answer, target, headers) if method == "GET" and STALE in answer.headers else answer
            except _Broken as exc:
                if not repeatable:
                    raise exc.error from exc
                failure, hold = exc.error, 0.0
            except _NeverConnected as exc:
                failure, hold = exc.error, 0.0
            except Unavailable as exc:
                if not repeatable and exc.code != BEHIND:
                    raise
                if not was_known:  # it has answered: no stranger any more
                    was_known, backoff = True, self.new_backoff()
                failure, hold = exc, float(exc.retry_after_seconds)
            if not backoff.again(at_least=hold):
                raise failure

    @contextmanager
    def stream(
        self, path: str, *, query: Query | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator["Stream"]:
        """An answer whose bytes come over time, on a connection of its own. Opening is retried, reading is not."""
        target, backoff = self.target(path, query), self.new_backoff()
        while True:
            try:
                opened = self._open(target, self._headers(headers, None))
                break
            except (_NeverConnected, _Broken) as exc:
                if not backoff.again():
                    raise exc.error from exc
            except Unavailable as exc:
                if not backoff.again(at_least=float(exc.retry_after_seconds)):
                    raise
        with closing(opened):
            yield opened

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _once(self, method: str, target: str, body: bytes | Body | None, headers: dict[str, str]) -> Answer:
        link = self._kept or self._connect(self._timeouts.answer_seconds)
        self._kept = link
        try:
            raw = link.exchange(method, target, headers, body)
            content = raw.read_all()
        except OSError as exc:
            self.close()
            raise _Broken(self._unreachable(exc)) from exc
        if raw.is_last:
            self.close()
        self._note(raw)
        if raw.status >= 400:
            raise _refusal(raw, content)
        return Answer(status=raw.status, headers=raw.headers, body=content)

    def _fresher(self, answer: Answer, target: str, headers: Mapping[str, str] | None) -> Answer:
        """A list that is behind what was decided before it was asked for: it soon is not, unless the server is very busy."""
        patience = replace(self._patience, known_seconds=self._patience.stale_seconds)
        backoff = self._backoff(patience, is_known=True)
        while STALE in answer.headers and backoff.again():
            answer = self._once("GET", target, None, self._headers(headers, None))
        return answer

    def _open(self, target: str, headers: dict[str, str]) -> "Stream":
        link = self._connect(self._timeouts.silence_seconds)
        try:
            raw = link.exchange("GET", target, headers, None)
            self._note(raw)
            if raw.status >= 400:
                raise _refusal(raw, raw.read_all())
        except OSError as exc:
            link.close()
            raise _Broken(self._unreachable(exc)) from exc
        except WindlassError:
            link.close()
            raise
        return Stream(link, raw)

    def _connect(self, read_seconds: float) -> Link:
        try:
            return Link(
                self._host,
                self._port,
                is_tls=self._is_tls,
                connect_seconds=self._timeouts.connect_seconds,
                read_seconds=read_seconds,
            )
        except OSError as exc:
            raise _NeverConnected(self._unreachable(exc)) from exc

    def _note(self, raw: RawAnswer) -> None:
        self._is_known = True
        shown = raw.headers.get(REVISION.lower(), "")
        if shown.isdigit():
            self.revision = max(self.revision, int(shown))

    def _headers(self, extra: Mapping[str, str] | None, body: bytes | Body | None) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "windlass-client"}
        if self.connection.token:
            headers["Authorization"] = f"Bearer {self.connection.token}"
        if self.revision:
            headers[REVISION] = str(self.revision)
        if body is not None:
            headers["Content-Length"] = str(len(body) if isinstance(body, bytes) else body.length)
            headers["Content-Type"] = "application/json"
        return headers | dict(extra or {})

    def _unreachable(self, exc: Exception) -> Unavailable:
        why = "it did not answer in time" if isinstance(exc, TimeoutError) else _words(exc)
        return Unavailable(
            f"no Windlass server at {self.connection.url}: {why}",
            code=problems.UNREACHABLE,
            hint="start one with `windlass up`, or set WINDLASS_URL to where yours listens",
        )


class Stream:
    """Bytes of one long answer. `close` may be called from another thread and ends a blocked read."""

    def __init__(self, link: Link, raw: RawAnswer) -> None:
        self._link, self._raw = link, raw
        self.headers = raw.headers
        self.length = raw.length
        """None when the server cannot know it beforehand."""

    def read(self, size: int = CHUNK, /) -> bytes:
        """Empty only at the end; a connection that breaks off before it is an error, never a short file."""
        return self._raw.read(size)

    def lines(self) -> Iterator[bytes]:
        """Without their newline. An unfinished last line is not a line."""
        rest = b""
        while chunk := self._raw.read(CHUNK):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole

    def close(self) -> None:
        self._link.shut()
        self._link.close()


class _NeverConnected(Exception):
    """Nothing was sent, so nothing can have happened."""

    def __init__(self, error: Unavailable) -> None:
        super().__init__(str(error))
        self.error = error


class _Broken(Exception):
    """The request may have been carried out, the answer did not come."""

    def __init__(self, error: Unavailable) -> None:
        super().__init__(str(error))
        self.error = error


def segment(name: str) -> str:
    """A name as one part of a path, whatever it contains; but what the path itself would swallow was never a name."""
    if name in ("", ".", ".."):
        raise Invalid(f"{name!r} is not a name", hint="an empty one is most often a variable that is not set")
    return quote(name, safe="")


def _refusal(raw: RawAnswer, content: bytes) -> WindlassError:
    return problems.to_error(problems.read_problem(raw.status, content), retry_after=raw.headers.get("retry-after"))


def _split(url: str) -> tuple[str, int, bool, str]:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == -1 or parts.query or parts.fragment:
        raise Invalid(
            f"{url!r} is not the address of a server",
            hint="an address looks like http://127.0.0.1:8080; check --url and WINDLASS_URL",
        )
    is_tls = parts.scheme == "https"
    return parts.hostname, port or (443 if is_tls else 80), is_tls, parts.path.rstrip("/")


def _as_text(value: str | int | bool | list[str] | None) -> str | list[str]:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, list) else str(value)


def _words(exc: Exception) -> str:
    if isinstance(exc, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(exc, socket.gaierror):
        return "the host name is not known"
    if isinstance(exc, Broken):
        return str(exc)
    if isinstance(exc, ConnectionError):
        return "the connection broke off"
    return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
