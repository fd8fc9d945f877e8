"""A job on a cluster that no operator has looked at: how that is seen, and what whoever waits for it can do."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from windlass.wire.kube.names import NAMESPACE, OPERATOR, Document

UNSEEN_SECONDS: Final = 12.0
"""An operator that is there may keep what it saw to itself for ten seconds, if it passes by itself."""


def is_unseen(job: Document) -> bool:
    """Every operator notes which generation it judged. A phase says nothing: the API server itself puts `Pending` there."""
    generation: int = job["metadata"].get("generation", 1)
    seen: int = job.get("status", {}).get("observedGeneration", 0)
    return seen < generation


def is_overlooked(job: Document, now: float) -> bool:
    """Unseen for longer than an operator takes; `now` in seconds since the epoch."""
    return is_unseen(job) and now - _changed_at(job) >= UNSEEN_SECONDS


def _changed_at(job: Document) -> float:
    """By whoever has written it last, but for its status; the epoch, where nobody has noted it."""
    metadata = job["metadata"]
    writes = (one for one in metadata.get("managedFields", ()) if one.get("subresource") != "status")
    times = [metadata.get("creationTimestamp"), *(one.get("time") for one in writes)]
    return max((datetime.fromisoformat(time).timestamp() for time in times if time), default=0.0)


def what_to_check(job: Document, namespace: str, way: Sequence[str] = ()) -> str:
    """`way` are the options that lead to the cluster: kubectl and `install` have the same."""
    where = shlex.join(("kubectl", *way, "-n", NAMESPACE, "get", "deployment", OPERATOR))
    make = shlex.join(("windlass", "operator", "install", *way))
    since = "since it was changed" if "observedGeneration" in job.get("status", {}) else "yet"
    return (
        f"no operator has looked at it {since}; `{where}` shows whether there is one: if not, "
        f"`{make}` makes one, and if so, its setting `namespaces` must name {namespace}, if it names any"
    )
