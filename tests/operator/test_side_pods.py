"""The pods beside a job: where they go, and what is said when one cannot start."""

from typing import Any

import pytest

from windlass.client.kube.api import JOBS, Kind
from windlass.client.kube.side import SidePods
from windlass.core.errors import Unavailable
from windlass.wire.kube.names import Document


class OnePodDoor:
    """An API server that has one job and shows one pod."""

    def __init__(self, **status: Any) -> None:
        self.status = status
        self.made: Document = {}
        self.deleted: list[str] = []

    def another(self) -> "OnePodDoor":
        return self

    def close(self) -> None:
        return

    def get(self, kind: Kind, name: str, namespace: str) -> Document:
        return {"spec": {"nodeSelector": {"disk": "fast"}}} if kind is JOBS else {"status": self.status}

    def create(self, kind: Kind, document: Document, namespace: str) -> Document:
        self.made = document
        return {"metadata": {"uid": "u"}}

    def delete(self, kind: Kind, name: str, namespace: str, *, uid: str, grace: int) -> bool:
        self.deleted.append(uid)
        return True


def test_it_goes_where_the_jobs_own_pod_may_go() -> None:
    door: Any = OnePodDoor(phase="Running")
    with SidePods(door, "lab").open("it", "upload"):
        assert door.made["spec"]["nodeSelector"] == {"disk": "fast"}
    assert door.deleted == ["u"]


def test_an_image_that_cannot_be_had_is_said_at_once() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image x/y: not found"}
    door: Any = OnePodDoor(phase="Pending", containerStatuses=[{"state": {"waiting": waiting}}])
    with pytest.raises(Unavailable, match="did not start: Back-off pulling image x/y: not found"):
        with SidePods(door, "lab").open("it", "upload"):
            raise AssertionError("it never ran")
    assert door.deleted == ["u"]
