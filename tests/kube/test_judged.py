"""R-20: a cleaner deletes what it has judged, and never what was made anew under the name meanwhile."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from tests.kube.lab import DEADLINE, Lab
from tests.kube.operator import Operator
from tests.parts.waiting import wait_for
from windlass.client.kube.api import CLAIMS, Kind, KubeApi, read_config
from windlass.client.kube.door import KubeDoor
from windlass.client.kube.home import KubeClient
from windlass.core.errors import NotFound
from windlass.core.model.ids import Millis
from windlass.operator.memory import Key, Memory
from windlass.operator.metrics import OperatorMetrics
from windlass.operator.queue import WorkQueue
from windlass.operator.reconcile import Reconciler
from windlass.wire.kube.names import Document

NAME = "artifacts-twin"
PAST, FUTURE = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
Between = Callable[[], object]


class LateApi(KubeApi):
    """Something happens between the operator's judging and its deleting."""

    between: Between

    async def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str, grace: int | None = None) -> bool:
        await anyio.to_thread.run_sync(self.between)
        return await super().delete(kind, name, namespace, uid=uid, grace=grace)


class LateDoor(KubeDoor):
    """And of the command line's."""

    between: Between

    def delete(self, kind: Kind, name: str, namespace: str, *, uid: str, grace: int | None = None) -> bool:
        self.between()
        return super().delete(kind, name, namespace, uid=uid, grace=grace)


def make(lab: Lab, expires: str) -> Document:
    """A volume that is nobody's; its class is nobody's either, so that no volume comes of it."""
    metadata = {
        "name": NAME,
        "labels": {"windlass.dev/job": "twin", "windlass.dev/part": "volume"},
        "annotations": {"windlass.dev/expires-at": expires},
    }
    amount = {"requests": {"storage": "1Mi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": amount, "storageClassName": "nobodys"}
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    return lab.door.create(CLAIMS, document, lab.namespace)


def remove(lab: Lab) -> None:
    found = lab.get("pvc", NAME)
    if found is not None:
        lab.door.delete(CLAIMS, NAME, lab.namespace, uid=found["metadata"]["uid"])
    with suppress(NotFound):
        lab.door.merge(CLAIMS, NAME, {"metadata": {"finalizers": None}}, lab.namespace)
    lab.wait_gone("pvc", NAME, DEADLINE)


async def race(lab: Lab, rounds: int) -> int:
    """How often the volume made anew outlived both cleaners; each had judged the one before it as due."""
    config, survived = read_config(lab.cluster.kubeconfig), 0
    api, door = LateApi(config), LateDoor(config)
    client = KubeClient(config, namespace=lab.namespace)
    client._door = door
    async with api:
        for _ in range(rounds):
            memory = Memory()
            memory.claims.put(make(lab, PAST))
            anew: list[Document] = []
            barrier = threading.Barrier(2, action=lambda anew=anew: (remove(lab), anew.append(make(lab, FUTURE))))
            api.between = door.between = lambda barrier=barrier: barrier.wait(DEADLINE)
            async with anyio.create_task_group() as cleaners:
                cleaners.start_soon(sweeper(api, memory).sweep_volumes)
                cleaners.start_soon(anyio.to_thread.run_sync, client.cleanup)
            left = lab.get("pvc", NAME)
            if left and left["metadata"]["uid"] == anew[0]["metadata"]["uid"]:
                survived += "deletionTimestamp" not in left["metadata"]
            remove(lab)
    client.close()
    return survived


def sweeper(api: KubeApi, memory: Memory) -> Reconciler:
    """As the operator's, for volumes only: nobody acts and nobody admits."""
    nobody: Any = None
    return Reconciler(
        api,
        memory,
        WorkQueue[Key](),
        nobody,
        nobody,
        preset_image="",
        patience_ms=Millis(0),
        wall=lambda: Millis(1_800_000_000_000),
        metrics=OperatorMetrics(),
    )


@pytest.mark.parametrize(
    "rounds", [50, pytest.param(500, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])], ids=lambda n: f"{n} rounds"
)
def test_what_was_made_anew_between_the_judging_and_the_deleting_stays(
    lab: Lab, own_operator: Callable[..., Operator], rounds: int
) -> None:
    wait_for(lambda: lab.door.list(CLAIMS, lab.namespace)[0] == [], DEADLINE, "an empty namespace")
    assert anyio.run(race, lab, rounds) == rounds
