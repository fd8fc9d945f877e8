"""The operator's settings: WINDLASS_OPERATOR_ variables, because that is what a Deployment carries best."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from windlass.core.errors import Fault, Invalid
from windlass.core.model.ids import Millis
from windlass.wire.expected import expected
from windlass.wire.kube.pod import PodPolicy
from windlass.wire.kube.release import check_key
from windlass.wire.kube.taints import read_selector, read_tolerations

PREFIX = "WINDLASS_OPERATOR_"


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

    @field_validator("node_selector")
    @classmethod
    def _check_selector(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
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
    found: dict[str, object] = {}
    for name, field in OperatorSettings.model_fields.items():
        text = environ.get(PREFIX + name.upper(), "")
        if text:
            is_list = field.annotation == tuple[str, ...]
            found[name] = tuple(part.strip() for part in text.split(",")) if is_list else text
    try:
        return OperatorSettings.model_validate(found)
    except ValidationError as error:
        faults = [Fault(PREFIX + str(fault["loc"][0]).upper(), expected(fault)) for fault in error.errors()]
        raise Invalid("the operator's settings do not hold", code="settings", faults=faults) from error
