"""Data keys in files that only their owner reads, `data-key-N`, and AES-256-GCM with them.

A key is made on first use: written aside, synced, then linked into place, so that two starters end up with one key and a crash
leaves either none or a whole one. What a box is about goes in as associated data: it is not stored in it, and must be the same
when it is opened. A nonce is 96 random bits; a key would have to seal four thousand million boxes before that mattered.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from windlass.core.errors import Invalid
from windlass.core.model.secret import Sealed
from windlass.ports.secrets import Unsealable

_FILE: Final = re.compile(r"data-key-([1-9][0-9]{0,8})", re.ASCII)
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_PRIVATE: Final = 0o600
_FOREIGN_BITS: Final = 0o077


class KeyFiles:
    """`ports.secrets.Sealer` over a directory of keys."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._keys: dict[int, AESGCM] = {}
        if not self._numbers():
            self._make(1)
        self._load()

    @property
    def newest(self) -> int:
        return max(self._keys)

    @property
    def oldest(self) -> int:
        return min(self._keys)

    def seal(self, value: bytes, *, about: bytes) -> Sealed:
        number, nonce = self.newest, os.urandom(_NONCE_BYTES)
        return Sealed(key=number, box=nonce + self._keys[number].encrypt(nonce, value, about))

    def open(self, sealed: Sealed, *, about: bytes) -> bytes:
        key = self._keys.get(sealed.key)
        if key is None:
            raise Unsealable(
                f"the data key {sealed.key} is not in the keys directory",
                hint="restore it from the backup that the store came from, or set the value anew",
            )
        try:
            return key.decrypt(sealed.box[:_NONCE_BYTES], sealed.box[_NONCE_BYTES:], about)
        except (InvalidTag, ValueError):  # a box cut short is no nonce either
            raise Unsealable("the value was tampered with, or belongs elsewhere", hint="set it anew") from None

    def rotate(self) -> int:
        self._make(self.newest + 1)
        self._load()
        return self.newest

    def forget_before(self, key: int) -> None:
        for number in sorted(self._numbers()):
            if number < key:
                self._path(number).unlink(missing_ok=True)
                self._keys.pop(number, None)
        self._sync()

    def _numbers(self) -> set[int]:
        found = (_FILE.fullmatch(name) for name in os.listdir(self._directory))
        return {int(match[1]) for match in found if match}

    def _path(self, number: int) -> Path:
        return self._directory / f"data-key-{number}"

    def _make(self, number: int) -> None:
        path = self._path(number)
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(_KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            os.link(aside, path)
        except FileExistsError:
            pass  # another starter was first: its key is the key
        finally:
            aside.unlink(missing_ok=True)
        self._sync()

    def _load(self) -> None:
        for number in self._numbers() - self._keys.keys():
            path = self._path(number)
            if stat.S_IMODE(path.stat().st_mode) & _FOREIGN_BITS:
                raise Invalid(f"{path} may be read by others", code="key-mode", hint=f"chmod 600 {path}")
            raw = path.read_bytes()
            if len(raw) != _KEY_BYTES:
                raise Invalid(f"{path} holds no data key", code="key-damaged", hint="restore it from a backup")
            self._keys[number] = AESGCM(raw)

    def _sync(self) -> None:
        """A key that a power cut took away would take everything sealed with it along."""
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
