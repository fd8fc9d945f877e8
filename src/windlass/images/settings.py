"""Every optional setting: its key, default, unit and reason. `config` reads by this list, `--init` writes it out."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from windlass.images.text import parse_size

RUNTIMES: Final = ("crictl", "docker", "ctr", "podman")
PEER_MODES: Final = ("auto", "only", "never")
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


class Settings(Struct, frozen=True, kw_only=True):
    timeout_seconds: int = 1800
    max_parallel: int = 4
    max_total: int = 64
    ssh_connect_timeout_seconds: int = 10
    log_level: str = "INFO"
    max_log_bytes: int = 10 << 20
    log_retention_days: int = 30
    runtimes: tuple[str, ...] = ("auto",)
    containerd_namespace: str = "k8s.io"
    retries: int = 2
    peers: str = "auto"
    peer_fanout: int = 4
    min_free_bytes: int = 1 << 30
    keep_newest: int = 3
    keep_younger_hours: int = 24
    protect_file: str = ""
    sudo: bool = False
    ssh_config: str = ""
    ssh_known_hosts: str = ""
    ssh_key: str = ""


class Setting(Struct, frozen=True):
    key: str
    field: str
    read: Callable[[str], Any]
    default: str
    about: str


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or len(text) > 12 or not low <= int(text) <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return int(text)

    return read


def _size(low: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if (size := parse_size(text)) < low:
            raise ValueError(f"expected at least {low} bytes")
        return size

    return read


def _one_of(*names: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        found = next((name for name in names if name.lower() == text.lower()), None)
        if found is None:
            raise ValueError(f"expected one of {', '.join(names)}")
        return found

    return read


def _level(text: str) -> str:
    return _one_of(*_LEVELS)("WARNING" if text.upper() == "WARN" else text)


def _runtimes(text: str) -> tuple[str, ...]:
    names = tuple(text.replace(",", " ").split())
    if not names or any(name not in ("auto", "all", *RUNTIMES) for name in names):
        raise ValueError(f"expected auto, all, or some of {', '.join(RUNTIMES)}")
    return names


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false", "yes", "no", "1", "0"):
        raise ValueError("expected true or false")
    return text.lower() in ("true", "yes", "1")


def _namespace(text: str) -> str:
    if not (text.isascii() and 0 < len(text) <= 76 and all(c.isalnum() or c in "._-" for c in text)):
        raise ValueError("expected a containerd namespace")
    if not text[0].isalnum():
        raise ValueError("expected a containerd namespace")
    return text


SETTINGS: Final = (
    Setting("TIME_OUT", "timeout_seconds", _whole(60, 7 * 86400), "1800", "seconds one pull may take; at least 60"),
    Setting("MAX_PARALLEL", "max_parallel", _whole(1, 64), "4", "pulls at once on each node"),
    Setting("MAX_TOTAL", "max_total", _whole(1, 4096), "64", "pulls at once over all nodes together"),
    Setting("SSH_CONNECT_TIMEOUT", "ssh_connect_timeout_seconds", _whole(1, 600), "10", "seconds to reach a node"),
    Setting("LOG_LEVEL", "log_level", _level, "INFO", "DEBUG, INFO, WARNING or ERROR"),
    Setting("MAX_LOG_SIZE", "max_log_bytes", _size(4096), "10M", "bytes of one log file; then a line says so"),
    Setting("LOG_RETENTION_DAYS", "log_retention_days", _whole(1, 36500), "30", "days its own dated logs are kept"),
    Setting("RUNTIME", "runtimes", _runtimes, "auto", "auto (first that answers), all, or crictl docker ctr podman"),
    Setting("CONTAINERD_NAMESPACE", "containerd_namespace", _namespace, "k8s.io", "where ctr looks for images"),
    Setting("RETRIES", "retries", _whole(0, 10), "2", "further tries of a pull that failed, with growing pauses"),
    Setting("PEERS", "peers", _one_of(*PEER_MODES), "auto", "copy between nodes: auto (registry failed), only, never"),
    Setting("PEER_FANOUT", "peer_fanout", _whole(1, 64), "4", "receivers one sending node feeds at once"),
    Setting("MIN_FREE", "min_free_bytes", _size(0), "1G", "bytes that stay free on a node's image disk"),
    Setting("KEEP_NEWEST", "keep_newest", _whole(0, 10000), "3", "prune: images of a repository that always stay"),
    Setting("KEEP_YOUNGER_HOURS", "keep_younger_hours", _whole(0, 876000), "24", "prune: no image younger than this"),
    Setting("PROTECT_FILE", "protect_file", str, "", "prune: names that stay, one a line, '# who needs it' after it"),
    Setting("SUDO", "sudo", _flag, "false", "run the runtimes with sudo -n"),
    Setting("SSH_CONFIG", "ssh_config", str, "", "another file than ~/.ssh/config"),
    Setting("SSH_KNOWN_HOSTS", "ssh_known_hosts", str, "", "another file than ~/.ssh/known_hosts; always checked"),
    Setting("SSH_KEY", "ssh_key", str, "", "a private key; else the agent, ~/.ssh/config and the usual files"),
)
