"""The OCI reference grammar: the one door through which an image name enters.

A name that passes holds only letters, digits and `. _ - / : @ [ ]`, begins with a letter, a digit or `[`, and so can be
neither an option nor shell syntax. Everything is ASCII and matched whole: `\\w` and `$` would let other scripts and a
trailing newline in.
"""

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

_HOST_PART: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN: Final = re.compile(rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[0-9a-fA-F:]{{2,45}}\])(?::[0-9]{{1,5}})?")
_PATH_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH: Final = re.compile(rf"{_PATH_PART}(?:/{_PATH_PART})*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
REFERENCE_PATTERN: Final = rf"^(?:{_DOMAIN.pattern}/)?{_PATH.pattern}(?::{_TAG.pattern})?(?:@(?:{_DIGEST.pattern}))?$"
"""The same as one expression, for schemas. It lets a little more pass: how long a repository's name is, it does not count."""
_NAME_MAX: Final = 255
"""Characters of domain and path together, as registries have it."""
_PORTS: Final = 1 << 16
_TEXT_MAX: Final = _NAME_MAX + 1 + 128 + 1 + 135

DEFAULT_DOMAIN: Final = "docker.io"
_DEFAULT_ALIASES: Final = frozenset({"docker.io", "index.docker.io"})
_OFFICIAL: Final = "library/"


class BadReference(ValueError):
    """The text is not an image reference. The text itself is left out: it may be hostile."""


class Reference(Struct, frozen=True):
    """A normalised image name: `nginx` and `docker.io/library/nginx:latest` are the same value."""

    domain: str
    path: str
    tag: str | None = None
    digest: str | None = None

    @property
    def repository(self) -> str:
        return f"{self.domain}/{self.path}"

    @property
    def familiar(self) -> str:
        """As people and Docker write it: without the default domain."""
        return str(self).removeprefix(f"{DEFAULT_DOMAIN}/{_OFFICIAL}").removeprefix(f"{DEFAULT_DOMAIN}/")

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"


def parse_reference(text: str) -> Reference:
    """Read and normalise a reference; a name with neither tag nor digest means `:latest`, as everywhere."""
    if len(text) > _TEXT_MAX:
        raise BadReference("longer than any image reference may be")
    rest, at, digest = text.partition("@")
    if at and not is_digest(digest):
        raise BadReference("after '@' a sha256 or sha512 digest is expected")
    name, tag = _split_tag(rest)
    if tag is not None and not _TAG.fullmatch(tag):
        raise BadReference("a tag is 1–128 of letters, digits, '_', '.', '-', not beginning with '.' or '-'")
    domain, path = _split_domain(name)
    if not _DOMAIN.fullmatch(domain) or not _PATH.fullmatch(path):
        raise BadReference("expected [host[:port]/]path[:tag][@digest], the path in lower case")
    if len(domain) + 1 + len(path) > _NAME_MAX:
        raise BadReference(f"a repository name has at most {_NAME_MAX} characters")
    if tag is None and not digest:
        tag = "latest"
    return Reference(domain=domain, path=path, tag=tag, digest=digest or None)


def parse_registry(text: str) -> str:
    """A registry's `host[:port]`, as it stands before the first slash of an image: the whole of what a login is matched by."""
    host = text.lower()
    if len(text) > _NAME_MAX or not _DOMAIN.fullmatch(text) or not _is_domain(host):
        raise BadReference("expected host[:port], as it stands before the first '/' of an image")
    _, colon, port = host.removeprefix("[").rpartition(":") if not host.endswith("]") else ("", "", "")
    if colon and not 0 < int(port) < _PORTS:
        raise BadReference("a port lies between 1 and 65535")
    return DEFAULT_DOMAIN if host in _DEFAULT_ALIASES else host


@lru_cache(maxsize=1024)
def registry_of(image: str) -> str:
    """Where an image comes from; empty for what is no image's name. Few images are asked for often: they are remembered."""
    try:
        return parse_reference(image).domain.lower() if image else ""
    except BadReference:
        return ""


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def parse_digest(text: str) -> str:
    """A digest, its algorithm added where a runtime leaves it out (Podman prints bare hex)."""
    candidate = text if ":" in text else f"sha256:{text}"
    if not is_digest(candidate):
        raise BadReference("expected sha256: and 64 hexadecimal digits")
    return candidate


def _split_tag(text: str) -> tuple[str, str | None]:
    head, slash, last = text.rpartition("/")
    name, colon, tag = last.partition(":")
    return (f"{head}{slash}{name}", tag) if colon else (text, None)


def _split_domain(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if not slash or not _is_domain(first):
        return DEFAULT_DOMAIN, name if slash else f"{_OFFICIAL}{name}"
    if first.lower() in _DEFAULT_ALIASES:
        first = DEFAULT_DOMAIN
    if first == DEFAULT_DOMAIN and "/" not in rest:
        rest = f"{_OFFICIAL}{rest}"
    return first, rest


def _is_domain(first: str) -> bool:
    """What tells a registry from the first part of a path, as everywhere."""
    return any(c in ".:[" for c in first) or first == "localhost" or first != first.lower()
