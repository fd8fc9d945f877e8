"""Many manifests in one request: every fault of every item, at `items[n]`.

Members of a batch mostly differ in their names alone, so a spec that reads the same as one before it is not judged again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from windlass.core.errors import Fault, Invalid
from windlass.core.model.submission import Submission
from windlass.wire.faults import FAULTS_MAX, invalid, validate
from windlass.wire.job import JobDocument, MetadataDocument, pairs, read_manifest


def read_bulk(data: object, *, items_max: int, runtime: str, preset_image: str = "") -> list[Submission]:
    """All of them, or Invalid with the faults of all (as many as are shown)."""
    items = _items(data, items_max)
    reader = _Reader(runtime=runtime, preset_image=preset_image)
    submissions: list[Submission] = []
    faults: list[Fault] = []
    for number, item in enumerate(items):
        try:
            submissions.append(reader.read(item))
        except Invalid as exc:
            faults += [Fault(f"items[{number}].{fault.field}", fault.message) for fault in exc.faults]
        if len(faults) >= FAULTS_MAX:
            break
    if faults:
        raise invalid("the batch", faults)
    return submissions


def _items(data: object, items_max: int) -> Sequence[object]:
    items = data.get("items") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(items, list) or not 1 <= len(items) <= items_max:
        raise invalid("the batch", [Fault("items", f"expected a list of 1 to {items_max} manifests")])
    if len(data) > 1:
        raise invalid("the batch", [Fault(str(key), "is not a field here") for key in data if key != "items"])
    return items


class _Reader:
    def __init__(self, *, runtime: str, preset_image: str) -> None:
        self._runtime = runtime
        self._preset_image = preset_image
        self._read: dict[str, Submission] = {}

    def read(self, item: object) -> Submission:
        if not isinstance(item, dict) or not item.keys() <= _FIELDS:
            return self._judge(item)
        # repr tells 1 from True and 1.5 from "1.5"; equal texts are equal documents
        head = repr([item.get("apiVersion"), item.get("kind"), item.get("spec")])
        known = self._read.get(head)
        if known is None:
            known = self._judge(item)
            self._read[head] = known
            return known
        return _renamed(known, item.get("metadata", {}))

    def _judge(self, item: object) -> Submission:
        return read_manifest(item, runtime=self._runtime, preset_image=self._preset_image)


_FIELDS = {field.alias for field in JobDocument.model_fields.values()}


def _renamed(known: Submission, metadata: Any) -> Submission:
    try:
        read = validate(MetadataDocument, metadata, what="the manifest")
    except Invalid as exc:
        raise Invalid("", faults=[Fault(f"metadata.{fault.field}", fault.message) for fault in exc.faults]) from None
    return replace(known, name=read.name or "", labels=pairs(read.labels))
