"""The answer to a submit, as bytes: to the byte what the manifest of such a job is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace

from windlass.core.model.ids import JobId, Millis, TenantId
from windlass.core.model.job import Job, JobState
from windlass.core.model.submission import Submission
from windlass.core.model.tenant import Tenant
from windlass.core.world.submit import make_job
from windlass.core.world.world import World
from windlass.wire.accepted import AcceptedAnswers
from windlass.wire.job import read_manifest
from windlass.wire.render import job_manifest

NOW = Millis(1_700_000_000_123)
TENANT = TenantId("a")

SPECS = st.fixed_dictionaries(
    {"image": st.sampled_from(["busybox", "busybox:1"])},
    optional={
        "command": st.lists(st.text(max_size=5).filter(lambda text: "\0" not in text), max_size=2).map(
            lambda rest: ["true", *rest]
        ),
        "env": st.dictionaries(st.sampled_from(["A", "B"]), st.sampled_from(["1", 'a "b"', "\u20ac\n"])),
        "suspend": st.booleans(),
        "retries": st.integers(0, 2),
        "sla": st.sampled_from(["5m", "24h"]),
        "timeoutSeconds": st.integers(1, 3),
        "expectedSeconds": st.integers(1, 3),
        "maxCost": st.integers(1, 3),
        "pool": st.sampled_from(["p", "q"]),
        "nodeSelector": st.just({"zone": "a"}),
        "onLostNode": st.sampled_from(["wait", "move"]),
        "resources": st.sampled_from([{"cpu": "500m"}, {"gpu": 1}]),
    },
)
METADATA = st.fixed_dictionaries(
    {}, optional={"name": st.sampled_from(["one", "two"]), "labels": st.sampled_from([{}, {"a": "b", "c.d/e": "f"}])}
)


@given(
    st.lists(st.tuples(SPECS, METADATA, st.sampled_from(["Job", "EphemeralAccelerationJob"])), min_size=1, max_size=4),
    st.sampled_from([Tenant(id=TENANT), Tenant(id=TENANT, sla_ms=Millis(7000), default_timeout_ms=Millis(60_000))]),
)
def test_the_answer_is_the_manifest_of_the_job_to_the_byte(asked: list[Any], tenant: Tenant) -> None:
    world = World(epoch=1)
    world.set_tenant(tenant, now=NOW)
    answers = AcceptedAnswers(wall)
    submissions = [submission(spec, metadata, kind) for spec, metadata, kind in asked]
    for number, one in enumerate(submissions * 2):
        job = make_job(world, TENANT, one, job=JobId(f"0-{number}"), now=Millis(NOW + number))
        assert answers.write(job, one.spec) == manifest(job, one)


def test_one_spec_object_of_two_jobs_that_asked_for_other_things_is_answered_to_each() -> None:
    one = submission({"image": "busybox"})
    other = replace(one, retries=3)
    answers = AcceptedAnswers(wall)
    for asked in (one, other, one):
        job = a_job(asked)
        assert answers.write(job, asked.spec) == manifest(job, asked)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": JobState.RUNNING, "attempt": 1, "started_at": NOW},
        {"state": JobState.FAILED, "finished_at": NOW, "reason": "Error"},
        {"attempt": 1},
        {"since": Millis(NOW + 5), "is_suspended": True},
        {"message": "waits for its second try"},
    ],
)
def test_a_job_that_has_more_to_say_says_it(changes: dict[str, Any]) -> None:
    asked = submission({"image": "busybox"})
    job = replace(a_job(asked), **changes)
    assert AcceptedAnswers(wall).write(job, asked.spec) == manifest(job, asked)


def test_what_is_remembered_is_bounded() -> None:
    answers = AcceptedAnswers(wall)
    for number in range(3000):
        asked = submission({"image": f"busybox:{number}"})
        assert f"busybox:{number}".encode() in answers.write(a_job(asked), asked.spec)
    assert 0 < len(answers) <= 1024


def submission(spec: dict[str, Any], metadata: dict[str, Any] | None = None, kind: str = "Job") -> Submission:
    document = {"apiVersion": "windlass.dev/v1", "kind": kind, "metadata": metadata or {}, "spec": spec}
    return read_manifest(document, runtime="container")


def a_job(asked: Submission) -> Job:
    world = World(epoch=1)
    world.set_tenant(Tenant(id=TENANT), now=NOW)
    return make_job(world, TENANT, asked, job=JobId("0-1"), now=NOW)


def manifest(job: Job, asked: Submission) -> bytes:
    return json.encode(job_manifest(job, asked.spec, wall=wall))


def wall(at: Millis) -> float:
    return at / 1000
