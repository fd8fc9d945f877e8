"""kopf's side: what it hears of jobs, pods, volumes and nodes goes into memory, and the job concerned into the queue.

Plain event handlers: kopf then puts no finalizer on anything and keeps no notes in annotations. What must be undone when a job
goes is undone by owner references.
"""

from collections.abc import Mapping
from typing import Any, cast

import kopf
from lightkube.config.kubeconfig import SingleConfig

from windlass.operator.echoes import Echoes
from windlass.operator.memory import Key, Memory, key_of
from windlass.operator.noteless import keep_no_notes
from windlass.operator.patience import Endless, connection
from windlass.operator.queue import WorkQueue
from windlass.wire.kube.names import GROUP, JOB_LABEL, PLURAL, VERSION, Document
from windlass.wire.kube.observe import MOUNT_FAILED, tells_of_a_race

_OURS = {JOB_LABEL: kopf.PRESENT}


def register(registry: kopf.OperatorRegistry, memory: Memory, queue: WorkQueue[Key], config: SingleConfig) -> None:
    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return await connection(config, Echoes(memory).is_one)

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        _configure(settings)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def on_job(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - kopf's name
        document = _plain(body)
        memory.jobs.heard(type, document)
        queue.add(key_of(document))

    @kopf.on.event("", "v1", "pods", labels=_OURS, registry=registry)
    async def on_pod(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        document = _plain(body)
        memory.pods.heard(type, document)
        if type == "DELETED":
            memory.nudged(document["metadata"]["uid"])
        queue.add(_job_of(document))

    @kopf.on.event("", "v1", "persistentvolumeclaims", labels=_OURS, registry=registry)
    async def on_claim(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        document = _plain(body)
        memory.claims.heard(type, document)
        queue.add(_job_of(document))

    _hear_nodes(registry, memory, queue)

    @kopf.on.event("", "v1", "namespaces", registry=registry)
    async def on_namespace(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        namespace = _plain(body)
        for job in memory.heard_namespace(type, namespace):
            queue.add(key_of(job))


def _hear_nodes(registry: kopf.OperatorRegistry, memory: Memory, queue: WorkQueue[Key]) -> None:
    """Which of them answer, and what they say of pods that they put off."""

    @kopf.on.event("", "v1", "events", registry=registry)
    async def on_event(body: kopf.Body, **_: Any) -> None:
        told = _plain(body)
        of = told.get("involvedObject", {})
        pod = memory.pods.get((of.get("namespace", ""), of.get("name", "")))
        if pod is not None and pod["metadata"]["uid"] == of.get("uid") and tells_of_a_race(told):
            memory.put_off(of["uid"])
            queue.add(_job_of(pod))

    @kopf.on.event("", "v1", "nodes", registry=registry)
    async def on_node(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        node = _plain(body)
        if not memory.heard_node(type, node):
            return
        for pod in memory.pods.all():
            if pod.get("spec", {}).get("nodeName") == node["metadata"]["name"]:
                queue.add(_job_of(pod))


def _configure(settings: kopf.OperatorSettings) -> None:
    keep_no_notes(settings)
    settings.posting.enabled = False
    settings.scanning.disabled = True  # it watches what it was told to; it needs no right to list namespaces or CRDs
    settings.watching.server_timeout = 300
    settings.networking.error_backoffs = Endless()
    for plural in ("pods", "persistentvolumeclaims"):  # by the API server: others' it does not even send
        settings.watching.label_selectors["", "v1", plural] = JOB_LABEL
    # Only what kubelets say when they cannot mount a volume.
    settings.watching.field_selectors["", "v1", "events"] = f"involvedObject.kind=Pod,reason={MOUNT_FAILED}"
    settings.peering.standalone = True


def _plain(body: Mapping[str, Any]) -> Document:
    return cast(Document, dict(body))


def _job_of(document: Document) -> Key:
    metadata = document["metadata"]
    return metadata["namespace"], metadata["labels"][JOB_LABEL]
