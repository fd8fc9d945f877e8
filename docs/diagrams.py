"""Draws the state diagrams of jobs and runs from the transition tables into `docs/guides/states.md`.

    python docs/diagrams.py            writes the page
    python docs/diagrams.py --check    exits 1 when the page is not what the tables say

The tables are the specification, so nothing is drawn by hand; `tests/docs` fails when the page is stale.
"""

import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from windlass.core.lifecycle import job, run
from windlass.core.model.job import TERMINAL, JobState
from windlass.core.model.run import ENDED, RunState

PAGE = Path(__file__).parent / "guides" / "states.md"

HEAD = """\
<!-- Written by docs/diagrams.py from the transition tables in src/windlass/core/lifecycle. Do not edit: run it again. -->
# States

A **job** is what you asked for; a **run** is one attempt at it on one node. A retry is a new run, and the only way back to
PENDING. A step that is not drawn here cannot happen: the code asks the same tables.
"""
JOB_NOTES: Mapping[JobState, str] = {
    JobState.PENDING: "accepted and durable; waits for room, for its release, or for a retry's backoff to end",
    JobState.SCHEDULED: "a node is chosen, and that is stored",
    JobState.STARTING: "its image is pulled, its inputs are staged, its container is created",
    JobState.RUNNING: "it runs",
    JobState.SUCCEEDED: "exit code 0",
    JobState.FAILED: "another exit code, out of memory, no image, vanished; `reason` says which",
    JobState.TIMED_OUT: "it ran longer than its timeout; not retried",
    JobState.CANCELLED: "somebody asked for it",
}
RUN_NOTES: Mapping[RunState, str] = {
    RunState.ASSIGNED: "in its node's set",
    RunState.STARTING: "the agent has taken it up",
    RunState.RUNNING: "started; it is never started again",
    RunState.UNKNOWN: "its node is silent (not on the local home)",
    RunState.EXITED: "it ended by itself, with an exit code",
    RunState.STOPPED: "it was ended by cancel or timeout",
    RunState.LOST: "it was started, and nothing of it is there",
    RunState.REFUSED: "it never started: no image, no such command, no such device",
}


def page() -> str:
    parts = [
        HEAD,
        "## A job\n",
        diagram(job.NEXT, start=JobState.PENDING, ends=TERMINAL),
        notes(JOB_NOTES),
        "## A run\n",
        diagram(run.NEXT, start=RunState.ASSIGNED, ends=ENDED),
        notes(RUN_NOTES),
    ]
    return "\n".join(parts)


def diagram(table: Mapping[tuple[StrEnum, StrEnum], StrEnum], *, start: StrEnum, ends: Iterable[StrEnum]) -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {start}"]
    for (before, after), events in _edges(table).items():
        lines.append(f"    {before} --> {after}: {', '.join(events)}")
    lines += [f"    {state} --> [*]" for state in sorted(ends)]
    return "\n".join([*lines, "```\n"])


def notes(meanings: Mapping[StrEnum, str]) -> str:
    rows = [f"| {state} | {meaning} |" for state, meaning in meanings.items()]
    return "\n".join(["| state | meaning |", "| --- | --- |", *rows, ""])


def _edges(table: Mapping[tuple[StrEnum, StrEnum], StrEnum]) -> dict[tuple[StrEnum, StrEnum], list[str]]:
    """Several events may lead the same way; they share an arrow."""
    found: dict[tuple[StrEnum, StrEnum], list[str]] = {}
    for (before, event), after in table.items():
        found.setdefault((before, after), []).append(str(event))
    return found


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        return int(not PAGE.exists() or PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
