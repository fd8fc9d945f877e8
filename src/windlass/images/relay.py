"""One stream from a sending node to several receivers, through here: read once, written to each, nothing stored.

Backpressure holds memory flat: the sender is read only as fast as the receivers take it. A receiver that fails or
stalls drops out; the others go on.
"""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import anyio
from msgspec import Struct

from windlass.images.archive import BadArchive, MemberFilter
from windlass.images.errors import NodeError
from windlass.images.ssh import STDERR_MAX, Argv, Running, Shell
from windlass.images.tasks import task_group
from windlass.images.text import clean

if TYPE_CHECKING:
    import asyncssh

_CHUNK: Final = 1 << 20
_STALL_SECONDS: Final = 120
"""A receiver that takes nothing for so long holds up the others and is given up."""


class Target(Struct, frozen=True, kw_only=True):
    node: str
    shell: Shell
    load: Argv
    skip: frozenset[str] = frozenset()


class Arrival(Struct, frozen=True, kw_only=True):
    """How it ended at one receiver."""

    node: str
    exit: int
    received_bytes: int
    detail: str = ""


class Relayed(Struct, frozen=True, kw_only=True):
    sent_bytes: int
    """Read from the sender, once, however many received."""
    arrivals: tuple[Arrival, ...]
    sender_fault: str = ""
    """Why the stream is not whole, though receivers were there to take it."""


async def relay(sender: Shell, stages: Sequence[Argv], targets: Sequence[Target], *, timeout_seconds: int) -> Relayed:
    """Stream the output of `stages` into every target's loader."""
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(sender.process(*stages, timeout_seconds=timeout_seconds))
        source = running.process
        source.stdin.write_eof()
        receivers = [_Receiver(target) for target in targets]
        for receiver in receivers:
            await receiver.open(stack, timeout_seconds)
        errors = bytearray()
        async with task_group() as tasks:
            tasks.start_soon(_drain, source.stderr, errors)
            for receiver in receivers:
                tasks.start_soon(receiver.drain)
            sent = await _pump(source, receivers)
            if not any(receiver.is_open for receiver in receivers):
                await running.end()
            await source.wait_closed()
            code = running.exit_code
            fault = f"exit {code}: {_text(errors)}" if code and any(r.is_open for r in receivers) else ""
            if fault:
                for receiver in receivers:
                    await receiver.give_up(f"the sender failed ({fault})")
            await _finish(receivers)
        arrivals = tuple(receiver.arrival() for receiver in receivers)
        return Relayed(sent_bytes=sent, arrivals=arrivals, sender_fault=fault)


async def _pump(source: "asyncssh.SSHClientProcess[bytes]", receivers: Sequence["_Receiver"]) -> int:
    """Until the sender has no more, or nobody takes it; then the sender's command is ended by whoever opened it."""
    sent = 0
    while chunk := await source.stdout.read(_CHUNK):
        sent += len(chunk)
        open_ones = [receiver for receiver in receivers if receiver.is_open]
        if not open_ones:
            break
        for receiver in open_ones:
            receiver.write(chunk)
        for receiver in open_ones:
            await receiver.flush()
    return sent


async def _finish(receivers: Sequence["_Receiver"]) -> None:
    async with task_group() as tasks:
        for receiver in receivers:
            tasks.start_soon(receiver.finish)


class _Receiver:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._filter = MemberFilter(target.skip)
        self._running: Running | None = None
        self._errors = bytearray()
        self._received = 0
        self._fault = ""

    @property
    def is_open(self) -> bool:
        return self._running is not None and not self._fault

    async def open(self, stack: contextlib.AsyncExitStack, timeout_seconds: int) -> None:
        try:
            process = self._target.shell.process(self._target.load, timeout_seconds=timeout_seconds)
            self._running = await stack.enter_async_context(process)
        except NodeError as error:
            self._fault = str(error)

    def write(self, chunk: bytes) -> None:
        assert self._running is not None
        try:
            for piece in self._filter.feed(chunk):
                self._received += len(piece)
                self._running.process.stdin.write(piece)
        except (OSError, BadArchive) as error:
            self._fault = self._fault or f"the stream broke: {clean(str(error), 80)}"

    async def flush(self) -> None:
        if not self.is_open or self._running is None:
            return
        try:
            with anyio.fail_after(_STALL_SECONDS):
                await self._running.process.stdin.drain()
        except TimeoutError:
            await self.give_up(f"took nothing for {_STALL_SECONDS} s")
        except OSError as error:
            self._fault = self._fault or f"stopped reading: {clean(str(error), 80)}"

    async def drain(self) -> None:
        if self._running is not None:
            async with task_group() as tasks:
                tasks.start_soon(_drain, self._running.process.stderr, self._errors)
                tasks.start_soon(_drain, self._running.process.stdout, bytearray())

    async def finish(self) -> None:
        if self._running is None:
            return
        if self._fault:
            await self._running.end()
            return
        with contextlib.suppress(OSError):
            self._running.process.stdin.write_eof()
        await self._running.process.wait_closed()

    async def give_up(self, reason: str) -> None:
        """End the loader, so that it cannot take what came so far for the whole."""
        self._fault = self._fault or reason
        if self._running is not None:
            await self._running.end()

    def arrival(self) -> Arrival:
        code = self._running.exit_code if self._running is not None else 255
        if self._fault and code == 0:
            code = 255
        words = _text(self._errors)
        detail = " ".join(part for part in (self._fault, words) if part) if code else ""
        return Arrival(node=self._target.node, exit=code, received_bytes=self._received, detail=detail)


async def _drain(reader: "asyncssh.SSHReader[bytes]", into: bytearray) -> None:
    while chunk := await reader.read(16 << 10):
        into.extend(chunk[: max(0, STDERR_MAX - len(into))])


def _text(raw: bytearray) -> str:
    return clean(raw.decode("utf-8", "replace"))
