"""The checkers: what must hold of a simulated installation's history, and of what is left when it has come to rest.

Each takes the history and answers with sentences about what is wrong; none means it holds. `PROMISES.md` names them.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from msgspec import convert

from windlass.core.lifecycle.job import NEXT, JobEvent
from windlass.core.model.job import TERMINAL, Job, JobState
from windlass.core.model.node import Node
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.run import ENDED, Run, RunState, Token

Line = Mapping[str, Any]
Checker = Callable[["History"], Iterator[str]]

_LATE_MS: Final = 150_000
"""After the heal: a backing-off retry of the engine, a sweep, a safety net, one after the other."""


class History:
    """The lines, sorted into what the checkers ask for."""

    def __init__(self, lines: Sequence[Line], *, healed_at: int) -> None:
        self.healed_at = healed_at
        self.lines = lines
        self.calls = [line for line in lines if line["kind"] == "call"]
        self.machine = [line for line in lines if line["kind"] == "machine"]
        self.by_hand = {line["run"] for line in lines if line.get("what") == "container removed by hand"}
        self.store = [line for line in lines if line["kind"] == "store"]
        self.jobs: dict[str, list[tuple[Line, Job]]] = defaultdict(list)
        self.over: dict[str, list[tuple[Line, Job]]] = defaultdict(list)
        self.erased: dict[str, Line] = {}
        self.runs: dict[str, list[tuple[Line, Run | None]]] = defaultdict(list)
        self.run_over: dict[str, list[tuple[Line, Run]]] = defaultdict(list)
        for line in self.store:
            self._sort_in(line)

    def _sort_in(self, line: Line) -> None:
        value, table = line["value"], line["table"]
        if table == "runs":
            self.runs[line["key"]].append((line, convert(value, Run) if value else None))
        if value is None:
            return
        if table == "jobs":
            self.jobs[line["key"]].append((line, convert(value, Job)))
        elif table == "outbox" and value["type"] == "job-over":
            self.over[line["key"]].append((line, convert(value["job"], Job)))
        elif table == "outbox" and value["type"] == "run-over":
            self.run_over[line["key"]].append((line, convert(value["run"], Run)))
        elif table == "outbox" and value["type"] == "job-erased":
            self.erased[line["key"]] = line

    def of(self, op: str, *outcomes: str) -> Iterator[Line]:
        return (call for call in self.calls if call["op"] == op and call["outcome"] in outcomes)

    @property
    def known(self) -> list[str]:
        """Every job the store ever had; one that began and ended in a single commit has its end alone."""
        return sorted({*self.jobs, *self.over, *self.erased})

    def told(self, job: str) -> list[Job]:
        """Every record the store ever had of it, in order, its end last."""
        return [record for _, record in (*self.jobs.get(job, ()), *self.over.get(job, ()))]


def lost(history: History) -> Iterator[str]:
    known = set(history.known)
    for call in history.of("submit", "ok"):
        job = call["answer"]["job"]
        if job not in known:
            yield f"{call['key']} was acknowledged as {job}, which the store never had"
    asked = {call["job"] for call in history.of("delete", "ok", "unknown")}
    for job in history.erased:
        if job not in asked:
            yield f"job {job} was erased and nobody asked for it"


def phantom(history: History) -> Iterator[str]:
    submitted = {call["key"] for call in history.of("submit", "ok", "unknown")}
    jobs_of: dict[str, set[str]] = defaultdict(set)
    for job in history.known:
        for record in history.told(job)[:1]:
            jobs_of[dict(record.labels)["key"]].add(job)
    for key, jobs in jobs_of.items():
        if key not in submitted:
            yield f"jobs {sorted(jobs)} came of {key}, which was refused or never sent"
        if len(jobs) > 1:
            yield f"{key} became {len(jobs)} jobs: {sorted(jobs)}"


def idempotent(history: History) -> Iterator[str]:
    answers: dict[str, set[str]] = defaultdict(set)
    for call in history.of("submit", "ok"):
        answers[call["key"]].add(call["answer"]["body"])
    for key, bodies in answers.items():
        if len(bodies) > 1:
            yield f"{key} was answered in {len(bodies)} ways: {sorted(bodies)}"
    accepted = set(answers)
    for call in history.of("submit", "fail"):
        if call["key"] in accepted:
            yield f"{call['key']} was accepted once and refused at {call['at']}: {call['error']}"


def double_start(history: History) -> Iterator[str]:
    starts = Counter(line["run"] for line in history.machine if line["what"] == "started")
    for run, count in starts.items():
        if count > 1:
            yield f"run {run} was started {count} times"


def overlap(history: History) -> Iterator[str]:
    """Two runs of one job alive at once."""
    ended = {line["run"]: line["ended_at"] for line in history.machine if line["what"] == "ended"}
    spans: dict[str, list[tuple[int, float, str]]] = defaultdict(list)
    for line in history.machine:
        if line["what"] == "started":
            run = line["run"]
            spans[_job_of(run)].append((line["at"], ended.get(run, math.inf), run))
    for of_job in spans.values():
        ordered = sorted(of_job)
        for (_, end, run), (start, _, later) in pairwise(ordered):
            if start < end:
                yield f"{later} was started at {start}, {run} lived until {end}"


def unasked_start(history: History) -> Iterator[str]:
    """A container starts only for a run the store holds as not over yet."""
    state: dict[str, Run | None] = {}
    records = {id(line): run for one in history.runs.values() for line, run in one}
    for line in history.lines:
        if line.get("table") == "runs":
            state[line["key"]] = records[id(line)]
        elif line["kind"] == "machine" and line["what"] == "started":
            run = state.get(line["run"])
            if run is None or run.is_over:
                yield f"{line['run']} was started at {line['at']} while the store had it {run and run.state}"


def fence(history: History) -> Iterator[str]:
    tokens: dict[str, list[tuple[int, Token, str]]] = defaultdict(list)
    for run, records in history.runs.items():
        first = records[0][1]
        if first is None:
            yield f"run {run} begins with its end"
            continue
        tokens[first.job].append((records[0][0]["revision"], first.token, run))
        if any(later is not None and later.token != first.token for _, later in records):
            yield f"run {run} changed its token"
    for issued in tokens.values():
        ordered = [token for _, token, _ in sorted(issued)]
        if any(later <= earlier for earlier, later in pairwise(ordered)):
            yield f"tokens do not grow: {sorted(issued)}"
    for run, ends in history.run_over.items():
        if len({str(end) for _, end in ends}) > 1:
            yield f"run {run} has {len(ends)} results"
        line, end = ends[-1]
        newer = [r for revision, token, r in tokens[end.job] if token > end.token and revision < line["revision"]]
        if newer:
            yield f"the result of {run} was accepted after {newer} had been issued"


def monotone(history: History) -> Iterator[str]:
    within, across = _beyond(with_retries=False), _beyond(with_retries=True)
    for job in history.known:
        for before, after in pairwise(history.told(job)):
            if after.attempt < before.attempt:
                yield f"attempts of job {job} go from {before.attempt} to {after.attempt}"
            beyond = across if after.attempt > before.attempt or after.state is JobState.PENDING else within
            if after.state is not before.state and after.state not in beyond[before.state]:
                yield f"job {job} went from {before.state} to {after.state}"
    for run, records in history.runs.items():
        ends = [r for _, r in records if r is not None and r.state in ENDED]
        if len({end.state for end in ends}) > 1:
            yield f"run {run} ended twice, differently"


def _beyond(*, with_retries: bool) -> dict[JobState, set[JobState]]:
    """Where a state may lead in one step or many: a commit may hide the steps between."""
    beyond: dict[JobState, set[JobState]] = {state: set() for state in JobState}
    steps = [(state, after) for (state, event), after in NEXT.items() if with_retries or event is not JobEvent.RETRIED]
    for _ in JobState:
        for state, after in steps:
            beyond[state] |= {after} | beyond[after]
    return beyond


def one_end(history: History) -> Iterator[str]:
    for job, records in history.over.items():
        if len({str(record) for _, record in records}) > 1:
            yield f"the end of job {job} was written {len(records)} times, differently"
        last = records[-1][1]
        if last.state not in TERMINAL:
            yield f"job {job} is said to be over while {last.state}"
        if any(line["revision"] > records[0][0]["revision"] for line, _ in history.jobs.get(job, ())):
            yield f"job {job} lived on after its end"


def liveness(history: History) -> Iterator[str]:
    for job in history.jobs:
        if job not in history.over and job not in history.erased:
            yield f"job {job} never ended: {history.jobs[job][-1][1].state}"


def cancel_wins(history: History) -> Iterator[str]:
    for call in history.of("cancel", "ok"):
        ends = history.over.get(call["job"])
        if ends and ends[-1][1].state is not JobState.CANCELLED:
            yield f"job {call['job']}: a cancel was acknowledged at {call['at']}, it ended {ends[-1][1].state}"


def truthful(history: History) -> Iterator[str]:
    """What was answered about a job was so at some moment between the question and the answer, and is on disk."""
    for call in history.calls:
        job = call.get("job")
        if job is None or call["outcome"] == "unknown":
            continue
        erased = history.erased.get(job)
        if call.get("error") == "already-over" and not _over_by(history, job, call["at"]):
            yield f"{call['op']} of {job} at {call['at']} was told that it is over; the store did not have its end"
        if call.get("error") == "not-found" and (erased is None or erased["at"] > call["at"]):
            yield f"{call['op']} of {job} at {call['at']} was told that there is none; it was not erased then"
        if call["op"] == "look" and call["outcome"] == "ok" and not call["answer"].endswith("(stale)"):
            possible = _states_between(history, job, call["began"], call["at"])
            if call["answer"] not in possible:
                yield f"a look at {job} at {call['at']} saw {call['answer']}; it was {possible}"


def _over_by(history: History, job: str, at: int) -> bool:
    ends = history.over.get(job, ())
    erased = history.erased.get(job)
    return any(line["at"] <= at for line, _ in ends) or (erased is not None and erased["at"] <= at)


def _states_between(history: History, job: str, began: int, ended: int) -> list[str]:
    records = [*history.jobs.get(job, ()), *history.over.get(job, ())]
    before = [record.state for line, record in records if line["at"] <= began]
    return [*before[-1:], *(record.state for line, record in records if began <= line["at"] <= ended)]


def within_capacity(nodes: Sequence[Node]) -> Checker:
    def overcommit(history: History) -> Iterator[str]:
        capacity = {node.id: node.capacity for node in nodes}
        held: dict[str, Run] = {}
        revision = 0
        for line in history.store:
            if line["revision"] != revision:
                yield from _over(held, capacity, revision)
                revision = line["revision"]
            if line["table"] == "runs":
                run = convert(line["value"], Run) if line["value"] else None
                if run is None or run.is_over:
                    held.pop(line["key"], None)
                else:
                    held[line["key"]] = run

        yield from _over(held, capacity, revision)

    return overcommit


def _over(held: Mapping[str, Run], capacity: Mapping[Any, Resources], revision: int) -> Iterator[str]:
    used: dict[str, Resources] = defaultdict(lambda: NOTHING)
    for run in held.values():
        used[run.node] = used[run.node] + run.needs
    for node, needs in used.items():
        if not needs.fits_in(capacity[node]):
            yield f"node {node} holds {needs} at revision {revision}"


def names_unique(history: History) -> Iterator[str]:
    holder: dict[tuple[str, str], str] = {}
    gone: set[str] = set()
    for line in history.store:
        value = line["value"]
        if line["table"] == "outbox" and value and value["type"] == "job-erased":
            gone.add(line["key"])
        if line["table"] == "jobs" and value and value.get("is_name_given"):
            name = value["tenant"], value["name"]
            before = holder.get(name)
            if before is not None and before != line["key"] and before not in gone:
                yield f"{name} is held by {before} and by {line['key']}"
            holder[name] = line["key"]


def cost_exact(history: History) -> Iterator[str]:
    started = {line["run"]: line["at"] for line in history.machine if line["what"] == "started"}
    ended = {line["run"]: line["ended_at"] for line in history.machine if line["what"] == "ended"}
    for run, records in history.run_over.items():
        end = records[-1][1]
        if (end.ran_ms or 0) < 0 or (end.started_at or 0) > (end.ended_at or 0):
            yield f"run {run} has a negative span: {end}"
        ran_ms = ended.get(run, 0) - started.get(run, 0)
        if end.state is RunState.EXITED and ran_ms > 0 and end.ran_ms != ran_ms:  # 0 is how a runtime says unknown
            yield f"run {run} is charged {end.ran_ms} ms; it ran {ran_ms} ms"
    for job, ends in history.over.items():
        over = ends[-1][1]
        moments = [over.created_at, over.started_at, over.finished_at]
        known = [moment for moment in moments if moment is not None]
        if known != sorted(known):
            yield f"job {job} has its moments out of order: {known}"


def run_ttl(history: History) -> Iterator[str]:
    """What a run left is kept until its TTL, not longer (after the heal), and goes early only with its job or by hand."""
    removed = {line["run"]: line["at"] for line in history.machine if line["what"] == "removed"}
    created = {line["run"] for line in history.machine if line["what"] == "created"}
    for run, records in history.runs.items():
        kept = [r for _, r in records if r is not None and r.keep_until is not None]
        if not kept or run not in created or run in history.by_hand:
            continue
        until, gone = kept[-1].keep_until or 0, removed.get(run)
        erased = history.erased.get(kept[-1].job)
        if gone is not None and gone < until and (erased is None or erased["at"] > gone):
            yield f"{run} was removed at {gone}, it was to be kept until {until}"
        if gone is None or gone > max(until, history.healed_at) + _LATE_MS:
            yield f"{run} was to go at {until}; it went at {gone}"


def volume_ttl(history: History) -> Iterator[str]:
    """A volume goes after it was judged, and is judged when its time has come or its owner asked."""
    last: dict[str, Any] = {}
    judged: set[str] = set()
    asked = {call["job"] for call in history.of("delete", "ok", "unknown")}
    for line in history.lines:
        if line.get("table") == "volumes":
            key, value = line["key"], line["value"]
            is_judged = value is None or value.get("state") == "dropping"
            if is_judged and key not in judged:
                before = last.get(key) or {}
                expires = before.get("expires_at") or _expiry(history, before.get("job"))
                if before.get("job") not in asked and (expires is None or expires > line["at"]):
                    yield f"volume {key} was judged at {line['at']}, its time is {expires}"
                judged.add(key)
            last[key] = value
        elif line.get("what") == "volume gone" and line["volume"] not in judged and not _is_copy(last, line):
            yield f"volume {line['volume']} was removed at {line['at']}, unjudged"


def _is_copy(last: Mapping[str, Any], line: Line) -> bool:
    """What an earlier attempt left on another node goes with the job's end."""
    volume = last.get(line["volume"]) or {}
    return volume.get("expires_at") is not None and line["node"] != volume.get("node")


def _expiry(history: History, job: str | None) -> int | None:
    """From the job's end: one commit may hold the end, the expiry and the judgement."""
    ends = history.over.get(job or "")
    return (ends[-1][1].finished_at or 0) + ends[-1][1].volume_ttl_ms if ends else None


def _job_of(run: str) -> str:
    return run[:36]


OVER_HISTORY: Final[tuple[Checker, ...]] = (
    lost,
    phantom,
    idempotent,
    double_start,
    overlap,
    unasked_start,
    fence,
    monotone,
    one_end,
    liveness,
    cancel_wins,
    truthful,
    names_unique,
    cost_exact,
    run_ttl,
    volume_ttl,
)


def check_history(lines: Sequence[Line], *, healed_at: int, nodes: Sequence[Node]) -> list[str]:
    history = History(lines, healed_at=healed_at)
    checkers = (*OVER_HISTORY, within_capacity(nodes))
    return [f"{checker.__name__}: {wrong}" for checker in checkers for wrong in checker(history)]
