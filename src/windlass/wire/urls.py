"""What an address must look like before anyone resolves it. Where it leads is the fetcher's question, asked at the connection."""

import ipaddress
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

URL_MAX: Final = 2048
DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_CHARACTERS: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)
_HOST: Final = re.compile(
    r"[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?(\.[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?)*\.?", re.ASCII | re.IGNORECASE
)
_NUMERIC: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII | re.IGNORECASE)
_FIRST_FREE_PORT: Final = 1024


def read_url(text: str) -> str:
    """An http or https address that every reader takes apart in the same way. ValueError says what was expected."""
    split_url(text)
    return text


def split_url(text: str) -> SplitResult:
    if len(text) > URL_MAX:
        raise ValueError(f"an address has at most {URL_MAX} characters")
    if not _CHARACTERS.fullmatch(text) or "\\" in text:
        raise ValueError("an address has only printable ASCII characters; encode the others")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("not a well-formed address") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise ValueError("expected an http:// or https:// address")
    if "@" in parts.netloc:
        raise ValueError("an address may not carry a user name or password")
    _check_host(parts.hostname or "")
    _check_port(parts, port)
    return parts


def port_of(parts: SplitResult) -> int:
    return parts.port or DEFAULT_PORTS[parts.scheme]


def _check_host(host: str) -> None:
    if ":" in host:
        _check_literal(host, ipaddress.IPv6Address)
    elif not host or len(host) > 253 or not _HOST.fullmatch(host):
        raise ValueError("expected a host name")
    elif _NUMERIC.fullmatch(host.rstrip(".").rpartition(".")[2]):
        # 2130706433, 0x7f.1 and 0177.0.0.1 are addresses to a resolver and names to a check by eye
        _check_literal(host, ipaddress.IPv4Address)


def _check_literal(host: str, kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]) -> None:
    try:
        kind(host)
    except ValueError:
        raise ValueError("a numeric host must be a plain IPv4 or [IPv6] address") from None
    if "%" in host:
        raise ValueError("an address may not name a zone")


def _check_port(parts: SplitResult, port: int | None) -> None:
    """Below 1024 only the web's own ports: no letters to mail servers, no knocking at ssh."""
    if parts.netloc.endswith(":") or port == 0:
        raise ValueError("the port is empty")
    if port is not None and port < _FIRST_FREE_PORT and port not in DEFAULT_PORTS.values():
        raise ValueError("expected port 80, 443 or one from 1024 on")
