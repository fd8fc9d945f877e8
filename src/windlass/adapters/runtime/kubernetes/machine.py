"""What a cluster offers: the sum of what its nodes can give to pods. Pure.

Devices are handed out by the nodes themselves; the World counts them by names made up here.
"""

from collections.abc import Iterable

from windlass.core.model.resources import Resources
from windlass.ports.runtime import Machine
from windlass.wire.kube.names import Document
from windlass.wire.kube.pod import PodPolicy
from windlass.wire.kube.taints import is_shut
from windlass.wire.quantities import read_bytes, read_cores


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
    # With those that only jobs with GPUs bear: else a cluster whose GPUs are kept for them would have none to offer.
    is_open = not is_shut(spec.get("taints", ()), (*policy.tolerations, *policy.gpu_tolerations))
    is_chosen = all(labels.get(key) == value for key, value in policy.node_selector)
    return is_ready and is_chosen and is_open and not spec.get("unschedulable", False)


def _allocatable(node: Document) -> dict[str, str]:
    found: dict[str, str] = node["status"]["allocatable"]
    return found
