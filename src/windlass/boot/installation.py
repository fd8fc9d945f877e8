"""The data directory: who we are (installation and node id), where things lie, and the lock that keeps a second server out."""

import fcntl
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import DecodeError, Struct, json

from windlass.client.connection import CONTEXT_FILE, Context
from windlass.core.errors import Conflict, Invalid, Unavailable
from windlass.core.model.ids import NodeId

T = TypeVar("T")

_LOCK_TRIES = 10
"""Who asks whether a server is there holds its lock for a moment, and is not to be taken for one."""
_LOCK_SECONDS = 0.02


class Identity(Struct, frozen=True, kw_only=True):
    """Written once. Everything we create carries both ids; nothing without both is ever touched."""

    installation: str
    node: NodeId


class Installation:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = root / "store.db"
        self.read_model = root / "history.db"
        self.blobs = root / "blobs"
        self.logs = root / "logs"
        self.node = root / "node"
        self.processes = self.node / "process"
        self.keys = root / "keys"
        self.clock = root / "clock.json"
        self.token = root / "token"
        self.context = root / CONTEXT_FILE
        self._engines = root / "engines.json"
        self._identity = root / "installation.json"
        self._lock = root / "lock"
        self._ending = root / "ending"

    @property
    def exists(self) -> bool:
        return self._identity.exists()

    def identity(self, make_id: str) -> Identity:
        """Ours, made with `make_id` the first time."""
        self._make_root()
        if not self._identity.exists():
            made = Identity(installation=make_id, node=NodeId(_host_label()))
            write_private(self._identity, json.encode(made))
        return _decoded(self._identity, Identity)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One server per data directory. The lock goes with the process, however it ends."""
        self._make_root()
        fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _has_locked(fd):
                raise Conflict(
                    f"a server (pid {self.server_pid()}) already uses {self.root}",
                    code="data-dir-in-use",
                    hint="`windlass down` stops it; --data-dir starts another beside it",
                )
            os.ftruncate(fd, 0)
            os.write(fd, str(os.getpid()).encode())
            yield
        finally:
            os.close(fd)

    def _make_root(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as exc:
            is_file = isinstance(exc, FileExistsError | NotADirectoryError)
            hint = (
                "it, or what it is to lie in, is a file: give --data-dir a directory, or one to be made"
                if is_file
                else None
            )
            raise Unavailable(
                f"{self.root} cannot be the data directory: {exc.strerror}",
                code="data-dir",
                hint=hint or "give --data-dir a directory that this user may write to",
            ) from exc

    def server_pid(self) -> int | None:
        """Of the server that holds the lock; None when nobody does."""
        try:
            fd = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            text = os.read(fd, 32).decode()
            return int(text) if text.isdecimal() else None
        finally:
            os.close(fd)

    def engines(self) -> tuple[str, ...]:
        """The addresses of every container engine that was ever used from here: what `down` has to look through."""
        return _decoded(self._engines, tuple[str, ...]) if self._engines.exists() else ()

    def note_engine(self, address: str) -> None:
        """Before anything is made there."""
        known = self.engines()
        if address not in known:
            write_private(self._engines, json.encode((*known, address)))

    def write_context(self, url: str, token: str) -> None:
        """What the client needs to find us, for our own user only."""
        write_private(self.token, token.encode())
        write_private(self.context, json.encode(Context(url=url, token_file=str(self.token))))

    def ours(self) -> tuple[Path, ...]:
        """Everything we put into the data directory, for `down --purge`; what others put there stays."""
        databases = [
            path.with_name(path.name + end)
            for path in (self.store, self.read_model)
            for end in ("", "-wal", "-shm", "-lock")
        ]
        return (
            *databases,
            self.blobs,
            self.logs,
            self.node,
            self.keys,
            self.clock,
            self.token,
            self.context,
            self._engines,
            self._identity,
            self._lock,
            self._ending,
        )

    @contextmanager
    def one_down(self, on_wait: Callable[[], None]) -> Iterator[bool]:
        """One `windlass down` at a time; whether another was waited for. On the directory itself, which a purge takes along."""
        try:
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # the other has just taken it along
            yield True
            return
        try:
            is_first = _has_locked(fd, tries=1)
            if not is_first:
                on_wait()
                fcntl.flock(fd, fcntl.LOCK_EX)
            yield not is_first
        finally:
            os.close(fd)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """While this is noted, a server that is told to stop ends its runs first.

        Whoever breaks off leaves it: the server may not have looked yet, and would let go on what it was told to end. The next
        server clears it.
        """
        self._ending.touch(mode=0o600)
        yield
        self.clear_ending()

    def clear_ending(self) -> None:
        self._ending.unlink(missing_ok=True)

    @property
    def is_ending(self) -> bool:
        return self._ending.exists()


def _has_locked(fd: int, *, tries: int = _LOCK_TRIES) -> bool:
    for left in reversed(range(tries)):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if left:
                time.sleep(_LOCK_SECONDS)
    return False


def write_private(path: Path, data: bytes) -> None:
    """Whole or not at all, readable by its owner only."""
    fresh = path.with_name(f".{path.name}.new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def _decoded(path: Path, kind: type[T]) -> T:
    try:
        return json.decode(path.read_bytes(), type=kind)
    except DecodeError as error:
        raise Invalid(
            f"{path} is damaged: {error}",
            code="installation-damaged",
            hint="restore it from a backup: what runs is found by the ids in it",
        ) from error


def _host_label() -> str:
    """The host's name as a label: engines, URLs and people all take it."""
    label = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().split(".")[0].lower()).strip("-")
    return label[:63] or "node"
