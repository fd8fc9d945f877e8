"""The operator's settings: WINDLASS_OPERATOR_ variables, because that is what a Deployment carries best."""

import re
from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from windlass.core.errors import Fault, Invalid
from windlass.core.model.ids import Millis
from windlass.wire.expected import expected
from windlass.wire.kube.pod import PodPolicy
from windlass.wire.kube.release import check_key
from windlass.wire.kube.taints import read_selector, read_tolerations
from windlass.wire.names import LABEL_KEY_PATTERN, read_dns_label, read_image

PREFIX = "WINDLASS_OPERATOR_"
_RESOURCE: Final = re.compile(LABEL_KEY_PATTERN[1:-1], re.ASCII)
_OBJECT: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class OperatorSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    preset_image: str = ""
    """What a job runs that names no image."""
    namespaces: tuple[str, ...] = ()
    """Watched; none: all."""
    gpu_resource: str = "nvidia.com/gpu"
    """What a GPU is called here; `amd.com/gpu` elsewhere."""
    node_selector: tuple[str, ...] = ()
    """`key=value`: every pod goes only to such nodes."""
    tolerations: tuple[str, ...] = ()
    """`key` or `key=value`: taints that every pod bears."""
    gpu_tolerations: tuple[str, ...] = ()
    """Likewise, borne only by pods of jobs with GPUs: the taints that keep all others off the nodes that have them."""
    run_as_root: bool = False
    """Let images run as the user they name."""
    user: int = Field(default=1000, ge=1)
    """Who runs them otherwise, and the group that volumes are given to."""
    scratch_gib: int = Field(default=10, ge=1)
    """What a run may write outside its volume."""
    runtime_class: str = ""
    """RuntimeClass of every pod, such as a sandbox."""
    pull_secrets: tuple[str, ...] = ()
    """Secrets of the job's namespace with registry logins."""
    pull_patience_seconds: int = Field(default=120, ge=1)
    """How long a pod may fail to get its image before the run counts as failed."""
    release_key: str = ""
    """The public key of the server that admits what is in namespaces labelled with a tenant; `windlass doctor` shows it there."""
    resync_seconds: int = Field(default=30, ge=1)
    """The safety net: everything is looked at this often, even if nothing is heard."""
    workers: int = Field(default=16, ge=1)
    """Jobs looked at at once."""

    @field_validator("release_key")
    @classmethod
    def _check_key(cls, text: str) -> str:
        if text:
            check_key(text)
        return text

    @field_validator("preset_image")
    @classmethod
    def _check_image(cls, text: str) -> str:
        return read_image(text) if text else text

    @field_validator("gpu_resource")
    @classmethod
    def _check_resource(cls, text: str) -> str:
        if "/" not in text or not _RESOURCE.fullmatch(text):
            raise ValueError("expected domain/name, such as nvidia.com/gpu")
        return text

    @field_validator("namespaces")
    @classmethod
    def _check_namespaces(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(read_dns_label(text) for text in texts)

    @field_validator("runtime_class", "pull_secrets")
    @classmethod
    def _check_objects(cls, given: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for text in (given,) if isinstance(given, str) else given:
            if text and not _OBJECT.fullmatch(text):
                raise ValueError("expected a name of at most 253 lower-case letters, digits, '-', '.'")
        return given

    @field_validator("node_selector")
    @classmethod
    def _check_selector(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        if not all("=" in text for text in texts):
            raise ValueError("expected key=value each")
        read_selector(texts)
        return texts

    @field_validator("tolerations", "gpu_tolerations")
    @classmethod
    def _check_tolerations(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        read_tolerations(texts)
        return texts

    @property
    def patience_ms(self) -> Millis:
        return Millis(self.pull_patience_seconds * 1000)

    def policy(self) -> PodPolicy:
        return PodPolicy(
            gpu_resource=self.gpu_resource,
            may_run_as_root=self.run_as_root,
            user=self.user,
            group=self.user,
            scratch_bytes=self.scratch_gib << 30,
            node_selector=read_selector(self.node_selector),
            tolerations=read_tolerations(self.tolerations),
            gpu_tolerations=read_tolerations(self.gpu_tolerations),
            runtime_class=self.runtime_class,
            pull_secrets=self.pull_secrets,
        )


def load(environ: Mapping[str, str]) -> OperatorSettings:
    """Out of the process's variables. One that nobody reads is a word misspelt; those that Kubernetes itself adds for
    Services of a like name are not ours."""
    given = {name.removeprefix(PREFIX): text for name, text in environ.items() if name.startswith(PREFIX)}
    return _read({name: text for name, text in given.items() if not _OF_A_SERVICE.fullmatch(name)}, PREFIX)


def variables(given: Mapping[str, str]) -> dict[str, str]:
    """As a Deployment carries them, when they hold: `preset-image` and `preset_image` are one."""
    return installed(given)[0]


def installed(given: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """As `variables`, and the namespaces in which they let it work; none: all."""
    namespaces = _read(given).namespaces
    return {PREFIX + _name(name).upper(): text for name, text in given.items()}, namespaces


_OF_A_SERVICE: Final = re.compile(
    r"(.*_)?(SERVICE_(HOST|PORT(_.+)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def _read(given: Mapping[str, str], prefix: str = "") -> OperatorSettings:
    fields = OperatorSettings.model_fields
    found: dict[str, object] = {}
    faults: list[Fault] = []
    for asked, text in given.items():
        field = fields.get(_name(asked))
        if field is None:
            faults.append(Fault(prefix + asked, f"is no setting; there are {', '.join(sorted(fields))}"))
        elif text:
            is_list = field.annotation == tuple[str, ...]
            found[_name(asked)] = tuple(part.strip() for part in text.split(",")) if is_list else text
    try:
        settings = OperatorSettings.model_validate(found)
    except ValidationError as error:
        faults += [Fault(_shown(str(fault["loc"][0]), prefix), expected(fault)) for fault in error.errors()]
    if faults:
        raise Invalid("the operator's settings do not hold", code="settings", faults=faults)
    return settings


def _name(asked: str) -> str:
    return asked.lower().replace("-", "_")


def _shown(name: str, prefix: str) -> str:
    return prefix + name.upper() if prefix else name
