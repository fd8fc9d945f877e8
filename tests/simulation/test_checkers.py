"""The checkers see what they are there for: each is shown a small history that breaks its promise."""

from typing import Any

import pytest
from msgspec import to_builtins

from windlass.core.model.ids import JobId, Millis, NodeId, RunId, TenantId
from windlass.core.model.job import Job, JobState
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run, RunState, Token
from windlass.core.model.shape import Shape
from windlass.testing.audit_checkers import check_audit
from windlass.testing.builders import a_node
from windlass.testing.checkers import check_history
from windlass.testing.money_checkers import check_money

JOB = "01900000-0000-7000-8000-000000000001"
ONE, TWO = f"{JOB}-1", f"{JOB}-2"
NEEDS = Resources(cpu_millis=3000)


def a_job(state: JobState = JobState.PENDING, **changes: Any) -> Any:
    job = Job(
        id=JobId(JOB),
        tenant=TenantId("acme"),
        name="job",
        seq=1,
        shape=Shape(needs=NEEDS),
        created_at=Millis(1),
        since=Millis(1),
        state=state,
        labels=(("key", "k1"),),
        **changes,
    )
    return to_builtins(job)


def a_run(run: str = ONE, state: RunState = RunState.RUNNING, **changes: Any) -> Any:
    token = changes.pop("token", Token(1, int(run[-1])))
    record = Run(
        id=RunId(run),
        job=JobId(JOB),
        tenant=TenantId("acme"),
        node=NodeId("n1"),
        attempt=int(run[-1]),
        token=token,
        needs=NEEDS,
        since=Millis(1),
        assigned_at=Millis(1),
        state=state,
        **changes,
    )
    return to_builtins(record)


class Story:
    """A history, a line at a time; time passes by one millisecond each."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def say(self, kind: str, **fields: Any) -> "Story":
        self.lines.append({"at": len(self.lines) + 1, "kind": kind, **fields})
        return self

    def store(self, table: str, key: str, value: Any) -> "Story":
        return self.say("store", revision=len(self.lines) + 1, table=table, key=key, value=value)

    def submitted(self, *, answer: str = JOB) -> "Story":
        body = {"job": answer, "body": "{}"}
        return self.say("call", op="submit", outcome="ok", key="k1", began=0, answer=body)

    def machine(self, what: str, run: str = ONE, **fields: Any) -> "Story":
        return self.say("machine", node="n1", what=what, run=run, **fields)

    def over(self, state: JobState = JobState.SUCCEEDED) -> "Story":
        job = a_job(state, finished_at=Millis(len(self.lines) + 1))
        return self.store("outbox", JOB, {"type": "job-over", "job": job}).store("jobs", JOB, None)

    def ended(self, run: str = ONE, **changes: Any) -> "Story":
        value = {"type": "run-over", "run": a_run(run, RunState.EXITED, **changes)}
        return self.store("outbox", run, value).store("runs", run, None)


def accepted() -> Story:
    return Story().submitted().store("jobs", JOB, a_job())


def running(run: str = ONE) -> Story:
    return accepted().store("runs", run, a_run(run)).machine("created", run).machine("started", run)


def cancelled(story: Story) -> Story:
    return story.say("call", op="cancel", outcome="ok", began=0, job=JOB, answer=1)


BROKEN = {
    "lost: acknowledged, never stored": ("lost", Story().submitted()),
    "phantom: stored, never sent": ("phantom", Story().store("jobs", JOB, a_job()).over()),
    "a run started twice": ("double_start", running().machine("started").machine("ended", ended_at=9, code=0)),
    "two runs of a job at once": (
        "overlap",
        running()
        .machine("started", TWO)
        .machine("ended", ended_at=90, code=0)
        .machine("ended", TWO, ended_at=91, code=0),
    ),
    "a start nobody asked for": ("unasked_start", accepted().machine("started")),
    "a result after a newer run was issued": (
        "fence",
        accepted().store("runs", ONE, a_run(ONE)).store("runs", TWO, a_run(TWO)).ended(ONE),
    ),
    "tokens that go back": (
        "fence",
        accepted().store("runs", ONE, a_run(ONE, token=Token(2, 1))).store("runs", TWO, a_run(TWO, token=Token(1, 9))),
    ),
    "a job that goes back": (
        "monotone",
        accepted().store("jobs", JOB, a_job(JobState.RUNNING)).store("jobs", JOB, a_job(JobState.STARTING)).over(),
    ),
    "a job that lives on after its end": ("one_end", accepted().over().store("jobs", JOB, a_job(JobState.RUNNING))),
    "a job that never ends": ("liveness", accepted()),
    "an acknowledged cancel that lost": ("cancel_wins", cancelled(accepted()).over(JobState.SUCCEEDED)),
    "a node that holds more than it has": (
        "overcommit",
        running(ONE).store("runs", TWO, a_run(TWO)).store("jobs", JOB, a_job(JobState.RUNNING)),
    ),
    "a charge for more than it ran": (
        "cost_exact",
        running().machine("ended", ended_at=14, code=0).ended(ran_ms=Millis(5000)).over(),
    ),
    "a volume removed that nobody judged": (
        "volume_ttl",
        accepted().say("machine", node="n1", what="volume gone", volume=JOB),
    ),
    "a look that saw what never was": (
        "truthful",
        accepted().say("call", op="look", outcome="ok", began=2, job=JOB, answer="RUNNING").over(),
    ),
}


@pytest.mark.parametrize("title", BROKEN)
def test_a_broken_promise_is_seen(title: str) -> None:
    checker, story = BROKEN[title]
    wrong = check_history(story.lines, healed_at=0, nodes=(a_node("n1", cpu=4000),))
    assert checker in {sentence.partition(":")[0] for sentence in wrong}, wrong


def test_a_story_that_keeps_every_promise_is_left_alone() -> None:
    story = running().machine("ended", ended_at=14, code=0).ended(ran_ms=Millis(9)).over().machine("removed")
    assert check_history(story.lines, healed_at=0, nodes=(a_node("n1", cpu=4000),)) == []


def money(**changes: Any) -> Any:
    return {"type": "run-over", "run": a_run(ONE, RunState.EXITED, ran_ms=Millis(9), pool="local"), **changes}


A_TENANT = {"id": "acme", "quota": {"jobs": 1}}
A_PART = {"start": 1, "span_ms": 9, "cost": 5}
A_TOTAL = {"tenant": "acme", "day": 0, "pools": {"local": {"cost": 5}}}
UNPAID = {
    "two runs on a quota of one": (
        "quota_held",
        Story().store("tenants", "acme", A_TENANT).store("runs", ONE, a_run(ONE)).store("runs", TWO, a_run(TWO)),
    ),
    "a run in the ledger twice": (
        "cost_once",
        Story().store("outbox", ONE, money()).store("outbox", ONE, money()),
    ),
    "parts that are not the run": (
        "cost_once",
        Story().store("outbox", ONE, money(segments=[{**A_PART, "span_ms": 8}])).store("totals", "acme/0", A_TOTAL),
    ),
    "a total that lacks a run": ("cost_once", Story().store("outbox", ONE, money(segments=[A_PART]))),
    "a total without a run": ("cost_once", Story().store("totals", "acme/0", A_TOTAL)),
}


def deed(number: int = 1, verb: str = "submit", uid: str = JOB) -> Any:
    return {"type": "deeds", "records": [{"number": number, "act": {"verb": verb}, "uid": uid}]}


def recorded(*changes: tuple[str, str, Any]) -> Story:
    """All of it in one commit."""
    story = Story()
    for table, key, value in changes:
        story.say("store", revision=1, table=table, key=key, value=value)
    return story


A_JOB = {"id": JOB}
UNRECORDED = {
    "a job nobody asked for": Story().store("jobs", JOB, A_JOB),
    "a record of nothing": Story().store("outbox", "audit-1", deed()),
    "a record that came later": Story().store("jobs", JOB, A_JOB).store("outbox", "audit-1", deed()),
    "two records of one decision": recorded(
        ("jobs", JOB, A_JOB), ("outbox", "audit-1", deed()), ("outbox", "audit-2", deed(verb="cancel"))
    ),
    "a cancel that nobody asked for": recorded(("jobs", JOB, A_JOB), ("outbox", "audit-1", deed())).store(
        "jobs", JOB, {**A_JOB, "is_cancelled": True}
    ),
}


@pytest.mark.parametrize("title", UNRECORDED)
def test_a_change_without_its_record_and_a_record_without_its_change_are_seen(title: str) -> None:
    assert check_audit(UNRECORDED[title].lines)


def test_a_change_with_its_record_is_left_alone() -> None:
    story = recorded(("jobs", JOB, A_JOB), ("outbox", "audit-1", deed()))
    for table, key, value in (("jobs", JOB, {**A_JOB, "is_cancelled": True}), ("outbox", "audit-2", deed(2, "cancel"))):
        story.say("store", revision=2, table=table, key=key, value=value)
    assert check_audit(story.lines) == []


@pytest.mark.parametrize("title", UNPAID)
def test_quota_and_money_that_do_not_add_up_are_seen(title: str) -> None:
    checker, story = UNPAID[title]
    assert {sentence.partition(":")[0] for sentence in check_money(story.lines)} == {checker}


def test_quota_and_money_that_add_up_are_left_alone() -> None:
    within = Story().store("tenants", "acme", A_TENANT).store("runs", ONE, a_run(ONE)).store("runs", ONE, None)
    paid = within.store("outbox", ONE, money(segments=[A_PART])).store("totals", "acme/0", A_TOTAL)
    assert check_money(paid.lines) == []
