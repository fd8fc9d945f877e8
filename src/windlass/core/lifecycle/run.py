"""How a run moves: from assigned on a node to one of four ends."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from windlass.core.errors import Conflict
from windlass.core.model.run import Run
from windlass.core.model.run import RunState as S


class RunEvent(StrEnum):
    PREPARING = "preparing"
    STARTED = "started"
    SILENT = "silent"
    HEARD = "heard"
    EXITED = "exited"
    STOPPED = "stopped"
    REFUSED = "refused"
    PROVED_DEAD = "proved dead"

    __hash__ = str.__hash__  # enum's own is a function in Python, called for every look into a table


E = RunEvent

NEXT: Final[Mapping[tuple[S, RunEvent], S]] = {
    (S.ASSIGNED, E.PREPARING): S.STARTING,  # the agent took it up: pulling, staging, creating
    (S.ASSIGNED, E.STARTED): S.RUNNING,  # progress facts may be lost; the start is not
    (S.STARTING, E.PREPARING): S.STARTING,
    (S.STARTING, E.STARTED): S.RUNNING,
    (S.ASSIGNED, E.REFUSED): S.REFUSED,  # no image, no such device: it never started
    (S.STARTING, E.REFUSED): S.REFUSED,
    (S.ASSIGNED, E.STOPPED): S.STOPPED,  # cancelled before it was created
    (S.STARTING, E.STOPPED): S.STOPPED,
    (S.ASSIGNED, E.EXITED): S.EXITED,  # so short that the start was never reported by itself
    (S.STARTING, E.EXITED): S.EXITED,
    (S.RUNNING, E.EXITED): S.EXITED,
    (S.RUNNING, E.STOPPED): S.STOPPED,
    (S.RUNNING, E.SILENT): S.UNKNOWN,  # the monitor notices
    (S.ASSIGNED, E.SILENT): S.UNKNOWN,
    (S.STARTING, E.SILENT): S.UNKNOWN,
    (S.UNKNOWN, E.HEARD): S.RUNNING,
    (S.UNKNOWN, E.STARTED): S.RUNNING,
    (S.UNKNOWN, E.PREPARING): S.STARTING,
    (S.UNKNOWN, E.EXITED): S.EXITED,
    (S.UNKNOWN, E.STOPPED): S.STOPPED,
    (S.UNKNOWN, E.REFUSED): S.REFUSED,
    (S.ASSIGNED, E.PROVED_DEAD): S.LOST,  # its node says it vanished, or was removed
    (S.STARTING, E.PROVED_DEAD): S.LOST,
    (S.RUNNING, E.PROVED_DEAD): S.LOST,
    (S.UNKNOWN, E.PROVED_DEAD): S.LOST,
}


def follow(run: Run, event: RunEvent) -> S:
    """The state `event` leads to; a Conflict when the table knows no such step."""
    state = NEXT.get((run.state, event))
    if state is None:
        raise Conflict(f"run {run.id} is {run.state}; it cannot be {event}", code="run-transition")
    return state
