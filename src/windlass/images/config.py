"""The settings of a run: from the seed's shell-style file or from TOML, then overridden by the command line.

Whatever is missing or wrong is named at once, each with where it stands (exit 1); a bad optional value is a warning and
its default (I1). `SETTINGS` is the one list of keys: the reader, `--init` and the guide are made from it.
"""

import ipaddress
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from windlass.images.errors import ImageSyncError, Mistakes
from windlass.images.settings import RUNTIMES, SETTINGS, Setting, Settings
from windlass.images.shellfile import SIZE_MAX, Parsed, Value, parse_shell_file
from windlass.images.text import clean

_NODE: Final = re.compile(
    r"(?:([A-Za-z_][A-Za-z0-9_.-]{0,63})@)?"
    r"(\[[0-9a-fA-F:]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)"
    r"(?::([0-9]{1,5}))?",
    re.ASCII,
)
_PREFIX: Final = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9._/:@\[\]-]{0,254}", re.ASCII)
_NUMBERED: Final = re.compile(r"(NODE|PREFIX)([0-9]{1,4})", re.ASCII)
_SPLIT: Final = re.compile(r"[\s,]+")
_REQUIRED: Final = ("NODES", "PREFIXES", "LOG_DIR")
_T = TypeVar("_T")


class Address(Struct, frozen=True):
    """Where a node is. `name` is what logs, reports and the command line call it."""

    name: str
    host: str
    user: str | None = None
    port: int | None = None


class Config(Struct, frozen=True, kw_only=True):
    nodes: tuple[Address, ...]
    prefixes: tuple[str, ...]
    log_dir: Path
    settings: Settings
    lock_dir: Path | None = None
    """The file's LOG_DIR, also when the command line names another: an override must not open a second door."""
    warnings: tuple[str, ...] = ()


def load_config(path: Path | None, overrides: Mapping[str, Value], environment: Mapping[str, str]) -> Config:
    """Read, override, check. Raises with everything that is wrong, not with the first thing."""
    read = _read_file(path, environment) if path else Parsed()
    sources = _Sources(path, read, overrides)
    mistakes = list(read.mistakes)
    missing = sources.missing()
    if missing:
        mistakes.append(_missing(missing, path))
    nodes = sources.entries("NODE", "NODES", parse_address, "a node", "[user@]host[:port]", mistakes)
    prefixes = sources.entries(
        "PREFIX", "PREFIXES", _prefix, "a prefix", "the literal beginning of an image name", mistakes
    )
    log_dir, lock_dir = sources.directories(mistakes)
    settings, warnings = sources.optional()
    mistakes += _unreadable(settings)
    if mistakes:
        raise mistakes[0] if len(mistakes) == 1 else Mistakes(mistakes)
    return Config(
        nodes=nodes,
        prefixes=prefixes,
        log_dir=log_dir,
        lock_dir=lock_dir,
        settings=settings,
        warnings=(*warnings, *sources.unknown()),
    )


def parse_address(text: str) -> Address:
    """`[user@]host[:port]`; the host may be an alias of ~/.ssh/config. Anything else is refused, not quoted."""
    match = _NODE.fullmatch(text)
    if match is None or (match[3] and not 0 < int(match[3]) < 65536):
        raise ValueError("expected [user@]host[:port]")
    host = match[2]
    if host.startswith("["):
        host = str(ipaddress.IPv6Address(host[1:-1]))
    return Address(name=text, host=host, user=match[1], port=int(match[3]) if match[3] else None)


def _read_file(path: Path, environment: Mapping[str, str]) -> Parsed:
    try:
        if path.stat().st_size > SIZE_MAX:
            raise ImageSyncError("config.unreadable", "larger than 1 MiB", where=str(path))
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        step = "image-sync --init writes one; --config FILE names another"
        raise ImageSyncError("config.unreadable", str(reason), where=str(path), next_step=step) from error
    if path.suffix == ".toml":
        return _read_toml(text, str(path))
    return parse_shell_file(text, where=str(path), environment=environment)


def _read_toml(text: str, where: str) -> Parsed:
    """The same keys in lower or upper case; lists are lists."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ImageSyncError("config.syntax", clean(str(error)), where=where, expected="TOML") from error
    values: dict[str, Value] = {}
    mistakes: list[ImageSyncError] = []
    for key, value in document.items():
        wrong = _wrong_kind(key.upper(), value)
        if wrong:
            mistakes.append(ImageSyncError("config.syntax", f"{clean(key, 60)} {wrong}", where=where))
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            values[key.upper()] = tuple(value)
        elif isinstance(value, bool):
            values[key.upper()] = "true" if value else "false"
        elif isinstance(value, str | int):
            values[key.upper()] = str(value)
        else:
            what = f"{clean(key, 60)} is neither text, a number, true/false nor a list of texts"
            mistakes.append(ImageSyncError("config.syntax", what, where=where))
    refused = frozenset(key.upper() for key in document) - values.keys()
    return Parsed(values=values, mistakes=tuple(mistakes), refused=refused)


def _wrong_kind(key: str, value: object) -> str:
    """What must be text is not guessed from a number, and one directory is no list of them."""
    if key == "LOG_DIR" and not isinstance(value, str):
        return "is not a text"
    is_names = key in ("NODES", "PREFIXES") or _NUMBERED.fullmatch(key) is not None
    return "is neither a text nor a list of texts" if is_names and not isinstance(value, str | list) else ""


class _Sources:
    """The file's values under the command line's, each with where it stands."""

    def __init__(self, path: Path | None, read: Parsed, overrides: Mapping[str, Value]) -> None:
        self._path = path
        self._file = read.values
        self._lines = read.lines
        self._refused = read.refused
        self._overrides = overrides
        kept = {key: value for key, value in read.values.items() if _plural(key) not in overrides}
        self._values = kept | dict(overrides)

    def missing(self) -> list[str]:
        there = {_plural(key) for key, value in self._values.items() if any(_words(value))}
        there |= {_plural(key) for key in self._refused}
        return [key for key in _REQUIRED if key not in there]

    def entries(
        self,
        single: str,
        plural: str,
        read: Callable[[str], _T],
        noun: str,
        expected: str,
        mistakes: list[ImageSyncError],
    ) -> tuple[_T, ...]:
        """NODES, then NODE1, NODE2 … by number; doubles go. What cannot be read is added to `mistakes`, by its source."""
        good: dict[str, _T] = {}
        bad: dict[str, list[str]] = {}
        for key in self._keys(single, plural):
            for number, text in _numbered_words(self._values[key]):
                try:
                    good.setdefault(text, read(text))
                except ValueError:
                    bad.setdefault(self._where(key, number), []).append(repr(clean(text, 80)))
        for where, texts in bad.items():
            what = f"not {noun}: {', '.join(dict.fromkeys(texts))}"
            mistakes.append(ImageSyncError("config.invalid", what, where=where, expected=expected))
        return tuple(good.values())

    def directories(self, mistakes: list[ImageSyncError]) -> tuple[Path, Path]:
        """Where to log, and where to lock. A relative one in the file begins at the file: cron starts elsewhere."""
        base = self._path.parent if self._path else Path()
        try:
            shared = base / Path(_text(self._file.get("LOG_DIR", ""))).expanduser()
            chosen = _text(self._overrides.get("LOG_DIR", ""))
            log_dir = Path(chosen).expanduser() if chosen else shared
            if "\0" in f"{log_dir}{shared}":
                raise ValueError("a zero byte")
        except (RuntimeError, ValueError) as error:
            what = f"LOG_DIR: {clean(str(error))}"
            mistakes.append(
                ImageSyncError("config.invalid", what, where=self._where("LOG_DIR"), expected="a directory")
            )
            return base, base
        return log_dir, shared if self._file.get("LOG_DIR") else log_dir

    def optional(self) -> tuple[Settings, list[str]]:
        chosen: dict[str, object] = {}
        warnings: list[str] = []
        for setting in SETTINGS:
            if setting.key not in self._values:
                continue
            raw = _text(self._values[setting.key])
            try:
                chosen[setting.field] = setting.read(raw)
            except ValueError as error:
                where = self._where(setting.key)
                default = setting.default or "none"
                warnings.append(f"{setting.key}={clean(raw, 60)!r} ({where}): {error}; using the default {default}")
        return Settings(**chosen), warnings  # type: ignore[arg-type]  # each `read` returns its field's type

    def unknown(self) -> list[str]:
        known = {setting.key for setting in SETTINGS} | set(_REQUIRED)
        strange = [key for key in self._values if key not in known and not _NUMBERED.fullmatch(key)]
        return [f"{clean(key, 60)} ({self._where(key)}): no such setting; ignored" for key in strange]

    def _keys(self, single: str, plural: str) -> list[str]:
        numbered = [
            (int(match[2]), key) for key in self._values if (match := _NUMBERED.fullmatch(key)) and match[1] == single
        ]
        return [*([plural] if plural in self._values else []), *(key for _, key in sorted(numbered))]

    def _where(self, key: str, number: int = 0) -> str:
        """`number` is that of the word, where the value has several."""
        if not self._path or key in self._overrides:
            return "command line"
        lines = self._lines.get(key, ())
        return f"{self._path} line {lines[min(number, len(lines) - 1)]}" if lines else str(self._path)


def _missing(keys: Sequence[str], path: Path | None) -> ImageSyncError:
    return ImageSyncError(
        "config.missing",
        f"required but not set: {', '.join(keys)}",
        where=str(path) if path else "no settings file, and the command line does not say it",
        next_step=f"{'Set them there; ' if path else ''}image-sync --init FILE writes a commented example",
    )


def _unreadable(settings: Settings) -> list[ImageSyncError]:
    """The files that ssh would ask for, all of them: one at a time would be one run at a time."""
    named = {
        "SSH_CONFIG": settings.ssh_config,
        "SSH_KNOWN_HOSTS": settings.ssh_known_hosts,
        "SSH_KEY": settings.ssh_key,
    }
    return [
        ImageSyncError("config.unreadable", "no such readable file", where=f"{key}={clean(path, 120)}")
        for key, path in named.items()
        if path and not os.access(Path(path).expanduser(), os.R_OK)
    ]


def _plural(key: str) -> str:
    """`--node` replaces NODE1, NODE2 … too."""
    match = _NUMBERED.fullmatch(key)
    return {"NODE": "NODES", "PREFIX": "PREFIXES"}[match[1]] if match else key


def _words(value: Value) -> tuple[str, ...]:
    return tuple(word for _, word in _numbered_words(value))


def _numbered_words(value: Value) -> list[tuple[int, str]]:
    words = value if isinstance(value, tuple) else _SPLIT.split(value)
    return [(number, word) for number, word in enumerate(words) if word]


def _text(value: Value) -> str:
    return " ".join(value) if isinstance(value, tuple) else value


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError("not the beginning of an image name")
    return text


__all__ = ["RUNTIMES", "Address", "Config", "Setting", "Settings", "load_config", "parse_address"]
