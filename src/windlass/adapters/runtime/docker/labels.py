"""Whose things are whose: the labels on all we create, and the test that keeps us off everything else."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from windlass.core.model.assignment import Assignment
from windlass.core.model.run import Token

PREFIX: Final = "windlass.dev/"
INSTALLATION: Final = PREFIX + "installation"
NODE: Final = PREFIX + "node"
RUN: Final = PREFIX + "run"
TOKEN: Final = PREFIX + "token"
TENANT: Final = PREFIX + "tenant"
"""On a run's container and on a network: whose it is."""
WORKER: Final = PREFIX + "worker"
"""On the container of a run in a slice: the slice's node. `NODE` stays the machine's, whose agent sweeps what is nobody's."""
HELPER: Final = PREFIX + "helper"
"""On a container that is never started and only lends the engine's archive calls a way into a volume: the volume's name."""


class Owner(Struct, frozen=True, kw_only=True):
    """An installation and one of its nodes. Only what carries both labels is ours."""

    installation: str
    node: str

    @property
    def labels(self) -> dict[str, str]:
        return {INSTALLATION: self.installation, NODE: self.node}

    def owns(self, labels: Mapping[str, str] | None) -> bool:
        labels = labels or {}
        return labels.get(INSTALLATION) == self.installation and labels.get(NODE) == self.node

    def filters(self, *more: str) -> dict[str, str]:
        """The query that lists ours; `more` are further labels, `key` or `key=value`. Answers are checked again by `owns`."""
        ours = [f"{key}={value}" for key, value in self.labels.items()]
        return {"filters": msgspec.json.encode({"label": [*ours, *more]}).decode()}

    def on_run(self, assignment: Assignment) -> dict[str, str]:
        worker = {WORKER: assignment.slice.node} if assignment.slice is not None else {}
        return (
            self.labels
            | worker
            | {
                RUN: assignment.run,
                PREFIX + "job": assignment.job,
                TENANT: assignment.tenant,
                TOKEN: str(assignment.token),
                PREFIX + "name": assignment.name,
                PREFIX + "attempt": str(assignment.attempt),
            }
        )


def read_token(labels: Mapping[str, str]) -> Token | None:
    epoch, _, n = labels.get(TOKEN, "").partition(".")
    return Token(int(epoch), int(n)) if epoch.isdecimal() and n.isdecimal() else None
