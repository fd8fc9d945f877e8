"""Runs that stand for a tenant's own object, on an API server that only remembers. No cluster."""

from typing import Any

import pytest

from tests.contracts.runtime_behaviours import RealClock
from windlass.adapters.runtime.kubernetes import KubernetesRuntime
from windlass.core.errors import Conflict, NotFound, Unavailable
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import JobId, RunId, TenantId, VolumeId
from windlass.core.model.job import JobSpec
from windlass.core.model.resources import Resources
from windlass.core.model.run import Intent, Token
from windlass.ports.runtime import Phase
from windlass.wire.kube.kinds import Kind

pytestmark = pytest.mark.anyio

RUN = RunId("0190-1")
Document = dict[str, Any]


class OneObject:
    """An API server with one job of a tenant, and nobody who looks after it."""

    def __init__(self) -> None:
        metadata = {"name": "theirs", "namespace": "vision", "uid": "u-1", "labels": {"team": "a"}}
        self.job: Document = {"metadata": metadata, "spec": {"image": "any"}}

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Document | None:
        found = kind.plural == "ephemeralaccelerationjobs" and (namespace, name) == ("vision", "theirs")
        return self.job if found else None

    async def list(self, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Document]:
        wanted = dict(pair.split("=") for pair in labels.split(",") if pair)
        return [self.job] if wanted.items() <= self.job["metadata"]["labels"].items() else []

    async def merge(self, kind: Kind, name: str, change: Document, namespace: str = "") -> Document:
        metadata = self.job["metadata"]
        if change["metadata"]["uid"] != metadata["uid"]:
            raise Conflict("another", code="kube-conflict")
        for part in ("labels", "annotations"):
            merged = {**metadata.get(part, {}), **change["metadata"].get(part, {})}
            metadata[part] = {key: value for key, value in merged.items() if value is not None}
        return self.job

    async def version(self, kind: Kind, namespace: str = "") -> str:
        raise Unavailable("no watch here", code="kube-unavailable")


def an_assignment(guest: str) -> Assignment:
    return Assignment(
        run=RUN,
        job=JobId("0190"),
        tenant=TenantId("vision"),
        name="it",
        token=Token(1, 1),
        intent=Intent.RUN,
        volume=VolumeId("0190"),
        attempt=1,
        spec=JobSpec(image="any", needs=Resources(cpu_millis=100, memory_bytes=64 << 20), guest=guest),
    )


def opened(cluster: Any) -> Any:
    async def sign(payload: bytes) -> str:
        return f"signed {len(payload)}"

    return KubernetesRuntime.open(
        cluster,
        namespace="runs",
        installation="here",
        node="cluster",
        clock=RealClock(),
        side_image="any",
        sign=sign,
    )


async def test_a_guest_is_taken_up_released_and_left_as_it_was_but_for_our_words() -> None:
    cluster = OneObject()
    async with opened(cluster) as runtime:
        await runtime.create(an_assignment("vision/theirs/u-1"))
        assert (await runtime.observe(RUN)).phase is Phase.CREATED
        assert "windlass.dev/release" not in cluster.job["metadata"].get("annotations", {})
        await runtime.start(RUN)
        assert cluster.job["metadata"]["annotations"]["windlass.dev/release"].startswith("signed")
        cluster.job["status"] = {"phase": "Succeeded", "exitCode": 0, "reason": "Completed"}
        assert (await runtime.wait(RUN)).exit_code == 0
    async with opened(cluster) as successor:
        assert [seen.run for seen in await successor.observe_all()] == [RUN]
        await successor.remove(RUN)
        assert (await successor.observe(RUN)).phase is Phase.ABSENT
    assert cluster.job["metadata"]["labels"] == {"team": "a"}
    assert "windlass.dev/cancel" not in cluster.job["metadata"]["annotations"]


async def test_a_guest_that_is_removed_alive_is_told_to_end_and_nobody_is_waited_for() -> None:
    cluster = OneObject()
    async with opened(cluster) as runtime:
        await runtime.create(an_assignment("vision/theirs/u-1"))
        await runtime.start(RUN)
        assert await runtime.remove_all() == 1
    assert cluster.job["metadata"]["annotations"]["windlass.dev/cancel"] == "true"
    assert cluster.job["metadata"]["labels"] == {"team": "a"}


async def test_another_object_of_its_name_is_not_taken_for_it() -> None:
    async with opened(OneObject()) as runtime:
        with pytest.raises(NotFound):
            await runtime.create(an_assignment("vision/theirs/u-0"))
        with pytest.raises(NotFound):
            await runtime.start(RUN)
