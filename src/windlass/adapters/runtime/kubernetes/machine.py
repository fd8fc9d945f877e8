"""What a cluster offers: the sum of what its nodes can give to pods. Pure.

Devices are handed out by the nodes themselves; the World counts them by names made up here.
"""

from collections.abc import Iterable
from typing import Final

from windlass.core.model.resources import Resources
from windlass.ports.runtime import Machine
from windlass.wire.kube.names import Document
from windlass.wire.kube.pod import PodPolicy
from windlass.wire.quantities import read_bytes, read_cores

_SHUT: Final = frozenset({"NoSchedule", "NoExecute"})


def machine_of(nodes: Iterable[Document], policy: PodPolicy) -> Machine:
    ours = [node for node in nodes if _takes_pods(node, policy)]
    gpus = sum(int(_allocatable(node).get(policy.gpu_resource, "0")) for node in ours)
    versions = sorted({node["status"]["nodeInfo"]["kubeletVersion"] for node in ours})
    return Machine(
        runtime=f"kubernetes {versions[0]}" if versions else "kubernetes",
        kind="container",
        capacity=Resources(
            cpu_millis=sum(read_cores(_allocatable(node)["cpu"]) for node in ours),
            memory_bytes=sum(read_bytes(_allocatable(node)["memory"]) for node in ours),
            gpus=gpus,
        ),
        slices_lack="a cluster's nodes are not ours to cut",
        gpu_ids=tuple(f"{policy.gpu_resource}-{n}" for n in range(gpus)),
    )


def _takes_pods(node: Document, policy: PodPolicy) -> bool:
    spec, labels = node.get("spec", {}), node["metadata"].get("labels", {})
    conditions = node.get("status", {}).get("conditions", [])
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    borne = {toleration["key"] for toleration in policy.tolerations}
    is_shut = any(taint["effect"] in _SHUT and taint["key"] not in borne for taint in spec.get("taints", []))
    is_chosen = all(labels.get(key) == value for key, value in policy.node_selector)
    return is_ready and is_chosen and not is_shut and not spec.get("unschedulable", False)


def _allocatable(node: Document) -> dict[str, str]:
    found: dict[str, str] = node["status"]["allocatable"]
    return found
