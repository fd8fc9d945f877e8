"""kopf without its notes. We take plain events and keep nothing on the objects, so nothing need be compared with what was.

As it comes, kopf copies every object at every event, twice, in search of changes that no handler of ours asks for: most of
the operator's processor time.
"""

from typing import Any

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """In the place of the last handled state: none."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        return None


def keep_no_notes(settings: kopf.OperatorSettings) -> None:
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = kopf.MultiProgressStorage([])
