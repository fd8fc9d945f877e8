"""Names by grammar, matched whole and in ASCII: DNS labels, label keys and values, environment names, image references, paths.

Each reader returns the text it was given, or raises ValueError saying what was expected. A hostile text is shown, if at all,
cut short and without control characters.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from windlass.core.distribution.reference import BadReference, parse_reference
from windlass.wire.expected import Form
from windlass.wire.faults import show

DNS_LABEL_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
DNS_SUBDOMAIN_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS_SUBDOMAIN_MAX: Final = 253
LABEL_VALUE_PATTERN: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
LABEL_KEY_PATTERN: Final = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
ENV_NAME_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_.-]{0,255}$"
SECRET_KEY_PATTERN: Final = r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$"  # noqa: S105 — a grammar
MODEL_PATTERN: Final = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
RESERVED_PREFIX: Final = "windlass.dev/"
ARTIFACTS: Final = "/artifacts"
PATH_BYTES_MAX: Final = 1024
VARIABLE_BYTES_MAX: Final = 128 * 1024 - 1
"""Of one `NAME=value`: the kernel starts nothing with a longer one, its ending NUL counted."""
_PART_BYTES_MAX: Final = 255
_SHOWN_MAX: Final = 20
_SURELY_SHORT: Final = VARIABLE_BYTES_MAX // 4 - 256
"""Characters of a value: in UTF-8 none has more than four bytes, and a name has 256 at most."""

_DNS_LABEL: Final = re.compile(DNS_LABEL_PATTERN[1:-1], re.ASCII)
_LABEL_KEY: Final = re.compile(LABEL_KEY_PATTERN[1:-1], re.ASCII)
_LABEL_VALUE: Final = re.compile(LABEL_VALUE_PATTERN[1:-1], re.ASCII)
_ENV_NAME: Final = re.compile(ENV_NAME_PATTERN[1:-1], re.ASCII)
_SECRET_KEY: Final = re.compile(SECRET_KEY_PATTERN[1:-1], re.ASCII)
_MODEL: Final = re.compile(MODEL_PATTERN[1:-1], re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

DNS_LABEL_EXPECTED: Final = (
    "expected 1 to 63 lower-case letters, digits and '-', beginning and ending with a letter or digit"
)
DNS_LABEL: Final = Form(DNS_LABEL_PATTERN, DNS_LABEL_EXPECTED)
DNS_SUBDOMAIN: Final = Form(
    DNS_SUBDOMAIN_PATTERN,
    "expected lower-case letters, digits, '-' and '.', each part beginning and ending with a letter or digit",
)
"""What most objects of Kubernetes may be called; at most DNS_SUBDOMAIN_MAX characters."""


def is_dns_label(text: str) -> bool:
    return _DNS_LABEL.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    return _LABEL_VALUE.fullmatch(text) is not None


def read_dns_label(text: str) -> str:
    if not is_dns_label(text):
        raise ValueError(DNS_LABEL_EXPECTED)
    return text


@lru_cache(maxsize=1024)
def read_image(text: str) -> str:
    """As written; the reference grammar is `core.distribution`'s. Few images are asked for often: they are remembered."""
    try:
        parse_reference(text)
    except BadReference as exc:
        raise ValueError(f"not an image name: {exc}") from None
    return text


def read_model(text: str) -> str:
    """The name of an inference preset; which ones exist is the workload's to say."""
    if not _MODEL.fullmatch(text):
        raise ValueError("expected a model's name such as resnet50 or mobilenet_v3_small")
    return text


def read_labels(labels: dict[str, str]) -> dict[str, str]:
    _check_each(labels, _label_fault)
    return labels


def _label_fault(key: str, value: str) -> str:
    if not _LABEL_KEY.fullmatch(key):
        return f"“{show(key)}” is not [domain/]name, the name of at most 63 letters, digits, '-', '_', '.'"
    if key.startswith(RESERVED_PREFIX):
        return f"“{show(key)}”: labels under {RESERVED_PREFIX} are the system's own"
    if not _LABEL_VALUE.fullmatch(value):
        return f"the value of “{show(key)}” must be at most 63 letters, digits, '-', '_', '.'"
    return ""


def _check_each(entries: dict[str, str], fault_of: Callable[[str, str], str]) -> None:
    """All that is wrong with any of them, in one message."""
    faults = [fault for key, value in entries.items() if (fault := fault_of(key, value))]
    if not faults:
        return
    more = f"; and {len(faults) - _SHOWN_MAX} more" if len(faults) > _SHOWN_MAX else ""
    raise ValueError("; ".join(faults[:_SHOWN_MAX]) + more)


def read_secret_key(text: str) -> str:
    """The name of one value of a secret, which is also what a secret file may be called: no path, and not hidden."""
    if not _SECRET_KEY.fullmatch(text):
        raise ValueError("expected 1 to 128 letters, digits, '_', '.' and '-', not beginning with '.'")
    return text


def read_env(env: dict[str, str]) -> dict[str, str]:
    whole = "".join(env.values())
    if not all(map(_ENV_NAME.fullmatch, env)) or "\0" in whole or len(whole) > _SURELY_SHORT:
        _check_each(env, _env_fault)
    return env


def _env_fault(key: str, value: str) -> str:
    if not _ENV_NAME.fullmatch(key):
        return f"“{show(key)}” is not a name of letters, digits, '_', '.', '-' that begins with no digit"
    if "\0" in value:
        return f"the value of “{show(key)}” holds a NUL character"
    if len(value) > _SURELY_SHORT and len(f"{key}={value}".encode()) > VARIABLE_BYTES_MAX:
        return f"the value of “{show(key)}” is too long: name and value have at most {VARIABLE_BYTES_MAX - 1} bytes"
    return ""


def read_container_path(text: str) -> str:
    """An absolute path inside a container, without `.` and `..`."""
    if not text.startswith("/"):
        raise ValueError("expected an absolute path")
    read_parts(text[1:].removesuffix("/"), may_be_empty=True)
    return text


def read_artifact_path(text: str) -> str:
    """A path below /artifacts, given relative or absolute; answered relative, empty for /artifacts itself."""
    if text.startswith("/"):
        if text != ARTIFACTS and not text.startswith(f"{ARTIFACTS}/"):
            raise ValueError(f"expected a path below {ARTIFACTS}")
        text = text[len(ARTIFACTS) :].removeprefix("/")
    return "/".join(read_parts(text.removesuffix("/"), may_be_empty=True))


def read_artifact_file(text: str) -> str:
    """As `read_artifact_path`, for one file to be put there: it has a name, and none that says that it is a directory."""
    path = read_artifact_path(text)
    if not path or text.endswith("/"):
        place = f"{ARTIFACTS}/{path}".rstrip("/")
        raise ValueError(f"expected a file below {ARTIFACTS}, with the file's name: {show(place)}/NAME")
    return path


def read_parts(text: str, *, may_be_empty: bool = False) -> tuple[str, ...]:
    """The components of a relative path that can lead nowhere but down."""
    if not text:
        if may_be_empty:
            return ()
        raise ValueError("expected a path")
    if len(text.encode("utf-8", "surrogatepass")) > PATH_BYTES_MAX:
        raise ValueError(f"a path has at most {PATH_BYTES_MAX} bytes")
    if _CONTROL.search(text):
        raise ValueError("a path holds a control character")
    parts = tuple(text.split("/"))
    for part in parts:
        if part in ("", ".", ".."):
            raise ValueError("a path may not have empty, '.' or '..' parts")
        if len(part.encode("utf-8", "surrogatepass")) > _PART_BYTES_MAX:
            raise ValueError(f"a part of a path has at most {_PART_BYTES_MAX} bytes")
    return parts
