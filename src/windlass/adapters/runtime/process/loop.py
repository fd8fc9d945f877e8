"""A small event loop for the executor's side: descriptors, timers and signals, in one thread. Standard library only.

asyncio would do it too, at twice the memory, and every shim is a fork of this process.
"""

import heapq
import os
import select
import signal
import time
from collections.abc import Callable, Iterable

Call = Callable[[], None]


class Loop:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, tuple[Call, Call]] = {}
        self._timers: list[tuple[float, int, Call]] = []
        self._count = 0

    def watch(self, fd: int, on_readable: Call | None, on_writable: Call | None = None) -> None:
        """Call when ready, until told otherwise; both None forgets it. Watching again changes what is watched."""
        if on_readable is None and on_writable is None:
            self.forget(fd)  # epoll reports a hang-up even to those who asked for nothing: it would spin
            return
        events = (select.EPOLLIN if on_readable else 0) | (select.EPOLLOUT if on_writable else 0)
        if fd in self._calls:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
        self._calls[fd] = (on_readable or _nothing, on_writable or _nothing)

    def forget(self, fd: int) -> None:
        """Always before closing it: a forked child may hold the same file, and epoll goes by the file."""
        if self._calls.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def later(self, seconds: float, call: Call) -> None:
        self._count += 1
        heapq.heappush(self._timers, (time.monotonic() + seconds, self._count, call))

    def watch_signals(self, signals: Iterable[signal.Signals], call: Callable[[bytes], None]) -> None:
        """`call` runs in the loop with the numbers of those that came; equal ones may become one. Unblocks them."""
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in signals:
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, list(signals))

        def wake() -> None:
            call(os.read(reading, 512))

        self.watch(reading, wake)

    def turn(self) -> None:
        """Wait for something and do all that is ready."""
        for fd, events in self._epoll.poll(self._wait()):
            on_readable, on_writable = self._calls.get(fd, (_nothing, _nothing))
            if events & select.EPOLLOUT:
                on_writable()
            if events & ~select.EPOLLOUT and fd in self._calls:
                # Whoever only writes hears of an end or error by its next write.
                (on_readable if on_readable is not _nothing else on_writable)()
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()

    def _wait(self) -> float:
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else -1


def _nothing() -> None:
    return


def _noted(_number: int, _frame: object) -> None:
    """The wake-up descriptor carries the news; without a handler the signal would act as by default."""
