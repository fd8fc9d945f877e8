"""Day-wise logs for people and cron (I3): the run's log, what succeeded, what failed; nothing is lost silently.

Each line goes to the file of the day it was written on, so a run over midnight fills two. At MAX_LOG_SIZE a file gets
one line that says so; further lines go to stderr and are counted in the summary, which is always written.
"""

import os
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final

from windlass.images.errors import ImageSyncError
from windlass.images.files import open_shared
from windlass.images.text import clean, show_size

MAIN: Final = "image-sync"
SUCCESS: Final = "success_images"
FAILED: Final = "failed_images"
_OURS: Final = re.compile(rf"(?:{MAIN}|{SUCCESS}|{FAILED})-([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})\.log", re.ASCII)
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
_LINE_MAX: Final = 2000


class DayLogs:
    """Open with `start`; every method writes one line."""

    def __init__(
        self,
        directory: Path,
        *,
        now: Callable[[], datetime],
        overflow: Callable[[str], None],
        level: str = "INFO",
        max_bytes: int = 10 << 20,
        retention_days: int = 30,
    ) -> None:
        self._directory = directory
        self._now = now
        self._overflow = overflow
        self._level = _LEVELS.index(level)
        self._max_bytes = max_bytes
        self._retention_days = retention_days
        self._files: dict[str, _DayFile] = {}
        self.withheld = 0
        """Lines that found no room in their file and went to stderr instead."""

    def start(self) -> None:
        """Make the directory and the day's files, and remove what is past its retention."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            for kind in (MAIN, SUCCESS, FAILED):
                self._file(kind, self._now().date())
        except OSError as error:
            step = "LOG_DIR must be a directory this user can write to"
            raise ImageSyncError(
                "logs.unusable", str(error.strerror), where=str(self._directory), next_step=step
            ) from error
        self._remove_old()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def debug(self, text: str) -> None:
        self._say("DEBUG", text)

    def info(self, text: str, *, always: bool = False) -> None:
        """`always`: written also past the cap. For the few lines every run must leave: started, counts, complete."""
        self._say("INFO", text, always=always)

    def warning(self, text: str, *, always: bool = False) -> None:
        self._say("WARNING", text, always=always)

    def error(self, text: str, *, always: bool = False) -> None:
        self._say("ERROR", text, always=always)

    def succeeded(self, node: str, image: str) -> None:
        self._write(SUCCESS, f"{node} {image} - SUCCESS")

    def failed(self, node: str, image: str, outcome: str) -> None:
        """`outcome`: TIMEOUT or FAILED (EXIT n)."""
        self._write(FAILED, f"{node} {image} - {outcome}")

    def _say(self, level: str, text: str, *, always: bool = False) -> None:
        if _LEVELS.index(level) >= self._level or always:
            self._write(MAIN, f"[{level}] {text}", always=always)

    def _write(self, kind: str, text: str, *, always: bool = False) -> None:
        now = self._now()
        line = f"[{now:%Y-%m-%d %H:%M:%S}] {clean(text, _LINE_MAX)}\n"
        try:
            if self._file(kind, now.date()).append(line, always=always):
                return
        except OSError as error:
            line = f"{line.rstrip()} (not logged: {error.strerror})\n"
        self.withheld += 1
        self._overflow(line)

    def _file(self, kind: str, day: date) -> "_DayFile":
        current = self._files.get(kind)
        if current is None or current.day != day:
            if current is not None:
                current.close()
            path = self._directory / f"{kind}-{day:%Y-%m-%d}.log"
            current = self._files[kind] = _DayFile(path, day, self._max_bytes, self._now)
        return current

    def _remove_old(self) -> None:
        """By the date in the name, regular files only: nothing else in the directory is ours to touch."""
        oldest = self._now().date() - timedelta(days=self._retention_days)
        for entry in os.scandir(self._directory):
            match = _OURS.fullmatch(entry.name)
            if match and entry.is_file(follow_symlinks=False) and _is_before(match[1], oldest):
                try:
                    os.unlink(entry.path)
                except OSError as error:
                    self.warning(f"{entry.name} is past its retention and stays: {error.strerror}")
                else:
                    self.debug(f"removed {entry.name}: older than {self._retention_days} days")


class _DayFile:
    def __init__(self, path: Path, day: date, max_bytes: int, now: Callable[[], datetime]) -> None:
        self.day = day
        self._fd = open_shared(path, os.O_WRONLY | os.O_APPEND, mode=0o640)
        self._size = os.fstat(self._fd).st_size
        self._max_bytes = max_bytes
        self._now = now
        self._said_full = False

    def append(self, line: str, *, always: bool) -> bool:
        """False when the line found no room."""
        if self._size + len(line.encode()) <= self._max_bytes or always:
            self._put(line)
            return True
        if not self._said_full:
            self._said_full = True
            limit = show_size(self._max_bytes)
            self._put(f"[{self._now():%Y-%m-%d %H:%M:%S}] MAX_LOG_SIZE ({limit}) reached; further lines go to stderr\n")
        return False

    def close(self) -> None:
        os.close(self._fd)

    def _put(self, line: str) -> None:
        self._size += os.write(self._fd, line.encode())


def _is_before(text: str, oldest: date) -> bool:
    try:
        return date.fromisoformat(text) < oldest
    except ValueError:
        return False
