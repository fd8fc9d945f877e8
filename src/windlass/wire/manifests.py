"""Manifests out of request bodies, one or a batch: each part judged once, and known again by its very bytes.

Thousands of submits differ in little: a sweep in its variables and arguments, a loop in nothing. The judge is `job.read_manifest`;
what it said of a spec is remembered as long as there is room, and so is what it said of all that is not command and variables,
which are judged apart where they are plain. So is metadata, which is remembered unless it gives a name. A body is cut into its
parts by a reader that looks at the outermost fields only, so one with anything unusual about it, and one with any fault, is read
and judged whole, by the same judge: that is where all the words for faults come from.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from windlass.core.errors import Invalid
from windlass.core.model.submission import Submission
from windlass.wire.bulk import read_bulk
from windlass.wire.documents import DocumentLimits, read_json, read_one
from windlass.wire.faults import validate
from windlass.wire.job import (
    NO_POOLS,
    MayReach,
    MetadataDocument,
    anywhere,
    pairs,
    read_manifest,
    read_plain_command,
    read_plain_env,
)

K = TypeVar("K")
V = TypeVar("V")
Pairs = tuple[tuple[str, str], ...]

_SpecKey = tuple[str, str, bytes]
"""The manifest's version and kind go along: what a spec may say depends on them."""
_PARTS_MAX: Final = 1024
_PART_BYTES_MAX: Final = 4096
"""Together a bound on memory: a larger part is judged each time, and after so many different ones the memory begins anew."""


class Manifests:
    """Bound to what this server runs. Used by the loop and by threads: a verdict lost in a race is made again."""

    def __init__(
        self,
        *,
        runtime: str,
        preset_image: str = "",
        pools: Mapping[str, str] = NO_POOLS,
        may_reach: MayReach = anywhere,
    ) -> None:
        self._may_reach = may_reach
        self._runtime = runtime
        self._pools = pools
        self._preset_image = preset_image
        self._specs: dict[_SpecKey, Submission] = {}
        self._frames: dict[_SpecKey, Submission] = {}
        self._labels: dict[bytes, Pairs] = {}

    def __len__(self) -> int:
        """Verdicts remembered."""
        return len(self._specs) + len(self._frames) + len(self._labels)

    def read_json(self, raw: bytes, *, limits: DocumentLimits) -> Submission:
        parts = _cut_one(raw)
        if parts is not None:
            try:
                return self._judge_apart(parts, _inside(limits, levels=1))
            except Invalid:
                pass  # said again below, of the whole
        return self.judge(read_json(raw, limits=limits))

    def read_document(self, raw: bytes, media_type: str, *, limits: DocumentLimits) -> Submission:
        return self.judge(read_one(raw, media_type, limits=limits))

    def read_batch(self, raw: bytes, *, items_max: int, limits: DocumentLimits) -> list[Submission]:
        """All of them, or Invalid with the faults of all."""
        items = _cut_batch(raw)
        if items is not None and len(items) <= items_max:
            try:
                inside = _inside(limits, levels=3)
                return [self._judge_apart(parts, inside) for parts in items]
            except Invalid:
                pass
        data = read_json(raw, limits=limits)
        return read_bulk(
            data,
            items_max=items_max,
            runtime=self._runtime,
            preset_image=self._preset_image,
            pools=self._pools,
            may_reach=self._may_reach,
        )

    def judge(self, data: object) -> Submission:
        """Of a document that was read already."""
        return read_manifest(
            data,
            runtime=self._runtime,
            preset_image=self._preset_image,
            pools=self._pools,
            may_reach=self._may_reach,
        )

    def _judge_apart(self, parts: "_Parts", limits: DocumentLimits) -> Submission:
        key = (parts.api_version, parts.kind, bytes(parts.spec))
        judged = self._specs.get(key)
        if judged is None:
            judged = self._judge_spec(parts, read_json(key[2], limits=limits))
            if len(key[2]) <= _PART_BYTES_MAX:
                _remember(self._specs, key, judged)
        return judged if parts.metadata is UNSET else self._with_metadata(judged, bytes(parts.metadata), limits)

    def _judge_spec(self, parts: "_Parts", spec: Any) -> Submission:
        try:
            frame, command, env = _take_apart(spec)
        except ValueError:
            return self._judge_as(parts, spec)
        key = (parts.api_version, parts.kind, _write(frame))
        judged = self._frames.get(key)
        if judged is None:
            judged = self._judge_as(parts, frame)
            if len(key[2]) <= _PART_BYTES_MAX:
                _remember(self._frames, key, judged)
        return replace(judged, spec=replace(judged.spec, command=command, env=env))

    def _judge_as(self, parts: "_Parts", spec: Any) -> Submission:
        return self.judge({"apiVersion": parts.api_version, "kind": parts.kind, "spec": spec})

    def _with_metadata(self, judged: Submission, raw: bytes, limits: DocumentLimits) -> Submission:
        labels = self._labels.get(raw)
        if labels is not None:
            return replace(judged, labels=labels)
        metadata = validate(MetadataDocument, read_json(raw, limits=limits), what="the metadata")
        labels = pairs(metadata.labels)
        if metadata.name is None and len(raw) <= _PART_BYTES_MAX:
            _remember(self._labels, raw, labels)
        return replace(judged, name=metadata.name or "", labels=labels)


class _Parts(Struct, forbid_unknown_fields=True):
    """A manifest's outermost fields; a document that was read back, with its status, is read whole."""

    kind: str
    spec: Raw
    api_version: str = field(name="apiVersion")
    metadata: Raw | UnsetType = UNSET


class _Batch(Struct, forbid_unknown_fields=True):
    items: list[_Parts]


_one: Final = msgspec.json.Decoder(_Parts).decode
_batch: Final = msgspec.json.Decoder(_Batch).decode
_write: Final = msgspec.json.Encoder(decimal_format="number").encode  # as text, 1 and "1" would be one
_A_COMMAND: Final = ["true"]


def _cut_one(raw: bytes) -> _Parts | None:
    try:
        parts = _one(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return parts if _are_all_parts(raw, (parts,)) else None


def _cut_batch(raw: bytes) -> list[_Parts] | None:
    try:
        items = _batch(raw).items
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return items if items and raw.count(b'"items"') == 1 and _are_all_parts(raw, items) else None


def _are_all_parts(raw: bytes, items: Sequence[_Parts]) -> bool:
    """Whether every field was seen: of a key given twice only the last was. So each must be named as often as it was found,
    which a text of the same letters may spoil, and no escape may hide one."""
    count = len(items)
    return (
        raw.count(b'"spec"') == count
        and raw.count(b'"kind"') == count
        and raw.count(b'"apiVersion"') == count
        and raw.count(b'"metadata"') == sum([parts.metadata is not UNSET for parts in items])
        and b"\\u" not in raw
    )


def _take_apart(spec: Any) -> tuple[dict[str, Any], tuple[str, ...], Pairs]:
    """The frame, with any command in the place of its own, the command, and the variables. ValueError where one of these is not
    plain, or speaks of the other: such a spec is judged whole."""
    if type(spec) is not dict or "secretEnv" in spec:
        raise ValueError
    command = read_plain_command(spec.get("command"))
    env = read_plain_env(spec["env"]) if "env" in spec else ()
    frame = {**spec, "command": _A_COMMAND}
    frame.pop("env", None)
    return frame, command, env


def _inside(limits: DocumentLimits, *, levels: int) -> DocumentLimits:
    """A part may be nested as deep as the whole would let it."""
    return replace(limits, depth_max=limits.depth_max - levels)


def _remember(memory: dict[K, V], key: K, value: V) -> None:
    if len(memory) >= _PARTS_MAX:
        memory.clear()
    memory[key] = value
