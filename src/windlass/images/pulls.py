"""Pulls on all nodes at once: a limit per node and in total, a deadline each, retries with growing pauses.

Names of one image on one node go one after the other, so its layers travel once; the largest images go first, so the
last one to finish is a small one. `sync` checks afterwards that what a node says it pulled is really there.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import anyio
from msgspec import Struct

from windlass.core.distribution import Want
from windlass.images.errors import NodeError, OutputRefused
from windlass.images.guard import DiskGuard, NoRoom
from windlass.images.logs import DayLogs
from windlass.images.nodes import Node
from windlass.images.progress import Progress
from windlass.images.report import Outcome, Result, Traffic
from windlass.images.settings import Settings
from windlass.images.ssh import Finished
from windlass.images.tasks import task_group


class Cause(StrEnum):
    """Why a registry did not give an image, as far as the runtime's words tell."""

    DENIED = "denied"
    ABSENT = "absent"
    UNREACHABLE = "unreachable"
    OTHER = "other"


class Tools(Struct, frozen=True, kw_only=True):
    """What every pull and copy of a run shares."""

    settings: Settings
    logs: DayLogs
    progress: Progress
    guard: DiskGuard
    traffic: Traffic
    total: anyio.CapacityLimiter
    pause: Callable[[int], float]
    """Seconds before try n + 1; from outside, for chance does not belong here."""


_SIGNS: Final = (
    (Cause.DENIED, re.compile(r"unauthorized|denied|authentication required|\b40[13]\b", re.IGNORECASE)),
    (Cause.ABSENT, re.compile(r"not found|manifest unknown|name unknown|no such (?:manifest|image)", re.IGNORECASE)),
    (
        Cause.UNREACHABLE,
        re.compile(
            r"connection (?:refused|reset)|no such host|no route|i/o timeout|unreachable|\bEOF\b|timed? ?out"
            r"|deadline exceeded|\b50[0234]\b|tls|x509|dial tcp|temporary failure",
            re.IGNORECASE,
        ),
    ),
)


def cause_of(text: str) -> Cause:
    return next((cause for cause, sign in _SIGNS if sign.search(text)), Cause.OTHER)


async def pull_all(nodes: Mapping[str, Node], wants: Sequence[Want], tools: Tools, results: list[Result]) -> None:
    """Every want gets exactly one result, added as soon as it is there: a run that is broken off knows what it got."""
    async with task_group() as tasks:
        for name, node in nodes.items():
            groups = _by_image(want for want in wants if want.node == name)
            if not groups:
                continue
            tools.progress.expect(name, sum(map(len, groups)), sum(group[0].size for group in groups))
            worker = _NodePulls(node, deque(groups), tools, results)
            for _ in range(min(tools.settings.max_parallel, len(groups))):
                tasks.start_soon(worker.work)


class _NodePulls:
    """One node's queue; several workers empty it."""

    def __init__(self, node: Node, queue: "deque[list[Want]]", tools: Tools, results: list[Result]) -> None:
        self._node = node
        self._queue = queue
        self._tools = tools
        self._results = results

    async def work(self) -> None:
        while self._queue:
            group = self._queue.popleft()
            async with self._tools.total:
                await self._get(group)

    async def _get(self, group: list[Want]) -> None:
        size = group[0].size
        for want in group:
            result = await self._guarded(want, size)
            self._results.append(result)
            ok = result.outcome is Outcome.SUCCESS
            self._tools.progress.done(self._node.name, size if want is group[0] else 0, ok=ok)
            level = self._tools.logs.info if ok else self._tools.logs.warning
            level(f"{want.node}: {want.name}: {result.words} {result.detail}".rstrip())

    async def _guarded(self, want: Want, size: int) -> Result:
        started = anyio.current_time()
        try:
            await self._tools.guard.check(self._node, size)
            with self._tools.guard.reserved(self._node, size):
                return await self._tries(want, started)
        except NoRoom as error:
            return _failed(want, "DISK", str(error), started)
        except OutputRefused as error:
            return _failed(want, "NODE", str(error), started)
        except NodeError as error:
            return _failed(want, "SSH", str(error), started)

    async def _tries(self, want: Want, started: float) -> Result:
        """All tries together have TIME_OUT: a pull that is late is late, however often it began."""
        attempt = 0
        while True:
            attempt += 1
            left = int(started + self._tools.settings.timeout_seconds - anyio.current_time())
            finished = await self._try(want, max(1, left))
            if finished.exit == 0 or finished.is_late or not self._again(finished, attempt):
                return _result(want, finished, started, attempt)
            pause = self._tools.pause(attempt)
            if pause >= left:
                return _result(want, finished, started, attempt)
            self._tools.logs.debug(f"{want.node}: {want.name}: again in {pause:.1f} s ({finished.stderr})")
            await anyio.sleep(pause)

    async def _try(self, want: Want, timeout_seconds: int) -> Finished:
        try:
            command = self._node.runtime.pull(want.name)
            # What a pull prints is not used; ctr alone fills megabytes with its progress.
            return await self._node.shell.run(command, timeout_seconds=timeout_seconds, stdout_max=None)
        except NodeError as error:
            # The line broke, perhaps only for a moment; the next try connects again.
            return Finished(exit=255, stderr=str(error))

    def _again(self, finished: Finished, attempt: int) -> bool:
        return attempt <= self._tools.settings.retries and cause_of(finished.stderr) in (
            Cause.UNREACHABLE,
            Cause.OTHER,
        )


def _by_image(wants: Iterable[Want]) -> list[list[Want]]:
    groups: dict[str, list[Want]] = {}
    for want in wants:
        groups.setdefault(want.image_id, []).append(want)
    return sorted(groups.values(), key=lambda group: -group[0].size)


def _result(want: Want, finished: Finished, started: float, attempts: int) -> Result:
    late = Outcome.TIMEOUT if finished.is_late else Outcome.FAILED
    return Result(
        node=want.node,
        name=str(want.name),
        outcome=late if finished.exit else Outcome.SUCCESS,
        reason=f"EXIT {finished.exit}" if finished.exit else "",
        detail=finished.stderr if finished.exit else "",
        seconds=anyio.current_time() - started,
        attempts=attempts,
    )


def _failed(want: Want, reason: str, detail: str, started: float) -> Result:
    return Result(
        node=want.node,
        name=str(want.name),
        outcome=Outcome.FAILED,
        reason=reason,
        detail=detail,
        seconds=anyio.current_time() - started,
    )
