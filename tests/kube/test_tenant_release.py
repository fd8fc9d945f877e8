"""What a server's release holds for, and what the operator does without one. No cluster."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from windlass.adapters.keys.directory import KeyDirectory
from windlass.core.errors import Invalid
from windlass.core.lifecycle.ephemeral import CreatePod, step
from windlass.core.model.ephemeral import Course, Seen, VolumeSeen, Wish
from windlass.core.model.ids import Millis
from windlass.operator.settings import load
from windlass.wire.kube.release import is_released, payload

NOW = Millis(1_000_000)
BOUND = Seen(volume=VolumeSeen(uid="v", is_bound=True))
HELD = Wish(held="quota-jobs: 1 of 1 jobs are used")


def a_job(**changes: Any) -> dict[str, Any]:
    spec = {"image": "busybox", "resources": {"cpu": "1"}, "suspend": True}
    return {"metadata": {"uid": "u-1", "annotations": {}}, "spec": {**spec, **changes}}


@pytest.fixture
def keys(tmp_path: Path) -> KeyDirectory:
    return KeyDirectory(tmp_path)


def signed(job: dict[str, Any], proof: str) -> dict[str, Any]:
    return {**job, "metadata": {**job["metadata"], "annotations": {"windlass.dev/release": proof}}}


def test_a_release_is_of_one_object_as_it_was_admitted(keys: KeyDirectory) -> None:
    proof, key = keys.sign(payload(a_job())), keys.public_key()
    assert is_released(signed(a_job(), proof), key)
    assert is_released(signed(a_job(suspend=False), proof), key)  # whether it wants to run is its owner's
    assert not is_released(signed(a_job(retries=5), proof), key)
    another = a_job()
    another["metadata"]["uid"] = "u-2"
    assert not is_released(signed(another, proof), key)
    assert not is_released(a_job(), key)


def test_neither_another_key_nor_a_token_of_the_same_key_releases(keys: KeyDirectory, tmp_path: Path) -> None:
    key = keys.public_key()
    stranger = KeyDirectory(tmp_path / "stranger").sign(payload(a_job()))
    token = keys.issue(subject="s", tenant="t", roles=["admin"], token_id="i", now=0, lifetime_seconds=60)
    for forged in (stranger, token, "", "e30.e30.e30", "not a signature", "a" * 100_000):
        assert not is_released(signed(a_job(), forged), key)


def test_what_is_held_has_no_pod_made_also_when_its_status_says_it_has_begun() -> None:
    for course in (Course(), Course(attempt=1, volume="v"), Course(attempt=3, volume="v", retry_at=Millis(1))):
        decided = step(HELD, course, BOUND, NOW)
        assert (decided.course.reason, decided.course.message) == ("AwaitingAdmission", HELD.held)
        assert not any(isinstance(action, CreatePod) for action in decided.actions)
    free = step(replace(HELD, held=""), Course(), BOUND, NOW)
    assert CreatePod(1) in free.actions


def test_what_is_held_can_be_cancelled() -> None:
    ended = step(replace(HELD, is_cancelled=True), Course(), BOUND, NOW)
    assert ended.course.reason == "Cancelled"


def test_an_operator_takes_no_key_that_is_none(keys: KeyDirectory) -> None:
    assert load({"WINDLASS_OPERATOR_RELEASE_KEY": keys.public_key()}).release_key == keys.public_key()
    with pytest.raises(Invalid):
        load({"WINDLASS_OPERATOR_RELEASE_KEY": "hunter2"})
