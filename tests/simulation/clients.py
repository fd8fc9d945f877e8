"""Clients of the simulation: they submit, repeat, cancel, delete, release and look, and write down what they were told."""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from random import Random
from typing import Any

import anyio
from msgspec import json

from windlass.control.acting import acting
from windlass.control.intake import Accepted
from windlass.control.plane import ControlPlane
from windlass.core.errors import Conflict, Unavailable, WindlassError
from windlass.core.model.audit import Act, Author
from windlass.core.model.ids import JobId, Millis, TenantId
from windlass.core.model.job import Input, Job, JobSpec
from windlass.core.model.resources import Resources
from windlass.core.model.submission import Idempotency, Submission
from windlass.testing.cluster import Cluster

GIB = 1 << 30
_TRIES = 60


class Client:
    """Knows only what it was answered."""

    def __init__(self, cluster: Cluster, number: int, tenant: TenantId, until: Millis, *, jobs_min: int) -> None:
        """At work until that moment and that many jobs."""
        self._cluster = cluster
        self._tenant = tenant
        self._name = f"client-{number}"
        self._chance: Random = cluster.chance_of(self._name)
        self._until = until
        self._jobs_min = jobs_min
        self._made = 0
        self._jobs: list[JobId] = []
        self._suspended: list[JobId] = []
        self._requests: list[tuple[Submission, Idempotency]] = []

    async def run(self) -> None:
        chance = self._chance
        while self._cluster.clock.now() < self._until or len(self._jobs) < self._jobs_min:
            await anyio.sleep(chance.expovariate(1 / 8))
            act = chance.choices(
                (self._submit, self._repeat, self._cancel, self._delete, self._look, self._submit_with_file),
                (10, 2, 3, 2, 4, 1),
            )[0]
            await act()
        for job in self._suspended:
            await self._call("release", lambda plane, job=job: plane.intake.release(self._tenant, job), job=job)

    # — what it does —

    async def _submit(self, name: str = "") -> None:
        self._made += 1
        key = f"{self._name}-{self._made}"
        submission = self._invent(key, name)
        request = submission, Idempotency(key=key, fingerprint=sha256(json.encode(submission)).hexdigest())
        accepted = await self._send(*request)
        if accepted is not None:
            self._requests.append(request)
            self._jobs.append(accepted)
            if submission.is_suspended:
                self._suspended.append(accepted)
                await self._release_later(accepted)

    async def _repeat(self) -> None:
        """Somebody's retry arrives again, long after."""
        if self._requests:
            await self._send(*self._chance.choice(self._requests))

    async def _submit_with_file(self) -> None:
        """A file for a job that does not exist yet, then the job."""
        name = f"with-file-{self._name}-{self._made}"
        content = name.encode()
        digest = f"sha256:{sha256(content).hexdigest()}"
        self._cluster.blobs.keep(digest, content)
        item = Input(digest=digest, size=len(content), path="in/file")
        copied = await self._call(
            "copy-file", lambda plane: plane.intake.copy_file(self._tenant, name, item), name=name
        )
        if copied is not None:
            await self._submit(name)

    async def _cancel(self) -> None:
        if self._jobs:
            job = self._recent()
            await self._call("cancel", lambda plane: plane.intake.cancel(self._tenant, job), job=job, tries=_TRIES)

    async def _delete(self) -> None:
        if self._jobs:
            job = self._recent()
            with_volume = self._chance.random() < 0.5
            await self._call(
                "delete", lambda plane: plane.intake.delete(self._tenant, job, with_volume=with_volume), job=job
            )

    async def _look(self) -> None:
        if self._jobs:
            job = self._recent()

            async def look(plane: ControlPlane) -> str:
                is_fresh = await plane.read_model.caught_up()
                found = (await plane.read_model.find_job(self._tenant, job)).job
                return f"{found.state}{'' if is_fresh else ' (stale)'}"

            await self._call("look", look, job=job)

    async def _release_later(self, job: JobId) -> None:
        await anyio.sleep(self._chance.uniform(0, 3))
        if await self._call("release", lambda plane: plane.intake.release(self._tenant, job), job=job, tries=_TRIES):
            self._suspended.remove(job)

    # — how it does it —

    async def _send(self, submission: Submission, idempotency: Idempotency) -> JobId | None:
        async def submit(plane: ControlPlane) -> Accepted:
            return await plane.intake.submit(self._tenant, submission, idempotency=idempotency, render=_render)

        accepted = await self._call("submit", submit, key=idempotency.key, name=submission.name, tries=_TRIES)
        return accepted.job.id if accepted is not None else None

    async def _call(
        self, op: str, work: Callable[[ControlPlane], Awaitable[Any]], *, tries: int = 1, **about: Any
    ) -> Any:
        """Until it is answered, with a pause between; an answer that did not come is written down as unknown."""
        for _ in range(tries):
            began = self._cluster.clock.now()
            try:
                answer = await self._cluster.network.request(self._signed(op, work))
            except Conflict as refusal:
                self._note(op, began, "fail", about, error=refusal.code)
                if refusal.code != "idempotency-gone":
                    return None
            except Unavailable as silence:
                self._note(op, began, "unknown", about, error=silence.code)
            except WindlassError as refusal:
                self._note(op, began, "fail", about, error=refusal.code, message=refusal.message)
                return None
            else:
                self._note(op, began, "ok", about, answer=_as_text(answer))
                return answer if answer is not None else True
            await anyio.sleep(self._chance.uniform(0.1, 4))
        return None

    def _signed(
        self, op: str, work: Callable[[ControlPlane], Awaitable[Any]]
    ) -> Callable[[ControlPlane], Awaitable[Any]]:
        """As a door does it, wherever and whenever the request arrives: who is asking is known to the task that serves it."""
        act = Act(Author(self._name, self._tenant, self._name), "", f"{self._name}-{op}", op)

        async def signed(plane: ControlPlane) -> Any:
            before = acting.set(act)
            try:
                return await work(plane)
            finally:
                acting.reset(before)

        return signed

    def _note(self, op: str, began: Millis, outcome: str, about: dict[str, Any], **more: Any) -> None:
        self._cluster.history.note(
            "call", client=self._name, tenant=self._tenant, op=op, began=began, outcome=outcome, **about, **more
        )

    def _recent(self) -> JobId:
        return self._chance.choice(self._jobs[-8:])

    def _invent(self, key: str, name: str) -> Submission:
        chance = self._chance
        seconds = chance.choice((0, 0, 0.5, 2, 5, 10, 20, 40))
        steps = ["print begin", f"sleep {seconds}", "print end", f"exit {chance.choice((0, 0, 0, 1))}"]
        if chance.random() < 0.1:
            steps.insert(0, "ignore-term")
        command = ("no-such-command",) if chance.random() < 0.03 else ("do", *steps)
        image = chance.choices(("here", "slow", "flaky", "absent"), (8, 2, 2, 1))[0]
        return Submission(
            spec=JobSpec(
                image=image,
                command=command,
                needs=Resources(cpu_millis=chance.choice((500, 1000, 2000)), memory_bytes=GIB),
            ),
            name=name or (f"name-{chance.randint(1, 12)}" if chance.random() < 0.15 else ""),
            labels=(("key", key),),
            retries=chance.choice((0, 0, 1, 2, 3)),
            priority=chance.choice((0, 0, 0, 5)),
            timeout_ms=Millis(chance.choice((1000, 4000, 15_000))) if chance.random() < 0.25 else None,
            grace_ms=Millis(chance.choice((0, 1000, 5000))),
            run_ttl_ms=Millis(chance.choice((0, 0, 5_000, 60_000))),
            volume_ttl_ms=Millis(chance.choice((1_000, 20_000, 120_000))),
            is_suspended=chance.random() < 0.05,
        )


def _render(job: Job, spec: JobSpec) -> bytes:
    return json.encode({"uid": job.id, "name": job.name, "image": spec.image, "created": job.created_at})


def _as_text(answer: Any) -> Any:
    if isinstance(answer, Accepted):
        body = answer.answer if answer.answer is not None else _render(answer.job, answer.spec)
        return {"job": answer.job.id, "body": body.decode(), "revision": answer.revision}
    if isinstance(answer, tuple):
        return {"volume": answer[0].id}
    return answer
