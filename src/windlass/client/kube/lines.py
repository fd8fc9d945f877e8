"""What a job on a cluster printed: from its pod while that lives, from the sealed log after, each line once."""

import base64
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import httpx2

from windlass.client.documents import LogLine
from windlass.client.kube.api import CONFIG_MAPS, JOBS, PODS
from windlass.client.kube.door import KubeDoor
from windlass.core.errors import Invalid, NotFound, Unavailable, WindlassError
from windlass.wire.kube.names import Document, log_name, owner_uid, pod_name
from windlass.wire.kube.volume import LOG_KEY

LOOK_SECONDS: Final = 0.3
ABSENT: Final = "log-absent"
UNREADABLE: Final = "log-unreadable"
OVER: Final = ("Succeeded", "Failed")
LOST_WITH_POD: Final = frozenset({"PodDeleted", "NodeLost"})
"""Ends of a run that leave nobody to ask for what it printed."""


class KubeLog:
    """Iterate once. When followed it goes on over retries and ends with the job."""

    def __init__(
        self, door: KubeDoor, job: Document, *, follow: bool, attempt: int | None, tail: int | None, from_first: bool
    ) -> None:
        self._door = door
        self._name = job["metadata"]["name"]
        self._namespace = job["metadata"]["namespace"]
        self._uid = job["metadata"]["uid"]
        self._follow = follow
        self._attempt = attempt
        self._tail = tail
        self._from_first = from_first
        self.end: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[LogLine]:
        status = self._status()
        newest = status.get("attempt", 0)
        if not self._follow:
            attempt = self._attempt or newest
            if attempt > newest:
                raise NotFound(f"there is no attempt {attempt}", code="no-such-attempt")
            lines = self._kept(attempt) if attempt else []
            yield from _lines(lines if self._tail is None else lines[len(lines) - min(self._tail, len(lines)) :])
            return
        attempt = 1 if self._from_first else max(newest, 1)
        yield from self._followed(attempt)
        while self._has_next(attempt):
            attempt += 1
            yield from self._followed(attempt)

    def close(self) -> None:
        self._door.close()

    def _followed(self, attempt: int) -> Iterator[LogLine]:
        """Of one run, to its end. The pod may go before its stream has: the rest is then in the sealed log."""
        count = 0
        while not self._is_settled(attempt):
            try:
                with self._pod_log(attempt, {"follow": "true"}) as answer:
                    for number, line in enumerate(answer.iter_lines()):
                        if number >= count:  # after a break the stream begins anew
                            count += 1
                            yield from _lines([line])
            except (NotFound, Invalid, Unavailable):
                pass  # not started yet, or gone already
            time.sleep(LOOK_SECONDS)
        try:
            kept = self._kept(attempt)
        except WindlassError as exc:
            if count and exc.code in (ABSENT, UNREADABLE):
                return  # it was read while it was there
            raise
        yield from _lines(kept[count:])

    def _has_next(self, attempt: int) -> bool:
        """Known when it begins, or when the job is over without it: a retry may wait for minutes before."""
        while (status := self._status()).get("attempt", 0) <= attempt:
            if status.get("phase") in OVER:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def _is_settled(self, attempt: int) -> bool:
        """The run is over and its log sealed: the operator says so only then."""
        status = self._status()
        return status.get("phase") in OVER or status.get("attempt", 0) > attempt or "retryAt" in status

    def _kept(self, attempt: int) -> list[str]:
        """From the sealed log if it is this job's, else from its pod. Silence would say that it printed nothing: it does so
        only when the status names no log of that run, and the run did not end with its pod."""
        named = self._named(attempt)
        name = named or log_name(self._name, attempt)
        sealed = self._door.get(CONFIG_MAPS, name, self._namespace)
        if sealed is not None and owner_uid(sealed) == self._uid:
            return _unpacked(sealed).decode(errors="replace").removesuffix("\n").split("\n")
        try:
            with self._pod_log(attempt, {}) as answer:
                return list(answer.iter_lines())
        except (NotFound, Invalid):
            if sealed is not None:
                words = (
                    f"the log of {self._name} is not here: ConfigMap {name} is something else, not made for this job"
                )
                raise NotFound(words, code=ABSENT, hint="delete or rename that ConfigMap, for the next run") from None
            if named:
                words = f"the log of {self._name} is gone: there is no ConfigMap {name} any more"
                raise NotFound(words, code=ABSENT) from None
            if why := self._why_lost(attempt):
                raise NotFound(f"no log of {self._name} was kept: {why}", code=ABSENT) from None
            return []

    def _why_lost(self, attempt: int) -> str:
        """Only of the run that a job ended with: of those before it the status no longer tells how they ended."""
        status = self._status()
        is_last = attempt == status.get("attempt", 0) and status.get("phase") in OVER
        if not is_last or status.get("reason") not in LOST_WITH_POD:
            return ""
        return str(status.get("message") or status["reason"])

    def _named(self, attempt: int) -> str:
        """What the status says that the log of that run is kept as. It names the newest there is, which may be an earlier run's."""
        status = self._status()
        named: str = status.get("logName", "")
        earlier = {log_name(self._name, number) for number in range(1, attempt)}
        return named if attempt == status.get("attempt", 0) and named not in earlier else ""

    @contextmanager
    def _pod_log(self, attempt: int, query: Mapping[str, str]) -> Iterator[httpx2.Response]:
        """Of the pod that is this job's: an earlier job of that name may have left its own."""
        name = pod_name(self._name, attempt)
        pod = self._door.get(PODS, name, self._namespace)
        if pod is None or owner_uid(pod) != self._uid:
            raise NotFound(f"there is no pod {name} of this job")
        with self._door.stream(PODS.path(self._namespace, name, "log"), query) as answer:
            yield answer

    def _status(self) -> Document:
        job = self._door.get(JOBS, self._name, self._namespace)
        if job is None or job["metadata"]["uid"] != self._uid:
            raise NotFound(f"job {self._name} is gone")
        status: Document = job.get("status", {})
        return status


def _unpacked(sealed: Document) -> bytes:
    try:
        return zlib.decompress(base64.b64decode(sealed["binaryData"][LOG_KEY], validate=True), wbits=31)
    except (KeyError, TypeError, ValueError, zlib.error) as exc:
        name = sealed["metadata"]["name"]
        raise Invalid(f"ConfigMap {name} holds no log that can be read", code=UNREADABLE) from exc


def _lines(texts: list[str]) -> Iterator[LogLine]:
    for text in texts:
        yield {"at": "", "stream": "stdout", "text": text}
