"""What a Windlass server says of the run for which it made a job object: an annotation, read by the operator.

A run of a server has an identity and a volume of its own, which outlive the object; the spec of a manifest has no words for
them. Everything it names lies in the job's own namespace, as all that a spec may name.
"""

import msgspec
from msgspec import Struct

from windlass.core.errors import Invalid
from windlass.core.model.assignment import Assignment
from windlass.wire.kube.names import ERRAND, Document, volume_name


class Errand(Struct, frozen=True, kw_only=True, omit_defaults=True):
    run: str
    job: str
    attempt: int
    index: int = 0
    count: int = 1
    claim: str
    """The volume that is given to it: used, never adopted, never deleted."""
    login: str = ""
    """A Secret with the registry login of its tenant."""
    is_guarded: bool = False
    """The registry is asked in its tenant's name, even if the node has the image."""
    has_preset: bool = False
    """It is told of a model, an input and an output."""


def errand_of(assignment: Assignment, *, claim: str, login: str = "") -> Errand:
    return Errand(
        run=assignment.run,
        job=assignment.job,
        attempt=assignment.attempt,
        index=assignment.index,
        count=assignment.count,
        claim=claim,
        login=login,
        is_guarded=assignment.is_guarded,
        has_preset=bool(assignment.spec.model),
    )


def write_errand(errand: Errand) -> str:
    return msgspec.json.encode(errand).decode()


def read_errand(job: Document) -> Errand | None:
    """None: nobody's errand, a job like any other. Invalid when it cannot be read."""
    text = job["metadata"].get("annotations", {}).get(ERRAND)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Errand)
    except msgspec.DecodeError as exc:
        raise Invalid(f"the annotation {ERRAND} cannot be read: {exc}", code="errand") from exc


def claim_of(job: Document) -> str:
    """The name of the job's volume."""
    try:
        errand = read_errand(job)
    except Invalid:
        errand = None  # such a job never runs
    return errand.claim if errand is not None else volume_name(job["metadata"]["name"])
