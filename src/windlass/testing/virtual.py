# ruff: noqa: SLF001 - an event loop is made of what asyncio and anyio keep to themselves
"""Virtual time: an event loop that never waits, on which the product's own code runs unchanged.

When nothing is ready the clock jumps to the next timer, so that ten minutes take a second and a run is a function of its seed.
There are no threads, no sockets and no real clock here: whoever asks for one is told. Several simulated processes share the
loop; `kill` ends one as SIGKILL does, between any two of its steps, with no `finally` run.
"""

import asyncio
import gc
import itertools
import math
import sys
import threading
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, NoReturn, TypeVar

import structlog
from anyio._backends import _asyncio as anyio_backend

from windlass.core.model.ids import Millis

T = TypeVar("T")

_STEPS_WITHOUT_TIME_MAX: Final = 500_000
_SERVICE_TIME_AT_START: Final = 1_000_000_000
_WALL_AT_START: Final = 1_750_000_000.0
_DAY_SECONDS: Final = 86_400.0


class Deadlock(RuntimeError):
    """Everybody waits and no timer is set: nothing would ever happen again."""


class Livelock(RuntimeError):
    """Very many steps and no time passed: somebody polls without a pause."""


class NotVirtual(RuntimeError):
    """Something asked for a thread, a socket or another process: its outcome would not follow from the seed."""


class Process:
    """All tasks begun by one simulated process, and what happens to it when one of them fails."""

    def __init__(self, loop: "VirtualLoop", name: str, *, on_failure: Callable[[BaseException], None]) -> None:
        self.name = name
        self.is_dead = False
        self._mourners: list[Callable[[], object]] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self._loop = loop
        self._on_failure = on_failure

    def spawn(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Begin `work` in this process. A failure is the process's: it is reported, and nothing is caught silently."""
        context = copy_context()
        context.run(_PROCESS.set, self)
        self._loop.create_task(work(), context=context).add_done_callback(self._ended)

    def when_dead(self, mourner: Callable[[], object]) -> None:
        self._mourners.append(mourner)

    def kill(self) -> None:
        """At this very step: its tasks are never resumed, what it held in memory is gone with it."""
        if self.is_dead:
            return
        self.is_dead = True
        self._loop.drop_handles_of(self)
        for mourner in self._mourners:
            mourner()

    def _ended(self, task: asyncio.Task[object]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)


_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class VirtualTask(asyncio.Task[T]):
    """Hashed by its number: anyio cancels tasks in the order of a set, which must not follow from addresses."""

    _number: int

    def __hash__(self) -> int:
        return self._number

    def __repr__(self) -> str:
        """Short: anyio writes it into every cancellation."""
        return f"<task {self._number}>"


class VirtualLoop(asyncio.BaseEventLoop):
    # What the base class has and its stubs do not say.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _thread_id: int | None

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._clock_resolution = 1e-9
        self._selector = self  # the base class asks it to wait; `select` is where time jumps
        self._steps_without_time = 0
        self._numbers = itertools.count(1)
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Called once per turn: with 0 while something is ready, else with the time to the next timer."""
        if timeout != 0:
            self._steps_without_time = 0
            self._now = self._next_timer_at()
        else:
            self._steps_without_time += 1
            if self._steps_without_time > _STEPS_WITHOUT_TIME_MAX:
                raise Livelock(f"{_STEPS_WITHOUT_TIME_MAX} turns at {self._now} s")
        return []

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = super().call_soon(callback, *args, context=context)
        self._bury(handle, context)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        self._bury(handle, context)
        return handle

    def drop_handles_of(self, process: Process) -> None:
        for handle in [*self._ready, *self._scheduled]:
            if _process_of(handle._context) is process:  # type: ignore[attr-defined]
                handle.cancel()

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        raise NotVirtual(f"a thread was asked for: {func}")

    def _bury(self, handle: asyncio.Handle, context: Context | None) -> None:
        """What a dead process's tasks would still do is never done."""
        process = _process_of(context)
        if process is not None and process.is_dead:
            handle.cancel()

    def _make_task(self, _: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> "VirtualTask[Any]":
        task: VirtualTask[Any] = VirtualTask.__new__(VirtualTask)
        task._number = next(self._numbers)
        task.__init__(coro, loop=self, **options)  # type: ignore[misc]
        process = _process_of(options.get("context"))
        if process is not None:
            process.tasks.append(task)
        return task

    def _next_timer_at(self) -> float:
        at = self._scheduled[0].when() if self._scheduled else math.inf
        if at == math.inf:  # how anyio sleeps for ever
            raise Deadlock("everybody waits and no timer is set")
        return max(self._now, at)

    def _process_events(self, event_list: list[Any]) -> None:
        return None

    def _write_to_self(self) -> None:
        if threading.get_ident() != self._thread_id:
            raise NotVirtual("another thread called in")


class VirtualClock:
    """`ports.clock.Clock` on a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> Millis:
        return Millis(_SERVICE_TIME_AT_START + round(self._loop.time() * 1_000_000) // 1000)

    def wall(self, at: Millis) -> float:
        return _WALL_AT_START + (at - _SERVICE_TIME_AT_START) / 1000

    async def sleep_until(self, at: Millis) -> None:
        await asyncio.sleep(0)
        while (left := at - self.now()) > 0:  # noqa: ASYNC110 - time itself is what is waited for
            await asyncio.sleep(min(left / 1000, _DAY_SECONDS))


def run_virtual(main: Callable[[VirtualLoop], Awaitable[T]]) -> T:
    """`main` from beginning to end on a loop of its own. Garbage is collected afterwards: its moment is not the seed's."""
    loop = VirtualLoop()
    loop.set_exception_handler(_ignore_the_dead)
    was_collecting = gc.isenabled()
    gc.disable()
    gc.freeze()  # what was there before need not be looked through at the end
    try:
        with _virtual_anyio():
            return loop.run_until_complete(_as_coroutine(main, loop))
    finally:
        with _virtual_anyio(), _silence():
            _close_all(loop)
            gc.collect()
        gc.unfreeze()
        if was_collecting:
            gc.enable()


async def _as_coroutine(main: Callable[[VirtualLoop], Awaitable[T]], loop: VirtualLoop) -> T:
    return await main(loop)


def _process_of(context: Context | None) -> Process | None:
    return _PROCESS.get() if context is None else context.get(_PROCESS)


def _ignore_the_dead(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A killed process leaves tasks that never end; that is what killing means. Failures are reported by their process."""


def _close_all(loop: VirtualLoop) -> None:
    """Coroutines of killed processes can only be closed, which runs their `finally`: here, where nobody hears it."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        with suppress(BaseException):
            task.get_coro().close()  # type: ignore[union-attr, unused-ignore]
    loop.close()


@contextmanager
def _silence() -> Iterator[None]:
    hook, logging = sys.unraisablehook, structlog.get_config()
    sys.unraisablehook = lambda _: None
    structlog.configure(processors=[_drop])
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        sys.unraisablehook = hook
        structlog.configure(**logging)


def _drop(logger: Any, method: str, event: Any) -> NoReturn:
    raise structlog.DropEvent


class _NumberedScope(anyio_backend.CancelScope):
    """Hashed by its number, as tasks are: anyio cancels nested scopes in the order of a set."""

    _numbers = itertools.count(1)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._number = next(self._numbers)

    def __hash__(self) -> int:
        return self._number


def _no_thread(*_: Any) -> NoReturn:
    raise NotVirtual("a thread was asked for")


@contextmanager
def _virtual_anyio() -> Iterator[None]:
    _NumberedScope._numbers = itertools.count(1)
    scope, thread = anyio_backend.CancelScope, anyio_backend.WorkerThread
    anyio_backend.CancelScope = _NumberedScope  # type: ignore[misc, assignment]
    anyio_backend.WorkerThread = _no_thread  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        anyio_backend.CancelScope = scope  # type: ignore[misc]
        anyio_backend.WorkerThread = thread  # type: ignore[misc]
