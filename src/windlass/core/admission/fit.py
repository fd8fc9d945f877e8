"""A job that can fit no node ever is refused at the door, with what is missing and what to do about it."""

from windlass.core.errors import Fault, Invalid
from windlass.core.model.shape import Shape
from windlass.core.placement.nodes import Nodes

_FIELDS = {
    "gpu": "spec.resources.gpu",
    "cpu": "spec.resources.cpu",
    "memory": "spec.resources.memory",
    "pool": "spec.pool",
    "runtime": "spec.image",
}


def check_fit(shape: Shape, nodes: Nodes) -> None:
    missing = nodes.could_ever_fit(shape)
    if not missing:
        return
    faults = [Fault(_FIELDS.get(what, "spec.nodeSelector"), _explain(what, shape, nodes)) for what in missing]
    raise Invalid("no node could ever run this job", code="fits-nowhere", faults=faults, hint=_hint(missing))


def _explain(what: str, shape: Shape, nodes: Nodes) -> str:
    slots = list(nodes)
    if what == "gpu":
        most = max((slot.node.capacity.gpus for slot in slots), default=0)
        return f"asks for {shape.needs.gpus} GPU; the most any node has is {most}"
    if what == "cpu":
        most = max((slot.node.capacity.cpu_millis for slot in slots), default=0)
        return f"asks for {shape.needs.cpu_millis / 1000:g} cores; the most any node has is {most / 1000:g}"
    if what == "memory":
        most = max((slot.node.capacity.memory_bytes for slot in slots), default=0)
        return f"asks for {shape.needs.memory_bytes} bytes; the most any node has is {most}"
    if what == "runtime":
        return f"needs a {shape.runtime} runtime; no node has one"
    if what == "node":
        return "there is no node yet"
    return f"no node matches: {what}"


def _hint(missing: tuple[str, ...]) -> str:
    if "gpu" in missing:
        return "there is no such GPU here: ask for none with --gpu 0 (resources.gpu: 0)"
    if "runtime" in missing:
        return "start the server with a container engine, or run without an image: windlass run -- CMD"
    return "ask for less; `windlass get nodes` shows what the nodes have"
