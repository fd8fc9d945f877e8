"""The runtime port's verbs on a cluster. One that starts a run twice there is none: it is released, and that only once.

What may be done once is done by the operator, which counts a job's attempts in its status before it makes a pod. Here every
verb may be repeated, by this server or its successor: an object's name is its run's id, and a release is a release.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio

from windlass.adapters.runtime.backoff import Backoff
from windlass.adapters.runtime.kubernetes.attaching import Attaching, OnTerminal
from windlass.adapters.runtime.kubernetes.bells import Bells
from windlass.adapters.runtime.kubernetes.beside import Beside
from windlass.adapters.runtime.kubernetes.cluster import Cluster
from windlass.adapters.runtime.kubernetes.guests import GuestRuns, Sign
from windlass.adapters.runtime.kubernetes.logs import PodLog
from windlass.adapters.runtime.kubernetes.machine import machine_of
from windlass.adapters.runtime.kubernetes.objects import (
    Owner,
    handed_name,
    login_name,
    object_name,
    run_object,
    secrets,
)
from windlass.adapters.runtime.kubernetes.observing import is_settled, observed
from windlass.adapters.runtime.kubernetes.volumes import Volumes
from windlass.core.errors import Conflict, NotFound, Unavailable
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import Millis, NodeId, RunId, VolumeId
from windlass.core.model.secret import NOTHING_HANDED, Handed
from windlass.ports.clock import Clock
from windlass.ports.runtime import (
    ANY_VOLUME,
    ANYBODY,
    IDLE_MS,
    ImageAccess,
    LogLine,
    LogPosition,
    Machine,
    Observed,
    Phase,
    StartFailed,
    Terminal,
    Traits,
    Used,
    VolumeWish,
)
from windlass.wire.kube.kinds import JOBS, NODES, PODS, SECRETS
from windlass.wire.kube.names import CANCEL, RUN_LABEL, Document, pod_name
from windlass.wire.kube.pod import PodPolicy

GONE_SECONDS: Final = 90.0
"""How long a removed run's pod may take to go before somebody is told that it does not."""
END_SECONDS: Final = 10.0
LOOK_MS: Final = 150
DEFAULT_POLICY: Final = PodPolicy()
RELEASED_ONCE: Final = 1
"""The operator's own count: a retry is a new run, with an object of its own."""


class KubernetesRuntime:
    """Open with `async with KubernetesRuntime.open(...)`. The API server may be away at that moment."""

    traits = Traits(keeps_streams_apart=False, keeps_carriage_returns=False, starts_at_once=False, shows_pids=False)

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        *,
        owner: Owner,
        clock: Clock,
        beside: Beside,
        volumes: Volumes,
        attaching: Attaching,
        policy: PodPolicy,
        guests: GuestRuns | None,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._owner = owner
        self._clock = clock
        self._beside = beside
        self._volumes = volumes
        self._attaching = attaching
        self._guests = guests
        self._places = _places(namespace, guests)
        self._bells = Bells(cluster, self._places, owner, clock)
        self._policy = policy
        self._guarded: set[str] = set()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        cluster: Cluster,
        *,
        namespace: str,
        installation: str,
        node: str,
        clock: Clock,
        side_image: str,
        policy: PodPolicy = DEFAULT_POLICY,
        sign: Sign | None = None,
        guest_namespaces: tuple[str, ...] = (),
    ) -> AsyncIterator["KubernetesRuntime"]:
        """`side_image` is that of the pods through which files are reached; `policy` is the operator's own; with `sign` runs
        may stand for objects in tenants' namespaces, in those of them that are named if any are."""
        owner = Owner(installation=installation, node=node)
        beside = Beside(cluster, namespace, owner, image=side_image, policy=policy)
        async with anyio.create_task_group() as tasks:
            volumes = Volumes(cluster, namespace, owner, beside, tasks)
            runtime = cls(
                cluster,
                namespace,
                owner=owner,
                clock=clock,
                beside=beside,
                volumes=volumes,
                attaching=Attaching(cluster, namespace, tasks),
                policy=policy,
                guests=None if sign is None else GuestRuns(cluster, owner, sign, guest_namespaces),
            )
            tasks.start_soon(runtime._bells.run)
            tasks.start_soon(beside.run)
            try:
                yield runtime
            finally:
                tasks.cancel_scope.cancel()

    async def close(self) -> None:
        """What runs in the background ends with `open`."""

    async def machine(self) -> Machine:
        return machine_of(await self._cluster.list(NODES), self._policy)

    async def ensure_image(self, image: str, *, access: ImageAccess = ANYBODY) -> AsyncIterator[str]:
        """The nodes pull for themselves, in the name of the login that goes with the start."""
        if access.is_guarded or access.credentials is not None:
            self._guarded.add(image)
        nothing: tuple[str, ...] = ()
        for line in nothing:
            yield line

    async def ensure_volume(
        self, volume: VolumeId, *, labels: Mapping[str, str], wish: VolumeWish = ANY_VOLUME
    ) -> None:
        await self._volumes.ensure(volume, labels, wish)

    async def put_archive(self, volume: VolumeId, path: str, tar: AsyncIterator[bytes]) -> None:
        await self._volumes.put(volume, path, tar)

    async def get_archive(self, volume: VolumeId, path: str) -> AsyncIterator[bytes]:
        async for piece in await self._volumes.get(volume, path):
            yield piece

    async def remove_volume(self, volume: VolumeId) -> None:
        await self._volumes.remove(volume)

    async def volumes(self) -> tuple[VolumeId, ...]:
        return await self._volumes.names()

    async def create(self, assignment: Assignment, *, handed: Handed = NOTHING_HANDED) -> None:
        if assignment.spec.guest:
            await self._of_guests().take(assignment)
            return
        document = run_object(assignment, self._owner, handed)
        try:
            await self._cluster.create(JOBS, document, self._namespace)
        except Conflict as exc:
            found = await self._cluster.get(JOBS, object_name(assignment.run), self._namespace)
            if found is None or "deletionTimestamp" in found["metadata"]:
                words = f"an object for run {assignment.run} was just being removed"
                raise Unavailable(words, code="name-released") from exc
            if not self._owner.owns(found):
                words = f"the cluster has an object {object_name(assignment.run)} that is not ours"
                raise Conflict(words, code="name-taken") from exc

    async def start(self, run: RunId, *, handed: Handed = NOTHING_HANDED) -> None:
        """Releases it; when it runs, the cluster decides. What was released before is left alone."""
        job = await self._job(run)
        if job is None:
            raise NotFound(f"there is no object for run {run}", code="run-not-found")
        seen = observed(run, job)
        if seen.error and seen.phase is Phase.CREATED:
            raise StartFailed(seen.error)
        if self._is_guest(job):
            await self._of_guests().release(job)
        elif job["spec"].get("suspend", False):
            await self._release(run, job["metadata"]["uid"], handed)

    async def _release(self, run: RunId, uid: str, handed: Handed) -> None:
        for secret in secrets(run, uid, self._owner, handed):
            await self._cluster.apply(SECRETS, secret, self._namespace)
        release: Document = {"metadata": {"uid": uid}, "spec": {"suspend": False}}
        await self._cluster.merge(JOBS, object_name(run), release, self._namespace)

    async def observe(self, run: RunId) -> Observed:
        job = await self._job(run)
        return Observed(run=run, phase=Phase.ABSENT) if job is None else observed(run, job)

    async def usage(self, run: RunId) -> Used | None:
        """A cluster need not have anybody who measures."""
        return None

    async def observe_all(self) -> tuple[Observed, ...]:
        selector = self._owner.selector()
        jobs = [job for place in self._places for job in await self._cluster.list(JOBS, place, labels=selector)]
        ours = [job for job in jobs if self._owner.owns(job) and RUN_LABEL in job["metadata"]["labels"]]
        seen = (observed(RunId(job["metadata"]["labels"][RUN_LABEL]), job) for job in ours)
        return tuple(sorted(seen, key=lambda one: one.run))

    async def wait(self, run: RunId) -> Observed:
        seen = await self._bells.until(run, lambda: self.observe(run), is_settled)
        if seen.phase is not Phase.ABSENT:
            await self._forget_secrets(run)
        return seen

    async def stop(self, run: RunId, *, grace_ms: Millis) -> None:
        """A running pod is told that its time is over: it ends as it would by itself, and keeps its exit code and its log.
        One that is deleted would take both along. What does not run yet is cancelled."""
        job = await self._job(run)
        if job is None or is_settled(observed(run, job)) or job["spec"].get("suspend", False):
            return
        if self._is_guest(job):
            await self._of_guests().cancel(job)
            await self._bells.until(run, lambda: self.observe(run), is_settled)
            return
        pod = await self._cluster.get(PODS, pod_name(object_name(run), RELEASED_ONCE), self._namespace)
        if pod is not None and pod.get("status", {}).get("phase") == "Running":
            over = {"metadata": {"uid": pod["metadata"]["uid"]}, "spec": {"activeDeadlineSeconds": 1}}
            await self._cluster.merge(PODS, pod["metadata"]["name"], over, self._namespace)
        else:
            cancel = {"metadata": {"uid": job["metadata"]["uid"], "annotations": {CANCEL: "true"}}}
            await self._cluster.merge(JOBS, object_name(run), cancel, self._namespace)
        await self._bells.until(run, lambda: self.observe(run), is_settled)

    async def logs(self, run: RunId, *, after: LogPosition) -> AsyncIterator[LogLine]:
        job = await self._job(run)
        if job is None:
            return

        async def is_over() -> bool:
            return is_settled(await self.observe(run))

        pod, namespace = pod_name(job["metadata"]["name"], RELEASED_ONCE), job["metadata"]["namespace"]
        read = PodLog(self._cluster, pod, namespace, is_over=is_over, backoff=Backoff(self._clock, run))
        async for line in read.follow(after):
            yield line

    async def remove(self, run: RunId) -> None:
        job = await self._job(run)
        if job is None:
            return
        if self._is_guest(job):
            # Asked to end and not waited for: that is the operator's, and there may be none any more.
            if not is_settled(observed(run, job)):
                await self._of_guests().cancel(job)
            await self._of_guests().leave(run, job)
        else:
            await self._remove(run, job["metadata"]["uid"])

    async def _remove(self, run: RunId, uid: str) -> None:
        """The object first: then nobody takes the end of its pod for a failure."""
        name, pod = object_name(run), self._pod(run)
        found = await self._cluster.get(PODS, pod, self._namespace)
        await self._forget_secrets(run)
        await self._cluster.delete(JOBS, name, self._namespace, uid=uid)
        if found is not None:
            # One second and not none: the kubelet then says when it is over, and does not only hope so.
            await self._cluster.delete(PODS, pod, self._namespace, uid=found["metadata"]["uid"], grace=1)
            await self._until_gone(pod, found["metadata"]["uid"])

    async def slices(self) -> tuple[NodeId, ...]:
        """Slices are cut from machines; a cluster's are its own."""
        return ()

    async def end_slice(self, node: NodeId) -> None:
        """There is none."""

    async def tidy(self, *, idle_ms: Millis = IDLE_MS) -> None:
        """The pods' network is the cluster's."""

    @asynccontextmanager
    async def attach(self, run: RunId) -> AsyncIterator[Terminal]:
        """From this moment on: what it said before is in its log."""
        job = await self._running(run)
        is_tty = bool(job["spec"].get("terminal", False))

        async def exit_code() -> int | None:
            """The connection ends a moment before the cluster tells how the run did."""
            with anyio.move_on_after(END_SECONDS):
                return (await self._bells.until(run, lambda: self.observe(run), is_settled)).exit_code
            return None

        if not is_tty and job["spec"].get("stdin", False):
            async with self._attaching.joined(self._pod(run), exit_code) as terminal:
                yield terminal
            return
        async with self._cluster.terminal(self._pod(run), self._namespace, has_input=is_tty, tty=is_tty) as terminal:
            yield OnTerminal(terminal, exit_code)

    @asynccontextmanager
    async def execute(self, run: RunId, command: tuple[str, ...], *, wants_terminal: bool) -> AsyncIterator[Terminal]:
        await self._running(run)
        async with self._cluster.terminal(self._pod(run), self._namespace, command, tty=wants_terminal) as terminal:
            yield terminal

    @asynccontextmanager
    async def debug(
        self,
        volume: VolumeId,
        *,
        name: str,
        image: str,
        command: tuple[str, ...],
        labels: Mapping[str, str],
        keep: bool,
    ) -> AsyncIterator[Terminal]:
        try:
            # The node's copy of a guarded image is not for everybody: there the registry is asked, and has nobody's login.
            pod = await self._beside.start(
                name, volume, image=image, labels=labels, always_pulls=image in self._guarded
            )
            async with self._cluster.terminal(pod, self._namespace, command, tty=True) as terminal:
                yield terminal
        finally:
            if not keep:
                with anyio.move_on_after(30, shield=True):
                    await self._beside.stop(name)

    async def remove_all(self) -> int:
        runs = [seen.run for seen in await self.observe_all()]
        for run in runs:
            await self.remove(run)
        volumes = await self._volumes.names()
        for volume in volumes:
            await self._volumes.remove(volume)
        for pod in await self._cluster.list(PODS, self._namespace, labels=self._owner.selector()):
            await self._beside.stop(pod["metadata"]["name"])
        return len(runs) + len(volumes)

    async def _job(self, run: RunId) -> Document | None:
        job = await self._cluster.get(JOBS, object_name(run), self._namespace)
        if job is None and self._guests is not None:
            return await self._guests.find(run)
        return job if job is not None and self._owner.owns(job) else None

    def _is_guest(self, job: Document) -> bool:
        return bool(job["metadata"]["namespace"] != self._namespace)

    def _of_guests(self) -> GuestRuns:
        if self._guests is None:
            raise Conflict("this server admits no guests any more", code="guests-off", hint="set kubernetes.tenants")
        return self._guests

    async def _running(self, run: RunId) -> Document:
        job = await self._job(run)
        if job is None:
            raise NotFound(f"there is no object for run {run}", code="run-not-found")
        if observed(run, job).phase is not Phase.RUNNING:
            raise Conflict(f"run {run} is not running", code="not-running")
        return job

    async def _forget_secrets(self, run: RunId) -> None:
        """With its end, not with its removal, which may be days later."""
        for name in (handed_name(run), login_name(run)):
            secret = await self._cluster.get(SECRETS, name, self._namespace)
            if secret is not None and self._owner.owns(secret):
                await self._cluster.delete(SECRETS, name, self._namespace, uid=secret["metadata"]["uid"])

    async def _until_gone(self, pod: str, uid: str) -> None:
        with anyio.move_on_after(GONE_SECONDS):
            while True:
                found = await self._cluster.get(PODS, pod, self._namespace)
                if found is None or found["metadata"]["uid"] != uid:
                    return
                await self._clock.sleep_until(Millis(self._clock.now() + LOOK_MS))
        raise Unavailable(f"pod {pod} does not go: its node may not answer", code="pod-stays")

    def _pod(self, run: RunId) -> str:
        return pod_name(object_name(run), RELEASED_ONCE)


def _places(namespace: str, guests: GuestRuns | None) -> tuple[str, ...]:
    """Where runs' objects may be: a guest's is in its tenant's namespace. An empty one is all of them."""
    if guests is None:
        return (namespace,)
    return (namespace, *guests.namespaces) if guests.namespaces else ("",)
