"""The settings of a run: from the seed's shell-style file or from TOML, then overridden by the command line.

Every missing required key is named at once (exit 1); a bad optional value is a warning and its default (I1).
`SETTINGS` is the one list of keys: the reader, `--init` and the guide are made from it.
"""

import ipaddress
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from windlass.images.errors import ImageSyncError
from windlass.images.settings import RUNTIMES, SETTINGS, Setting, Settings
from windlass.images.shellfile import SIZE_MAX, Value, parse_shell_file
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
    warnings: tuple[str, ...] = ()


def load_config(path: Path | None, overrides: Mapping[str, Value], environment: Mapping[str, str]) -> Config:
    """Read, override, check. Raises with everything that is missing, not with the first thing."""
    values = _read_file(path, environment) if path else {}
    values = {key: value for key, value in values.items() if not _is_overridden(key, overrides)} | dict(overrides)
    where = str(path) if path else "command line"
    nodes = _numbered(values, "NODE", "NODES")
    prefixes = _numbered(values, "PREFIX", "PREFIXES")
    log_dir = _text(values.get("LOG_DIR", ""))
    missing = [key for key, value in (("NODES", nodes), ("PREFIXES", prefixes), ("LOG_DIR", log_dir)) if not value]
    if missing:
        raise ImageSyncError(
            "config.missing",
            f"required but not set: {', '.join(missing)}",
            where=where,
            expected="NODES (or NODE1, NODE2 …), PREFIXES (or PREFIX1 …) and LOG_DIR",
            next_step="image-sync --init writes a commented file to start from",
        )
    settings, warnings = _optional(values)
    return Config(
        nodes=_addresses(nodes, where),
        prefixes=_checked_prefixes(prefixes, where),
        log_dir=Path(log_dir).expanduser(),
        settings=settings,
        warnings=(*warnings, *_unknown(values)),
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


def _read_file(path: Path, environment: Mapping[str, str]) -> dict[str, Value]:
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


def _read_toml(text: str, where: str) -> dict[str, Value]:
    """The same keys in lower or upper case; lists are lists."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ImageSyncError("config.syntax", clean(str(error)), where=where, expected="TOML") from error
    values: dict[str, Value] = {}
    for key, value in document.items():
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            values[key.upper()] = tuple(value)
        elif isinstance(value, bool):
            values[key.upper()] = "true" if value else "false"
        elif isinstance(value, str | int):
            values[key.upper()] = str(value)
        else:
            what = f"{clean(key, 60)} is neither text, a number, true/false nor a list of texts"
            raise ImageSyncError("config.syntax", what, where=where)
    return values


def _is_overridden(key: str, overrides: Mapping[str, Value]) -> bool:
    """`--node` replaces NODE1, NODE2 … too."""
    match = _NUMBERED.fullmatch(key)
    plural = {"NODE": "NODES", "PREFIX": "PREFIXES"}[match[1]] if match else key
    return plural in overrides


def _numbered(values: Mapping[str, Value], single: str, plural: str) -> tuple[str, ...]:
    """NODES, then NODE1, NODE2 … by number; doubles go."""
    found = list(_words(values.get(plural, ())))
    numbered = [(int(match[2]), key) for key in values if (match := _NUMBERED.fullmatch(key)) and match[1] == single]
    for _, key in sorted(numbered):
        found += _words(values[key])
    return tuple(dict.fromkeys(found))


def _words(value: Value) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return tuple(item for item in value if item)
    return tuple(word for word in _SPLIT.split(value) if word)


def _text(value: Value) -> str:
    return " ".join(value) if isinstance(value, tuple) else value


def _addresses(nodes: Sequence[str], where: str) -> tuple[Address, ...]:
    return tuple(_each(nodes, parse_address, "a node", "[user@]host[:port]", where))


def _checked_prefixes(prefixes: Sequence[str], where: str) -> tuple[str, ...]:
    return tuple(_each(prefixes, _prefix, "a prefix", "the literal beginning of an image name", where))


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError("not the beginning of an image name")
    return text


def _each(texts: Sequence[str], read: Callable[[str], _T], noun: str, expected: str, where: str) -> list[_T]:
    read_ones: list[_T] = []
    bad: list[str] = []
    for text in texts:
        try:
            read_ones.append(read(text))
        except ValueError:
            bad.append(repr(clean(text, 80)))
    if bad:
        raise ImageSyncError("config.invalid", f"not {noun}: {', '.join(bad)}", where=where, expected=expected)
    return read_ones


def _optional(values: Mapping[str, Value]) -> tuple[Settings, list[str]]:
    chosen: dict[str, object] = {}
    warnings: list[str] = []
    for setting in SETTINGS:
        if setting.key not in values:
            continue
        raw = _text(values[setting.key])
        try:
            chosen[setting.field] = setting.read(raw)
        except ValueError as error:
            warnings.append(f"{setting.key}={clean(raw, 60)!r}: {error}; using the default {setting.default}")
    return Settings(**chosen), warnings  # type: ignore[arg-type]  # each `read` returns its field's type


def _unknown(values: Mapping[str, Value]) -> list[str]:
    known = {setting.key for setting in SETTINGS} | {"NODES", "PREFIXES", "LOG_DIR"}
    strange = [key for key in values if key not in known and not _NUMBERED.fullmatch(key)]
    return [f"{clean(key, 60)}: no such setting; ignored" for key in strange]


__all__ = ["RUNTIMES", "Address", "Config", "Setting", "Settings", "load_config", "parse_address"]
