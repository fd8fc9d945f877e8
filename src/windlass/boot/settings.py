"""The settings of `windlass up`, one frozen tree.

Flags win over WINDLASS_ variables, these over the settings file, it over the defaults.
"""

import json
import tomllib
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from windlass.client.connection import default_data_dir
from windlass.core.errors import Invalid
from windlass.wire import names, quantities
from windlass.wire.faults import faults_of
from windlass.wire.identity import OidcIssuer
from windlass.wire.kube import taints
from windlass.wire.money import ListPrices
from windlass.wire.tenant import QuotaDocument

FILE_NAME = "windlass.toml"
"""Looked for in the data directory."""
PREFIX = "WINDLASS_"
NO_NETWORKS = "none"


class KubernetesSettings(BaseModel):
    """A cluster as a pool of this server: `[kubernetes]` in the file. Its operator must be in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kubeconfig: Path | None = None
    """None: a pod's own service account, else KUBECONFIG and ~/.kube/config."""
    context: str | None = None
    """One of its contexts; none: the current one."""
    namespace: str = Field(default="windlass-runs", pattern=names.DNS_LABEL_PATTERN)
    """Where the runs' objects, pods, claims and Secrets are. The server's alone; it must be there."""
    pool: str = Field(default="kubernetes", pattern=names.DNS_LABEL_PATTERN)
    """The name of the pool, and of its one node."""
    cpu: str | None = None
    """Cores that the server gives out there (`"16"`, `"500m"`); none: what the nodes can give."""
    memory: str | None = None
    """Likewise (`"64Gi"`)."""
    gpus: int | None = Field(default=None, ge=0)
    """Likewise."""
    gpu_resource: str = "nvidia.com/gpu"
    """As in the operator's settings."""
    node_selector: tuple[str, ...] = ()
    """As there: which nodes count, and where the pods go through which files are reached."""
    tolerations: tuple[str, ...] = ()
    """As there, likewise."""
    gpu_tolerations: tuple[str, ...] = ()
    """As there, likewise."""
    tenants: bool = False
    """Admit what is made in namespaces labelled `windlass.dev/tenant`; the operator wants this server's `release_key`."""
    tenant_namespaces: tuple[str, ...] = ()
    """Where these are, by name: then the server wants rights there alone. None: wherever there is the label."""
    side_image: str = "busybox:1.37"
    """Of the pods through which files are reached: `tar`, `stat`, `mkdir` and `sleep` are in it."""

    @field_validator("tenant_namespaces")
    @classmethod
    def _check_namespaces(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(names.read_dns_label(text) for text in texts))

    @field_validator("node_selector")
    @classmethod
    def _check_selector(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        taints.read_selector(texts)
        return texts

    @field_validator("tolerations", "gpu_tolerations")
    @classmethod
    def _check_tolerations(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        taints.read_tolerations(texts)
        return texts

    @field_validator("cpu")
    @classmethod
    def _check_cpu(cls, text: str | None) -> str | None:
        if text is not None:
            quantities.read_cores(text)
        return text

    @field_validator("memory")
    @classmethod
    def _check_memory(cls, text: str | None) -> str | None:
        if text is not None:
            quantities.read_bytes(text)
        return text


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
    network_range: str = "10.208.0.0/12"
    """What tenants' networks on the engine get their subnets from (CIDR); `none`: all share its default network."""
    network_size: int = Field(default=22, ge=16, le=29)
    """Of each, as a prefix: 22 are 1,021 runs at once."""
    retention_days: int = Field(default=30, ge=1, le=3650)
    """How long finished jobs, their events and logs are kept."""
    unclaimed_volume_seconds: int = Field(default=3600, ge=1, le=365 * 86_400)
    """How long what copy-file brought waits for its job to come, from the last copy on."""
    default_timeout_seconds: int | None = Field(default=None, ge=1)
    """Given to jobs that name no timeout, of tenants without a `defaultTimeout`; none leaves them unbounded."""
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
    quota: QuotaDocument | None = None
    """What is left out of a new tenant's manifest, named as it is there (in the environment: the table as JSON)."""
    prices: ListPrices | None = None
    """`every` and `tiers` as the API has them, in micro-units (in the environment: the table as JSON). Followed at a start that
    finds them changed: what an admin sets after that holds."""
    kubernetes: KubernetesSettings | None = None
    """A cluster that is a pool of this server (in the environment: the table as JSON)."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"

    @field_validator("network_range")
    @classmethod
    def _check_range(cls, text: str) -> str:
        if text != NO_NETWORKS:
            try:
                IPv4Network(text)
            except ValueError as error:
                raise ValueError(f"expected a range of IPv4 addresses like 10.208.0.0/12, or {NO_NETWORKS}") from error
        return text

    @model_validator(mode="after")
    def _check_size(self) -> "Settings":
        if self.network_range != NO_NETWORKS and IPv4Network(self.network_range).prefixlen > self.network_size:
            raise ValueError(f"network_range: {self.network_range} has no room for a subnet of /{self.network_size}")
        return self


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


_READERS: Final = {
    "fetch_networks": _words,
    "oidc_networks": _words,
    "oidc": _json,
    "quota": _json,
    "prices": _json,
    "kubernetes": _json,
}
"""Of variables that hold more than one value."""


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise Invalid(f"there is no settings file {path}", code="settings-absent") from None
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not TOML: {error}", code="settings-syntax") from error
