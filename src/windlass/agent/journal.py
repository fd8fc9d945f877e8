"""What the node must not forget over a crash: the highest epoch it obeyed, which runs it let start, which volumes are staged,
from which registries somebody pulled with a login.

An append-only file, synced before the act it announces. At the start it is read, pruned to what still matters, and written anew.
"""

import os
from pathlib import Path
from typing import Final

import anyio
from msgspec import DecodeError, Struct, json

from windlass.core.model.ids import Millis, RunId, VolumeId


class _Note(Struct, frozen=True, omit_defaults=True):
    epoch: int = 0
    started: RunId | None = None
    at: Millis = Millis(0)
    """When it was let start, in service time: its timeout counts from here, also for an agent that comes later."""
    staged: VolumeId | None = None
    gone: str | None = None
    guarded: str | None = None
    """A registry that a login was used at: its images here are not everybody's."""


_decoder: Final = json.Decoder(_Note)


class Journal:
    """One writer, one file. `note_*` return when the note is on disk; notes made meanwhile share the next sync."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.epoch = 0
        self._started: dict[RunId, Millis] = {}
        self._staged: set[VolumeId] = set()
        self._guarded: set[str] = set()
        self._pending: list[bytes] = []
        self._lock = anyio.Lock()
        self._synced = anyio.Event()
        for note in _parse(self._load()):
            self._apply(note)
        self._rewrite()

    def was_started(self, run: RunId) -> bool:
        """True when the start was announced: it may have happened, so it must not happen again from nothing."""
        return run in self._started

    def is_staged(self, volume: VolumeId) -> bool:
        return volume in self._staged

    async def note_epoch(self, epoch: int) -> None:
        if epoch > self.epoch:
            await self._note(_Note(epoch=epoch))

    def started_at(self, run: RunId) -> Millis | None:
        return self._started.get(run)

    async def note_starting(self, run: RunId, *, now: Millis) -> None:
        if run not in self._started:
            await self._note(_Note(started=run, at=now))

    async def note_staged(self, volume: VolumeId) -> None:
        if volume not in self._staged:
            await self._note(_Note(staged=volume))

    def is_guarded(self, registry: str) -> bool:
        return registry in self._guarded

    async def note_guarded(self, registry: str) -> None:
        if registry not in self._guarded:
            await self._note(_Note(guarded=registry))

    async def forget(self, key: RunId | VolumeId) -> None:
        if key in self._started or key in self._staged:
            self._apply(_Note(gone=key))
            self._pending.append(json.encode(_Note(gone=key)) + b"\n")  # rides along with the next sync

    def noted(self) -> frozenset[RunId | VolumeId]:
        """Everything it remembers, for the sweep of what no longer matters."""
        return frozenset(self._started.keys() | self._staged)

    def close(self) -> None:
        os.close(self._fd)

    async def _note(self, note: _Note) -> None:
        self._apply(note)
        self._pending.append(json.encode(note) + b"\n")
        mine = self._synced
        async with self._lock:
            if mine.is_set():
                return  # a note before us took ours along
            batch, self._pending = self._pending, []
            done, self._synced = self._synced, anyio.Event()
            await self._sync(b"".join(batch))
            done.set()

    def _apply(self, note: _Note) -> None:
        self.epoch = max(self.epoch, note.epoch)
        if note.started is not None:
            self._started[note.started] = note.at
        if note.staged is not None:
            self._staged.add(note.staged)
        if note.guarded is not None:
            self._guarded.add(note.guarded)
        if note.gone is not None:
            self._started.pop(RunId(note.gone), None)
            self._staged.discard(VolumeId(note.gone))

    def _rewrite(self) -> None:
        notes = [_Note(epoch=self.epoch)]
        notes += [_Note(started=run, at=at) for run, at in sorted(self._started.items())]
        notes += [_Note(staged=volume) for volume in sorted(self._staged)]
        notes += [_Note(guarded=registry) for registry in sorted(self._guarded)]
        self._replace(b"".join(json.encode(note) + b"\n" for note in notes))

    # — the file itself: what a simulation puts memory in the place of —

    def _load(self) -> bytes:
        return self._path.read_bytes() if self._path.exists() else b""

    async def _sync(self, data: bytes) -> None:
        await anyio.to_thread.run_sync(_append, self._fd, data)

    def _replace(self, data: bytes) -> None:
        fresh = self._path.with_suffix(".new")
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self._path)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)


def _append(fd: int, data: bytes) -> None:
    os.write(fd, data)
    os.fdatasync(fd)


def _parse(data: bytes) -> list[_Note]:
    """A torn last line was never announced as done: it is left out."""
    notes: list[_Note] = []
    for line in data.splitlines():
        try:
            notes.append(_decoder.decode(line))
        except DecodeError:
            break
    return notes
