"""The settings of `windlass up`, one frozen tree.

Flags win over WINDLASS_ variables, these over the settings file, it over the defaults.
"""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from windlass.client.connection import default_data_dir
from windlass.core.errors import Invalid
from windlass.wire.faults import faults_of
from windlass.wire.identity import OidcIssuer

FILE_NAME = "windlass.toml"
"""Looked for in the data directory."""
PREFIX = "WINDLASS_"


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path
    """Everything Windlass keeps: store, history, logs, blobs, keys."""
    host: str = "127.0.0.1"
    """The address to listen on. Beyond loopback, put TLS in front."""
    port: int = Field(default=8080, ge=0, le=65535)
    """0 takes a free one."""
    runtime: Literal["auto", "docker", "process"] = "auto"
    """`auto`: the container engine that answers, else plain processes."""
    docker_host: str | None = None
    """An engine's address; none: DOCKER_HOST and the usual Docker and Podman sockets are tried."""
    retention_days: int = Field(default=30, ge=1, le=3650)
    """How long finished jobs, their events and logs are kept."""
    default_timeout_seconds: int | None = Field(default=None, ge=1)
    """Given to jobs that name no timeout; none leaves them unbounded."""
    burst_reserve_percent: int = Field(default=20, ge=0, le=90)
    """Of all capacity: left free by ordinary runs for those in a burst, while any tenant has the policy `burst`."""
    boost_percent: int = Field(default=10, ge=0, le=100)
    """How much of an hour's service deadlines may borrow across tenants, all of them together; 0: none."""
    fetch_networks: tuple[str, ...] = ()
    """Private networks (CIDR, comma-separated in the environment) that copy-file and webhooks may reach."""
    preset_image: str = ""
    """What an EphemeralAccelerationJob runs when it names no image."""
    token_days: int = Field(default=365, ge=1, le=3650)
    """How long the token that `up` writes holds."""
    oidc: tuple[OidcIssuer, ...] = ()
    """Issuers other than ourselves whose tokens count (in the environment: the list as JSON)."""
    oidc_networks: tuple[str, ...] = ()
    """Private networks (CIDR) that issuers' keys may be fetched from. Not reachable for copy-file and webhooks."""
    rate_per_second: int | None = Field(default=None, ge=1, le=1_000_000)
    """Requests of a tenant that has no rate of its own; none: as fast as it can."""
    rate_at_once: int = Field(default=400, ge=1, le=1_000_000)
    """Of these, how many may come together after a pause."""
    audit_days: int = Field(default=365, ge=1, le=3650)
    """How long audit records are kept."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"


def load(environ: Mapping[str, str], flags: Mapping[str, Any], file: Path | None = None) -> Settings:
    """`flags` holds only what was given on the command line. A settings file that is named must be there."""
    data_dir = Path(flags.get("data_dir") or default_data_dir(environ)).expanduser().absolute()
    path = file or data_dir / FILE_NAME
    from_file = _read(path) if file is not None or path.exists() else {}
    merged = {**from_file, **_from_environment(environ), **flags, "data_dir": data_dir}
    try:
        return Settings(**merged)
    except ValidationError as error:
        raise Invalid(
            "the settings do not hold",
            code="settings",
            faults=faults_of(error, unknown="is not a setting"),
            hint=f"flags, {PREFIX}… variables and {path} were read",
        ) from error


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in Settings.model_fields:
        text = environ.get(PREFIX + name.upper())
        if text:
            found[name] = _READERS[name](text) if name in _READERS else text
    return found


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # no list of issuers, and said to be none with all other faults


_READERS: Final = {"fetch_networks": _words, "oidc_networks": _words, "oidc": _json}
"""Of variables that hold more than one value."""


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise Invalid(f"there is no settings file {path}", code="settings-absent") from None
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not TOML: {error}", code="settings-syntax") from error
