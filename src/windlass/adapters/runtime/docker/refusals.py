"""What the engine's refusals mean: an HTTP status and a sentence become one of our errors."""

import re
from typing import Final

import msgspec

from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable, WindlassError
from windlass.ports.runtime import ENGINE_REFUSED

REFUSED: Final = ENGINE_REFUSED
_CONFLICT: Final = re.compile(r"name is already in use|container state improper")


def refusal(status: int, body: bytes) -> WindlassError:
    """Invalid, NotFound and Conflict as the engine says them; anything else may pass, so it is Unavailable."""
    message = _sentence(body) or f"the engine answered {status}"
    if _CONFLICT.search(message):  # Docker's 409; Podman calls it a failure of its own
        status = 409
    match status:
        case 400:
            return Invalid(message, code=REFUSED)
        case 404:
            return NotFound(message, code=REFUSED)
        case 409:
            return Conflict(message, code=REFUSED)
        case _:
            return Unavailable(message, code=REFUSED)


def readable_start_error(error: str) -> str:
    """The part of an OCI runtime's complaint that a person can use, without the layers that passed it on."""
    for pattern, sentence in _START_ERRORS:
        found = pattern.search(error)
        if found:
            return sentence.format(*found.groups())
    return re.sub(r"^(?:.*?OCI runtime create failed: |.*?runc create failed: )+", "", error).removesuffix(": unknown")


# Both runtimes, runc and crun, name the program they could not execute; 126 and 127 are what a shell would answer.
_START_ERRORS: Final = (
    (
        re.compile(r'exec: "([^"]*)": (?:executable file not found in \$PATH|stat .*: no such file or directory)'),
        "no such command in the image: {0} (exit 127)",
    ),
    (
        re.compile(r"executable file [`']?([^`' ]+)[`']? not found in \$PATH"),
        "no such command in the image: {0} (exit 127)",
    ),
    (
        re.compile(r'exec: "([^"]*)": permission denied'),
        "the command cannot be executed: {0}: permission denied (exit 126)",
    ),
    (
        re.compile(r"(?:open|exec) [`']?([^`': ]+)[`']?: Permission denied"),
        "the command cannot be executed: {0}: permission denied (exit 126)",
    ),
    (re.compile(r'exec: "([^"]*)": is a directory'), "the command cannot be executed: {0} is a directory (exit 126)"),
    (re.compile(r"exec (\S+): exec format error"), "the command is not for this machine's processor: {0} (exit 126)"),
    (re.compile(r"exec (\S+): no such file or directory"), "no such command in the image: {0} (exit 127)"),
    (re.compile(r'could not select device driver "([^"]*)" with capabilities'), "the engine has no GPU driver{0}"),
)


def _sentence(body: bytes) -> str:
    try:
        message = msgspec.json.decode(body).get("message", "")
    except (msgspec.DecodeError, AttributeError):
        message = body.decode(errors="replace")
    return " ".join(str(message).split())[:2000]
