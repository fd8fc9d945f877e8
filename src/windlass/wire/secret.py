"""Secrets and registry logins as they cross the wire: values come in, and never go out."""

import base64
import binascii
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from windlass.core.distribution.reference import BadReference, parse_registry
from windlass.core.model.secret import RegistryLogin, Secret
from windlass.wire.job import SecretKey, Strict
from windlass.wire.render import Wall, timestamp
from windlass.wire.schema import Shape

VALUE_BYTES_MAX: Final = 256 * 1024
"""Of one secret, all its values together."""
KEYS_MAX: Final = 64
REGISTRY_MAX: Final = 255
USERNAME_MAX: Final = 255
PASSWORD_MAX: Final = 16 * 1024
"""Some registries' passwords are tokens of several thousand characters."""


def read_value(text: object) -> object:
    """Base64, because a value may be any bytes. What was sent is never part of what is said about it."""
    if not isinstance(text, str):
        return text
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError, ValueError):
        raise ValueError("expected base64") from None


def _check_data(data: dict[str, bytes]) -> dict[str, bytes]:
    if sum(map(len, data.values())) > VALUE_BYTES_MAX:
        raise ValueError(f"a secret has at most {VALUE_BYTES_MAX} bytes")
    return data


def _check_username(text: str) -> str:
    if not text.isprintable() or ":" in text:
        raise ValueError("expected printable characters without ':'")
    return text


def _check_password(text: str) -> str:
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        raise ValueError("a password holds a control character; a line's end is no part of it")
    return text


def read_registry(text: str) -> str:
    """A registry's host and port in its one spelling. ValueError says what was expected."""
    try:
        return parse_registry(text)
    except BadReference as exc:
        raise ValueError(str(exc)) from None


Value = Annotated[bytes, BeforeValidator(read_value), WithJsonSchema({"type": "string", "format": "byte"})]


class SecretRequest(Strict):
    data: Annotated[dict[SecretKey, Value], Field(min_length=1, max_length=KEYS_MAX), AfterValidator(_check_data)]
    """By key, in base64. They replace all that the secret had before."""


class LoginRequest(Strict):
    username: Annotated[str, Field(min_length=1, max_length=USERNAME_MAX), AfterValidator(_check_username)]
    password: Annotated[str, Field(min_length=1, max_length=PASSWORD_MAX), AfterValidator(_check_password)]


class SecretShape(Shape):
    name: str
    keys: list[str]
    version: int
    updated_at: str
    used_by: list[str]
    """Live jobs that refer to it, the oldest first, not all of very many."""
    used_by_count: int


class SecretList(Shape):
    items: list[SecretShape]


class LoginShape(Shape):
    registry: str
    username: str
    version: int
    updated_at: str


class LoginList(Shape):
    items: list[LoginShape]


class RotationShape(Shape):
    key: int
    left: int
    """Values an older key still seals; they are sealed anew as soon as the store takes writes."""


def secret_document(secret: Secret, users: tuple[str, ...], user_count: int, *, wall: Wall) -> dict[str, Any]:
    return {
        "name": secret.name,
        "keys": list(secret.keys),
        "version": secret.version,
        "updatedAt": timestamp(wall(secret.updated_at)),
        "usedBy": list(users),
        "usedByCount": user_count,
    }


def login_document(login: RegistryLogin, *, wall: Wall) -> dict[str, Any]:
    return {
        "registry": login.registry,
        "username": login.username,
        "version": login.version,
        "updatedAt": timestamp(wall(login.updated_at)),
    }
