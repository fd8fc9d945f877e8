"""Service time on a real machine: it counts with the kernel's BOOTTIME and survives restarts by an anchor in a file.

While the machine is up, neither a jump of the wall clock nor a suspended laptop moves it. After a reboot only the wall clock
knows how long it was: its difference is taken, unless it is over a day; then time is held, loudly, until somebody confirms it,
because a wrong clock must not delete anybody's data.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import structlog
from msgspec import DecodeError, Struct, json

from windlass.core.errors import Invalid
from windlass.core.model.ids import Millis

log = structlog.get_logger()

_HOLD_BEYOND_MS = 86_400_000
_ANCHOR_EVERY_SECONDS = 60
_SAME_CLOCK_MS = 2_000
"""Closer than this, service time is shown as it is: what people see does not wobble."""


class Anchor(Struct, frozen=True, kw_only=True):
    """Where service time stood, by the clocks of one boot."""

    boot_id: str
    boottime_ms: int
    wall_ms: int
    service_ms: int
    held_ms: int = 0
    """Time that a reboot seemed to take and nobody has confirmed yet."""


class MachineClocks(Struct, frozen=True, kw_only=True):
    """The kernel's clocks, replaceable in tests."""

    boottime_ms: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    boot_id: Callable[[], str] = lambda: Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class ServiceClock:
    def __init__(self, path: Path, *, clocks: MachineClocks | None = None) -> None:
        self._path = path
        self._clocks = clocks or MachineClocks()
        self.held_ms = 0
        """How much wall time a reboot seems to have taken that was not believed; 0 when all is well."""
        known = _read(path)
        self._offset = self._resume(known) if known is not None else self._clocks.wall_ms() - self._clocks.boottime_ms()
        self.anchor()

    def now(self) -> Millis:
        return Millis(self._clocks.boottime_ms() + self._offset)

    def wall(self, at: Millis) -> float:
        drift = self._clocks.wall_ms() - self.now()
        return (at + (drift if abs(drift) > _SAME_CLOCK_MS else 0)) / 1000

    async def sleep_until(self, at: Millis) -> None:
        while (left := at - self.now()) > 0:  # noqa: ASYNC110 — it is a clock: time itself is what is awaited
            # A suspended machine stops the loop's timers but not BOOTTIME: look again at least every so often.
            await anyio.sleep(min(left, 30_000) / 1000)

    async def run(self) -> None:
        """Keep the anchor fresh, for the next boot."""
        while True:
            await anyio.sleep(_ANCHOR_EVERY_SECONDS)
            self.anchor()

    def anchor(self) -> None:
        here = Anchor(
            boot_id=self._clocks.boot_id(),
            boottime_ms=self._clocks.boottime_ms(),
            wall_ms=self._clocks.wall_ms(),
            service_ms=self.now(),
            held_ms=self.held_ms,
        )
        _write(self._path, here)

    def confirm(self) -> None:
        """Somebody says the wall clock was right all along."""
        self._offset += self.held_ms
        self.held_ms = 0
        self.anchor()

    def _resume(self, known: Anchor) -> int:
        self.held_ms = known.held_ms
        if known.boot_id == self._clocks.boot_id():
            return known.service_ms - known.boottime_ms
        away = max(0, self._clocks.wall_ms() - known.wall_ms)
        if away > _HOLD_BEYOND_MS:
            self.held_ms += away
            log.warning("clock.held", away_hours=self.held_ms // 3_600_000, hint="windlass doctor --confirm-clock")
            away = 0
        return known.service_ms + away - self._clocks.boottime_ms()


def _read(path: Path) -> Anchor | None:
    try:
        return json.decode(path.read_bytes(), type=Anchor)
    except FileNotFoundError:
        return None
    except DecodeError as error:
        raise Invalid(
            f"{path} is damaged: {error}",
            code="clock-damaged",
            hint="remove it: time then goes on from the wall clock, and TTLs count from there",
        ) from error


def _write(path: Path, anchor: Anchor) -> None:
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(json.encode(anchor))
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
