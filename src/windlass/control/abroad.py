"""Jobs that stand for an object in a tenant's own namespace of a cluster. Its volume and its pod are there, and are reached there:
with its owner's rights, by its owner's tools. The server has none there, and asks for none.
"""

import shlex
from typing import Final

from windlass.core.errors import Conflict
from windlass.core.model.job import Job

NAME: Final = "kubernetes.name"
NAMESPACE: Final = "kubernetes.namespace"
UID: Final = "kubernetes.uid"
"""Labels of such a job: which object it stands for."""


def refuse_pod(job: Job, verb: str, *more: str) -> None:
    """Conflict with the command of kubectl that does it, for a job that stands for such an object."""
    labels = dict(job.labels)
    if UID in labels:
        raise _refusal(job, "kubectl", "-n", labels[NAMESPACE], verb, "-it", f"{labels[NAME]}-1", *more)


def refuse_volume(job: Job, verb: str, *more: str) -> None:
    """Likewise, with that of egpu."""
    labels = dict(job.labels)
    if UID in labels:
        raise _refusal(job, "egpu", "-n", labels[NAMESPACE], verb, labels[NAME], *more)


def _refusal(job: Job, *command: str) -> Conflict:
    words = f"job {job.name} runs in its tenant's own namespace of a cluster, and is reached there"
    return Conflict(words, code="guest", hint=shlex.join(command))
