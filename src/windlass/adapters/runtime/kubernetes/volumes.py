"""A run's volume is a claim of its own; archives go in and out through a pod beside it.

Nothing is given to a shell: commands are words, bytes go by stdin and stdout. The image of that pod needs `tar`, `stat`,
`mkdir` and `sleep`; busybox has them.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from windlass.adapters.runtime.kubernetes.beside import MOUNT, Beside, Done
from windlass.adapters.runtime.kubernetes.cluster import Cluster
from windlass.adapters.runtime.kubernetes.objects import Owner, claim_name, volume_claim
from windlass.adapters.runtime.tars import LastEntry
from windlass.core.errors import Conflict, Fault, Invalid, NotFound, Unavailable, WindlassError
from windlass.core.model.ids import VolumeId
from windlass.ports.runtime import Stream, Terminal, VolumeWish
from windlass.wire.kube.kinds import CLAIMS, JOBS
from windlass.wire.kube.names import VOLUME_LABEL

PIECES_HELD: Final = 8
LINK: Final = "symbolic link"


class Volumes:
    def __init__(self, cluster: Cluster, namespace: str, owner: Owner, beside: Beside, tasks: TaskGroup) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._owner = owner
        self._beside = beside
        self._tasks = tasks

    async def ensure(self, volume: VolumeId, labels: Mapping[str, str], wish: VolumeWish) -> None:
        document = volume_claim(volume, self._owner, labels, wish)
        try:
            await self._cluster.create(CLAIMS, document, self._namespace)
        except Conflict as exc:
            found = await self._cluster.get(CLAIMS, claim_name(volume), self._namespace)
            if found is None or "deletionTimestamp" in found["metadata"]:
                raise Unavailable(f"volume {volume} was just being removed", code="name-released") from exc
            if not self._owner.owns(found):
                words = f"the cluster has a claim {claim_name(volume)} that is not ours"
                raise Conflict(words, code="volume-foreign") from exc

    async def put(self, volume: VolumeId, path: str, tar: AsyncIterator[bytes]) -> None:
        parts = _parts(path)
        async with self._beside.open(volume) as pod:
            await self._refuse_links(pod, parts)
            target = "/".join((MOUNT, *parts))
            made = await self._beside.run_command(pod, ["mkdir", "-p", "--", target])
            if made.exit_code:
                raise NotFound(f"{'/'.join(parts)} is not a directory", code="path-not-directory")
            last = LastEntry()
            try:
                done = await self._unpack(pod, target, last.watch(tar))
            except Unavailable:
                if last.failure is not None:
                    raise last.failure from None
                raise
            if done.exit_code:
                raise Unavailable(f"the archive could not be unpacked: {_words(done)}", code="archive-lost")
            await self._verify(pod, target, last)

    async def get(self, volume: VolumeId, path: str) -> AsyncIterator[bytes]:
        """The pod's stream has a task of its own: whoever reads may stop anywhere, and from any task."""
        sending, receiving = anyio.create_memory_object_stream[bytes | WindlassError](PIECES_HELD)
        self._tasks.start_soon(self._pack, volume, _parts(path), sending)
        return _pieces(receiving)

    async def remove(self, volume: VolumeId) -> None:
        claim = await self._cluster.get(CLAIMS, claim_name(volume), self._namespace)
        if claim is None or not self._owner.owns(claim):
            return
        if await self._cluster.list(JOBS, self._namespace, labels=self._owner.selector(**{VOLUME_LABEL: volume})):
            raise Conflict(f"volume {volume} is in use by a run", code="volume-in-use")
        await self._beside.close(volume)
        await self._cluster.delete(CLAIMS, claim_name(volume), self._namespace, uid=claim["metadata"]["uid"])

    async def names(self) -> tuple[VolumeId, ...]:
        found = await self._cluster.list(CLAIMS, self._namespace, labels=self._owner.selector())
        ours = [
            one["metadata"] for one in found if self._owner.owns(one) and "deletionTimestamp" not in one["metadata"]
        ]
        return tuple(sorted(VolumeId(one["labels"][VOLUME_LABEL]) for one in ours if VOLUME_LABEL in one["labels"]))

    async def _pack(
        self, volume: VolumeId, parts: tuple[str, ...], sending: MemoryObjectSendStream[bytes | WindlassError]
    ) -> None:
        async with sending:
            try:
                await self._send_archive(volume, parts, sending)
            except anyio.BrokenResourceError:
                return  # nobody reads any more
            except WindlassError as exc:
                with anyio.move_on_after(60):  # whoever asked may have gone without a word
                    await _tell(sending, exc)

    async def _send_archive(
        self, volume: VolumeId, parts: tuple[str, ...], sending: MemoryObjectSendStream[bytes | WindlassError]
    ) -> None:
        async with self._beside.open(volume) as pod:
            if len(await self._refuse_links(pod, parts)) < len(parts):
                raise NotFound(f"nothing at {'/'.join(parts)!r} in the volume", code="path-not-found")
            where = "/".join((MOUNT, *parts[:-1]))
            command = ["tar", "-cf", "-", "-C", where, "--", parts[-1] if parts else "."]
            errors = bytearray()
            async with self._cluster.terminal(pod, self._namespace, command, has_input=False) as terminal:
                async for stream, data in terminal.output():
                    if stream is Stream.STDERR:
                        errors += data
                    else:
                        await sending.send(data)
            code = await terminal.exit_code()
            if code:
                raise Unavailable(_words(Done(code, b"", bytes(errors))), code="archive-lost")

    async def _unpack(self, pod: str, target: str, tar: AsyncIterator[bytes]) -> Done:
        """By tar itself: it holds its output open to the end, and so containerd leaves it its input."""
        errors = bytearray()
        command = ["tar", "-xf", "-", "-C", target]
        async with self._cluster.terminal(pod, self._namespace, command) as terminal:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_feed, terminal, tar)
                async for _, data in terminal.output():
                    errors += data
                tasks.cancel_scope.cancel()
        return Done(await terminal.exit_code(), b"", bytes(errors))

    async def _verify(self, pod: str, target: str, last: LastEntry) -> None:
        """Unpacking goes in order: if the last entry arrived whole, so did all before it."""
        if last.entry is None:
            return
        name = "/".join(part for part in last.entry.name.split("/") if part not in ("", "."))
        done = await self._beside.run_command(pod, ["stat", "-c", "%s", "--", f"{target}/{name}" if name else target])
        if done.exit_code or last.entry.size not in (None, int(done.stdout)):
            raise Unavailable(f"part of an archive was lost on the way: {name} did not arrive", code="archive-lost")

    async def _refuse_links(self, pod: str, parts: tuple[str, ...]) -> list[str]:
        """The kinds of the steps of a path that are there. A job may have left a link where a directory was expected: in the
        pod beside it could lead only to that pod's own tree, but what went there would be lost without a word."""
        if not parts:
            return []
        steps = ["/".join((MOUNT, *parts[: n + 1])) for n in range(len(parts))]
        done = await self._beside.run_command(pod, ["stat", "-c", "%F", "--", *steps])
        kinds = done.stdout.decode(errors="replace").splitlines()
        if LINK in kinds:
            raise NotFound(f"{'/'.join(parts)} leads through a link; links are not followed", code="path-is-link")
        return kinds


async def _pieces(receiving: MemoryObjectReceiveStream[bytes | WindlassError]) -> AsyncIterator[bytes]:
    async with receiving:
        async for piece in receiving:
            if isinstance(piece, WindlassError):
                raise piece
            yield piece


async def _tell(sending: MemoryObjectSendStream[bytes | WindlassError], error: WindlassError) -> None:
    try:
        await sending.send(error)
    except anyio.BrokenResourceError:
        return


async def _feed(terminal: Terminal, tar: AsyncIterator[bytes]) -> None:
    async for chunk in tar:
        await terminal.send(chunk)
    await terminal.close_input()


def _words(done: Done) -> str:
    return done.stderr.decode(errors="replace").strip()[:500] or f"tar ended with {done.exit_code}"


def _parts(path: str) -> tuple[str, ...]:
    """The steps of a path below the volume's root. Raises Invalid for one that would leave it."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/") or ".." in parts or "\0" in path:
        message = f"{path[:200]!r} is not a path below the volume's root"
        raise Invalid(message, code="path-outside", faults=(Fault("path", message),))
    return parts
