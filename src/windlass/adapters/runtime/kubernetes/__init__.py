"""The runtime port on Kubernetes: a run is a job object that the operator makes a pod of.

`objects` writes what is made, `observing` reads what has become of it, `bells` hears of changes, `logs` follows a pod's log,
`files` moves archives through a pod beside the volume, `volumes` and `runtime` are the port's verbs.
"""

from windlass.adapters.runtime.kubernetes.runtime import KubernetesRuntime

__all__ = ["KubernetesRuntime"]
