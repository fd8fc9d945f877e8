"""What the engine's refusals mean: an HTTP status and a sentence become one of our errors."""

import re
from typing import Final

import msgspec

from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable, WindlassError
from windlass.core.model.unrunnable import read_unrunnable
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
    if unrunnable := read_unrunnable(error):
        return f"{unrunnable.words} (exit {unrunnable.exit_code})"
    if driver := _NO_DRIVER.search(error):
        return f"the engine has no GPU driver{driver[1]}"
    return re.sub(r"^(?:.*?OCI runtime create failed: |.*?runc create failed: )+", "", error).removesuffix(": unknown")


_NO_DRIVER: Final = re.compile(r'could not select device driver "([^"]*)" with capabilities')


def _sentence(body: bytes) -> str:
    try:
        message = msgspec.json.decode(body).get("message", "")
    except (msgspec.DecodeError, AttributeError):
        message = body.decode(errors="replace")
    return " ".join(str(message).split())[:2000]
