"""Where a watcher passes from the log to memory and back: the moments that no outside test can hit on purpose."""

from collections.abc import Callable, Sequence

import anyio
import pytest

from windlass.adapters.store import watching
from windlass.adapters.store.commits import Committed
from windlass.adapters.store.watching import WatchHub
from windlass.ports.store import Change, Compacted

pytestmark = pytest.mark.anyio


class Line:
    """A log and a hub. `during_replay` is called once per page, after it was read and before it is handed over."""

    def __init__(self, *, page: int = 1_000) -> None:
        self.log: list[Committed] = []
        self.compacted = 0
        self.during_replay: Callable[[], None] = lambda: None
        self.hub = WatchHub(0, self._replay)
        self._page = page

    def commit(self, key: str = "/a") -> None:
        revision = len(self.log) + 1
        self.log.append(Committed(revision, (Change(revision=revision, key=key, value=b""),), 1))

    def publish(self) -> None:
        self.hub.publish(self.log[self.hub.revision :])

    async def hear(self, commits: int, *, after: int = 0, prefix: str = "") -> list[int]:
        async with self.hub.watch(after=after, prefix=prefix) as changes:
            with anyio.fail_after(120):
                return [(await anext(changes))[0].revision for _ in range(commits)]

    async def _replay(self, after: int) -> Sequence[Committed]:
        if after + 1 < self.compacted:
            raise Compacted("gone")
        page = self.log[after : after + self._page]
        self.during_replay()
        return page


async def test_a_commit_that_is_read_from_the_log_and_then_published_is_told_once() -> None:
    line = Line()
    line.commit()
    line.publish()
    line.commit()  # durable and in the log, but its publication is still on its way
    line.during_replay = line.publish

    async with line.hub.watch(after=0, prefix="") as changes:
        heard = [(await anext(changes))[0].revision for _ in range(2)]
        line.commit()
        line.publish()
        heard.append((await anext(changes))[0].revision)
    assert heard == [1, 2, 3]


async def test_commits_published_while_the_log_is_read_are_not_lost() -> None:
    line = Line(page=1)
    for _ in range(5):
        line.commit()
    line.publish()

    def meanwhile() -> None:
        line.commit()
        line.publish()

    line.during_replay = meanwhile
    assert await line.hear(10) == list(range(1, 11))


async def test_a_watcher_that_falls_behind_while_it_reads_the_log_skips_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "WAITING_COMMITS_MAX", 2)
    line = Line(page=3)
    for _ in range(9):
        line.commit()
    line.publish()
    bursts = iter(range(2))

    def burst() -> None:
        if next(bursts, None) is not None:
            for _ in range(5):
                line.commit()
            line.publish()

    line.during_replay = burst
    assert await line.hear(19) == list(range(1, 20))


async def test_history_that_did_not_concern_a_watcher_may_be_compacted_behind_its_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "WAITING_COMMITS_MAX", 2)
    line = Line()
    line.commit("/mine")
    line.publish()
    async with line.hub.watch(after=0, prefix="/mine") as changes:
        heard = [(await anext(changes))[0].revision]
        for _ in range(10):
            line.commit("/other")
        line.publish()
        line.compacted = 11
        for _ in range(4):  # more than may wait in memory: the log has to tell
            line.commit("/mine")
        line.publish()
        heard += [(await anext(changes))[0].revision for _ in range(4)]
    assert heard == [1, 12, 13, 14, 15]


async def test_what_has_not_concerned_anyone_does_not_wait_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "WAITING_COMMITS_MAX", 2)
    line = Line()
    line.compacted = 10_000  # reading the log would fail
    async with line.hub.watch(after=0, prefix="/mine") as changes:
        for _ in range(50):
            line.commit("/other")
        line.commit("/mine")
        line.publish()
        assert (await anext(changes))[0].revision == 51
