"""The manifest of a job, as written: the one validator, and the way from it to a Submission.

`read_manifest` names every fault at once. What a kind or a runtime asks of the presence of fields is judged on the document as
written, so that those faults come together with the others.
"""

import shlex
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from windlass.core.errors import Fault
from windlass.core.model.bounds import PRIORITY
from windlass.core.model.ids import Millis, PoolId
from windlass.core.model.job import JobKind, JobSpec, OnLostNode
from windlass.core.model.money import Micros
from windlass.core.model.resources import Resources
from windlass.core.model.secret import DEFAULT_KEY, SecretFile, SecretVariable
from windlass.core.model.submission import Submission
from windlass.wire import names, quantities, urls
from windlass.wire.faults import show, validate

API_VERSION: Final = "windlass.dev/v1"
COMMAND_BYTES_MAX: Final = 128 * 1024
"""The kernel takes no single argument longer than this."""
COMMAND_WORDS_MAX: Final = 4096
ENV_BYTES_MAX: Final = 256 * 1024
ENV_MAX: Final = 1000
SECONDS_MAX: Final = 366 * 24 * 3600
LOST_AFTER_MS_MIN: Final = 10_000
LABELS_MAX: Final = 64
SLA_CLASSES: Final = {
    "5m": Millis(300_000),
    "15m": Millis(900_000),
    "1h": Millis(3_600_000),
    "4h": Millis(14_400_000),
    "24h": Millis(86_400_000),
}
SECRET_FILES_MAX: Final = 64

VOLUME_TTL: Final = "pvcTTLSecondsAfterFinished"
VOLUME_TTL_ALIAS: Final = "volumeTTLSecondsAfterFinished"
_PRESET_FIELDS: Final = ("model", "input", "output")
_TEXTS: Final = {str}
_SURELY_FEW: Final = COMMAND_BYTES_MAX // 4
"""Characters: in UTF-8 none has more than four bytes, so these need not be counted."""


def _read_command(value: object) -> object:
    """A text is split as a shell would split it, and never given to one."""
    if not isinstance(value, str):
        return value
    if len(value) > COMMAND_BYTES_MAX:
        raise ValueError(f"a command has at most {COMMAND_BYTES_MAX} bytes")
    try:
        return shlex.split(value)
    except ValueError as exc:
        raise ValueError(f"cannot be split into arguments: {str(exc).lower()}") from None


def check_command(arguments: list[str]) -> list[str]:
    whole = "".join(arguments)
    if len(whole) > _SURELY_FEW and len(whole.encode()) > COMMAND_BYTES_MAX:
        raise ValueError(f"a command has at most {COMMAND_BYTES_MAX} bytes")
    if "\0" in whole:
        raise ValueError("an argument holds a NUL character")
    if arguments and not arguments[0]:
        raise ValueError("the first argument names the program and may not be empty")
    return arguments


def _check_env(env: "dict[str, str | SecretRefDocument]") -> "dict[str, str | SecretRefDocument]":
    check_variables({key: value if isinstance(value, str) else "" for key, value in env.items()})
    return env


def check_variables(texts: dict[str, str]) -> None:
    whole = "".join([*texts, *texts.values()])
    if len(whole) > _SURELY_FEW and len(whole.encode()) > ENV_BYTES_MAX:
        raise ValueError(f"variables have at most {ENV_BYTES_MAX} bytes together")
    names.read_env(texts)


def read_plain_command(value: object) -> tuple[str, ...]:
    """The words of one that is a list of texts, by the rules of the model; ValueError for any other, whatever the model says."""
    if type(value) is not list or not value or len(value) > COMMAND_WORDS_MAX or set(map(type, value)) != _TEXTS:
        raise ValueError
    return tuple(check_command(value))


def read_plain_env(value: object) -> tuple[tuple[str, str], ...]:
    """Variables that are texts, all of them, by the rules of the model; ValueError for any other."""
    if type(value) is not dict or len(value) > ENV_MAX or not set(map(type, value.values())) <= _TEXTS:
        raise ValueError
    check_variables(value)
    return tuple(value.items())


def _check_names(references: "dict[str, SecretRefDocument]") -> "dict[str, SecretRefDocument]":
    names.read_env(dict.fromkeys(references, ""))
    return references


def _read_lost_after(value: object) -> int:
    millis = quantities.read_duration(value)
    if millis < LOST_AFTER_MS_MIN:
        raise ValueError("expected at least 10 seconds")
    return millis


Name = Annotated[
    str, AfterValidator(names.read_dns_label), Field(json_schema_extra={"pattern": names.DNS_LABEL_PATTERN})
]
Labels = Annotated[
    dict[str, str],
    Field(max_length=LABELS_MAX),
    AfterValidator(names.read_labels),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": LABELS_MAX,
            "propertyNames": {"pattern": names.LABEL_KEY_PATTERN},
            "additionalProperties": {"type": "string", "pattern": names.LABEL_VALUE_PATTERN},
        }
    ),
]
Command = Annotated[
    list[str],
    Field(max_length=COMMAND_WORDS_MAX),
    BeforeValidator(_read_command),
    AfterValidator(check_command),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "maxItems": COMMAND_WORDS_MAX, "items": {"type": "string"}},
                {"type": "string"},
            ]
        }
    ),
]
Cpu = Annotated[
    int,
    BeforeValidator(quantities.read_cpu),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": quantities.CPU_PATTERN},
                {"type": "number", "minimum": 0.01, "maximum": 4096},
            ],
            "examples": ["500m", 1.5],
        }
    ),
]
_BYTES_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [{"type": "string", "pattern": quantities.BYTES_PATTERN}, {"type": "integer", "minimum": 0}],
    "examples": ["512Mi", "1Gi"],
}
Memory = Annotated[int, BeforeValidator(quantities.read_memory), WithJsonSchema(_BYTES_SCHEMA)]
VolumeSize = Annotated[int, BeforeValidator(quantities.read_volume_size), WithJsonSchema(_BYTES_SCHEMA)]
LostAfter = Annotated[
    int,
    BeforeValidator(_read_lost_after),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 10, "maximum": SECONDS_MAX},
                {"type": "string", "pattern": quantities.DURATION_PATTERN},
            ],
            "examples": [600, "10m"],
        }
    ),
]
Seconds = Annotated[int, Field(ge=0, le=SECONDS_MAX)]
Image = Annotated[str, AfterValidator(names.read_image), Field(min_length=1, max_length=520)]
ContainerPath = Annotated[
    str,
    AfterValidator(names.read_container_path),
    Field(max_length=names.PATH_BYTES_MAX, json_schema_extra={"pattern": "^/"}),
]


def _check_in_artifacts(path: str) -> str:
    names.read_artifact_path(path)
    return path


ArtifactPath = Annotated[str, AfterValidator(_check_in_artifacts), Field(min_length=1, max_length=names.PATH_BYTES_MAX)]
Url = Annotated[str, AfterValidator(urls.read_url), Field(max_length=urls.URL_MAX, json_schema_extra={"format": "uri"})]


def shared(value: Any) -> Any:
    """A default that is one frozen object for all: pydantic would copy it deeply each time."""
    return Field(default_factory=lambda: value)


class Strict(BaseModel):
    """A field we do not know is a fault, and so is a number where a text is meant."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, hide_input_in_errors=True
    )


SecretKey = Annotated[
    str, AfterValidator(names.read_secret_key), Field(json_schema_extra={"pattern": names.SECRET_KEY_PATTERN})
]


class SecretRefDocument(Strict):
    """Where a value comes from when the run starts, instead of the value."""

    secret: Name
    key: SecretKey = DEFAULT_KEY


EnvValue = Annotated[
    Annotated[str, Tag("[text]")] | Annotated[SecretRefDocument, Tag("[secret]")],
    Discriminator(lambda value: "[secret]" if isinstance(value, dict | SecretRefDocument) else "[text]"),
]
Env = Annotated[
    dict[str, EnvValue],
    Field(max_length=ENV_MAX, json_schema_extra={"propertyNames": {"pattern": names.ENV_NAME_PATTERN}}),
    AfterValidator(_check_env),
]
SecretEnv = Annotated[
    dict[str, SecretRefDocument],
    Field(max_length=ENV_MAX, json_schema_extra={"propertyNames": {"pattern": names.ENV_NAME_PATTERN}}),
    AfterValidator(_check_names),
]
SecretFiles = Annotated[dict[SecretKey, SecretRefDocument], Field(max_length=SECRET_FILES_MAX)]


class MetadataDocument(Strict):
    name: Name | None = None
    """Absent: the server makes one up."""
    labels: Labels = Field(default_factory=dict)
    uid: Any = None
    """Given by the server; read over on the way in, so that a document that was read can be applied."""
    creation_timestamp: Any = None


class ResourcesDocument(Strict):
    cpu: Cpu = 1000
    memory: Memory = 512 << 20
    gpu: Annotated[int, Field(ge=0, le=64)] | None = None
    """1 for an EphemeralAccelerationJob, else 0."""


class InputDocument(Strict):
    type: Literal["image"] = "image"
    path: ArtifactPath = "/artifacts/input.jpg"


class OutputDocument(Strict):
    path: ArtifactPath = "/artifacts/output.json"


class WebhookDocument(Strict):
    url: Url


class JobSpecDocument(Strict):
    image: Image | None = None
    command: Command = Field(default_factory=list)
    env: Env = Field(default_factory=dict)
    secret_env: SecretEnv = Field(default_factory=dict)
    """The references of `env` in a mapping of their own: a CRD cannot have a text or a mapping in one place."""
    secret_files: SecretFiles = Field(default_factory=dict)
    workdir: ContainerPath | None = None
    resources: ResourcesDocument = shared(ResourcesDocument())
    timeout_seconds: Annotated[int, Field(ge=1, le=SECONDS_MAX)] | None = None
    expected_seconds: Annotated[int, Field(ge=1, le=SECONDS_MAX)] | None = None
    sla: Literal["5m", "15m", "1h", "4h", "24h"] | None = None
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    priority: Annotated[int, Field(ge=PRIORITY.least, le=PRIORITY.most)] = 0
    ttl_seconds_after_finished: Seconds = 0
    volume_ttl: Seconds = Field(default=3600, alias=VOLUME_TTL)
    volume_ttl_too: Seconds | None = Field(default=None, alias=VOLUME_TTL_ALIAS)
    on_lost_node: Literal["wait", "move", "duplicate"] | None = None
    lost_after: LostAfter = 600_000
    suspend: bool = False
    collect: bool = False
    pool: Name | None = None
    node_selector: Labels = Field(default_factory=dict)
    webhook: WebhookDocument | None = None
    pids_limit: Annotated[int, Field(ge=1, le=1 << 20)] = 4096
    grace_seconds: Annotated[int, Field(ge=0, le=3600)] = 10
    terminal: bool = False
    stdin: bool = False
    network: bool = True
    storage_class: Annotated[str, Field(max_length=names.DNS_SUBDOMAIN_MAX), names.DNS_SUBDOMAIN] | None = None
    pvc_size: VolumeSize = 1 << 30
    queue_name: Name | None = None
    max_cost: Annotated[int, Field(ge=1, le=10**15)] | None = None
    """Micro-units. Zero is refused: such a job would be stopped as it starts."""
    model: Annotated[str, AfterValidator(names.read_model), Field(max_length=64)] = "resnet50"
    input: InputDocument = shared(InputDocument())
    output: OutputDocument = shared(OutputDocument())


class JobDocument(Strict):
    """A job as a person writes it. `status` is the server's and read over."""

    api_version: Literal["windlass.dev/v1"]
    kind: Literal["Job", "EphemeralAccelerationJob"]
    metadata: MetadataDocument = shared(MetadataDocument())
    spec: JobSpecDocument
    status: Any = None


NO_POOLS: Final[Mapping[str, str]] = {}
MayReach = Callable[[str], bool]
"""Whether an address may be told of a job's end, as far as its looks say."""


def anywhere(url: str) -> bool:
    return True


def read_manifest(
    data: object,
    *,
    runtime: str,
    preset_image: str = "",
    pools: Mapping[str, str] = NO_POOLS,
    may_reach: MayReach = anywhere,
) -> Submission:
    """What the document asks for, or Invalid with every fault. `preset_image` is what kind EphemeralAccelerationJob runs
    when it names no image of its own; `pools` are those that run something else than `runtime`."""
    if pools:
        runtime = pools.get(_pool_of(data), runtime)
    faults = _presence_faults(data, runtime=runtime, preset_image=preset_image)
    document = validate(JobDocument, data, what="the manifest", more=(*faults, *_reach_faults(data, may_reach)))
    return to_core(document, runtime=runtime, preset_image=preset_image)


def _pool_of(data: object) -> str:
    spec = data.get("spec") if isinstance(data, Mapping) else None
    pool = spec.get("pool") if isinstance(spec, Mapping) else None
    return pool if isinstance(pool, str) else ""


def to_core(document: JobDocument, *, runtime: str, preset_image: str = "") -> Submission:
    spec, metadata = document.spec, document.metadata
    volume_ttl = spec.volume_ttl if spec.volume_ttl_too is None else spec.volume_ttl_too
    return Submission(
        spec=_core_spec(document, preset_image if runtime == "container" else ""),
        name=metadata.name or "",
        kind=JobKind(document.kind),
        labels=pairs(metadata.labels),
        priority=spec.priority,
        retries=spec.retries,
        timeout_ms=None if spec.timeout_seconds is None else Millis(spec.timeout_seconds * 1000),
        expected_ms=None if spec.expected_seconds is None else Millis(spec.expected_seconds * 1000),
        sla_ms=None if spec.sla is None else SLA_CLASSES[spec.sla],
        cost_max=None if spec.max_cost is None else Micros(spec.max_cost),
        grace_ms=Millis(spec.grace_seconds * 1000),
        run_ttl_ms=Millis(spec.ttl_seconds_after_finished * 1000),
        volume_ttl_ms=Millis(volume_ttl * 1000),
        on_lost_node=None if spec.on_lost_node is None else OnLostNode(spec.on_lost_node),
        lost_after_ms=Millis(spec.lost_after),
        is_suspended=spec.suspend,
        runtime=runtime,
        pools=() if spec.pool is None else (PoolId(spec.pool),),
        node_labels=pairs(spec.node_selector),
    )


def _core_spec(document: JobDocument, preset_image: str) -> JobSpec:
    spec = document.spec
    is_preset = document.kind == JobKind.EPHEMERAL.value
    gpus = spec.resources.gpu if spec.resources.gpu is not None else int(is_preset)
    return JobSpec(
        image=spec.image or (preset_image if is_preset else ""),
        command=tuple(spec.command),
        env=tuple((name, value) for name, value in spec.env.items() if isinstance(value, str)),
        secret_env=tuple(
            SecretVariable(name=name, secret=value.secret, key=value.key)
            for name, value in (*spec.env.items(), *spec.secret_env.items())
            if isinstance(value, SecretRefDocument)
        ),
        secret_files=tuple(
            SecretFile(name=name, secret=value.secret, key=value.key) for name, value in spec.secret_files.items()
        ),
        workdir=spec.workdir or "",
        needs=Resources(cpu_millis=spec.resources.cpu, memory_bytes=spec.resources.memory, gpus=gpus),
        pids_max=spec.pids_limit,
        wants_terminal=spec.terminal,
        wants_input=spec.stdin,
        wants_network=spec.network,
        model=spec.model if is_preset else "",
        input_path=spec.input.path if is_preset else "",
        output_path=spec.output.path if is_preset else "",
        collect=spec.collect,
        webhook=spec.webhook.url if spec.webhook else "",
        storage_class=spec.storage_class or "",
        volume_size_bytes=spec.pvc_size,
        queue_name=spec.queue_name or "",
    )


def _presence_faults(data: object, *, runtime: str, preset_image: str) -> list[Fault]:
    """What kind and runtime ask of the fields that are there and those that are not."""
    if not isinstance(data, Mapping) or not isinstance(spec := data.get("spec"), Mapping):
        return []
    is_preset = data.get("kind") == JobKind.EPHEMERAL
    faults = []
    if runtime == "process":
        if spec.get("image") is not None:
            faults.append(Fault("spec.image", "this server runs plain processes, not containers; leave the image out"))
        if not spec.get("command"):
            faults.append(Fault("spec.command", "is required: this server runs plain processes"))
    elif spec.get("image") is None and not (is_preset and preset_image):
        faults.append(Fault("spec.image", "is required"))
    if not is_preset:
        faults += [
            Fault(f"spec.{name}", f"belongs to kind {JobKind.EPHEMERAL} only")
            for name in _PRESET_FIELDS
            if name in spec
        ]
    faults += [Fault(f"spec.secretEnv.{show(name)}", "is a variable of env too") for name in _twice(spec)]
    if VOLUME_TTL in spec and VOLUME_TTL_ALIAS in spec:
        faults.append(Fault(f"spec.{VOLUME_TTL_ALIAS}", f"is another name of {VOLUME_TTL}; give one of them"))
    return faults


def _reach_faults(data: object, may_reach: MayReach) -> list[Fault]:
    """An address that is refused at each delivery would be a webhook that nobody ever hears: better said now."""
    spec = data.get("spec") if isinstance(data, Mapping) else None
    webhook = spec.get("webhook") if isinstance(spec, Mapping) else None
    url = webhook.get("url") if isinstance(webhook, Mapping) else None
    if not isinstance(url, str) or may_reach(url):
        return []
    return [
        Fault(
            "spec.webhook.url",
            "leads to a private or special network, and `fetch_networks` does not allow it",
        )
    ]


def _twice(spec: Mapping[str, Any]) -> list[str]:
    """Variables that are given in both places they may be given in."""
    env, more = spec.get("env"), spec.get("secretEnv")
    if not isinstance(env, Mapping) or not isinstance(more, Mapping):
        return []
    return [name for name in more if isinstance(name, str) and name in env]


def pairs(mapping: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(mapping.items())) if mapping else ()
