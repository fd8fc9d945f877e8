"""Watchers: durable commits handed on from memory; whoever is late or slow replays the log first.

Everything here happens on the event loop, so between two awaits nothing is published. That is what makes the change from
replay to live without gap or double: a watcher collects live commits *before* it reads the log, reads up to the revision
at which it began to collect, and then drops of the collected ones what it has read already.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from windlass.adapters.store.commits import Committed
from windlass.core.errors import Unavailable
from windlass.ports.store import Change

Replay = Callable[[int], Awaitable[Sequence[Committed]]]
"""Reads the log: some commits after a revision, in order; none at its end. Raises Compacted."""

WAITING_COMMITS_MAX = 4_096
WAITING_BYTES_MAX = 8 << 20
"""A watcher further behind than this is served from the log instead of from memory."""


class WatchHub:
    """Knows the newest revision and everyone who wants to hear of the next."""

    def __init__(self, revision: int, replay: Replay) -> None:
        self.revision = revision
        self.replay = replay
        self._watchers: set[_Watcher] = set()
        self._closed = False

    def publish(self, commits: Sequence[Committed]) -> None:
        if not commits:
            return
        self.revision = commits[-1].revision
        for watcher in self._watchers:
            watcher.offer(commits)

    @asynccontextmanager
    async def watch(self, *, after: int, prefix: str) -> AsyncIterator[AsyncIterator[Sequence[Change]]]:
        watcher = _Watcher(self, after, prefix)
        if self._closed:
            watcher.close()
        self._watchers.add(watcher)
        changes = watcher.changes()
        try:
            yield changes
        finally:
            self._watchers.discard(watcher)
            await changes.aclose()

    def close(self) -> None:
        self._closed = True
        for watcher in self._watchers:
            watcher.close()


class _Watcher:
    def __init__(self, hub: WatchHub, after: int, prefix: str) -> None:
        self._hub = hub
        self._cursor = after
        """All that concerns us up to here has been handed on."""
        self._collected_from = after
        """All that concerns us above this, and above the cursor, is waiting in memory, unless we are behind."""
        self._is_behind = after < hub.revision
        self._is_closed = False
        self._prefix = prefix
        self._waiting: deque[Committed] = deque()
        self._waiting_bytes = 0
        self._news = asyncio.Event()

    def offer(self, commits: Sequence[Committed]) -> None:
        for commit in commits:
            if self._is_behind:
                break  # the log will tell
            if commit.revision > self._cursor and self._concerns(commit):
                self._keep(commit)
        self._news.set()

    def close(self) -> None:
        self._is_closed = True
        self._news.set()

    async def changes(self) -> AsyncGenerator[Sequence[Change], None]:
        while True:
            if self._is_behind:
                self._start_collecting()
                async for commit in self._replayed():
                    yield self._selected(commit)
            elif self._waiting:
                commit = self._waiting.popleft()
                self._waiting_bytes -= commit.size
                if commit.revision > self._cursor:
                    self._cursor = commit.revision
                    yield self._selected(commit)
            else:
                await self._hear()

    async def _hear(self) -> None:
        if self._is_closed:
            raise Unavailable("the store was closed", code="store-closed")
        self._news.clear()
        await self._news.wait()

    def _start_collecting(self) -> None:
        self._is_behind = False
        self._collected_from = self._hub.revision
        self._waiting.clear()
        self._waiting_bytes = 0

    async def _replayed(self) -> AsyncIterator[Committed]:
        while self._cursor < self._collected_from:
            for commit in await self._hub.replay(self._cursor):
                self._cursor = max(self._cursor, commit.revision)
                if self._concerns(commit):
                    yield commit

    def _keep(self, commit: Committed) -> None:
        self._waiting.append(commit)
        self._waiting_bytes += commit.size
        if len(self._waiting) > WAITING_COMMITS_MAX or self._waiting_bytes > WAITING_BYTES_MAX:
            if self._cursor >= self._collected_from:
                # All that concerned us below the oldest one waiting was handed on: no need to read it again, and a
                # compaction of it does not matter.
                self._cursor = max(self._cursor, self._waiting[0].revision - 1)
            self._is_behind = True
            self._waiting.clear()

    def _concerns(self, commit: Committed) -> bool:
        prefix = self._prefix
        return not prefix or any(change.key.startswith(prefix) for change in commit.changes)

    def _selected(self, commit: Committed) -> Sequence[Change]:
        if not self._prefix:
            return commit.changes
        return tuple(change for change in commit.changes if change.key.startswith(self._prefix))
