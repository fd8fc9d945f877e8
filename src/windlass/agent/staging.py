"""A job's inputs, from blobs into its volume, once per volume: a retry on the same node finds what the first attempt left."""

import io
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable

from windlass.agent.journal import Journal
from windlass.core.model.assignment import Assignment
from windlass.core.model.facts import Fact, VolumeMade
from windlass.core.model.ids import NodeId
from windlass.core.model.job import Input
from windlass.ports.blobs import Blobs
from windlass.ports.runtime import Runtime, VolumeWish

Progress = Callable[[str], Awaitable[None]]
_BLOCK = 512


class Stager:
    def __init__(
        self, runtime: Runtime, blobs: Blobs, journal: Journal, node: NodeId, report: Callable[[Fact], Awaitable[None]]
    ) -> None:
        self._runtime = runtime
        self._blobs = blobs
        self.journal = journal
        self._node = node
        self._report = report

    async def stage(self, assignment: Assignment, progress: Progress) -> None:
        """The volume, with all inputs in it; a guest has brought its own. Interrupted, it is done again: unpacking twice gives
        the same files."""
        volume = assignment.volume
        if assignment.spec.guest:
            return
        await self._runtime.ensure_volume(
            volume,
            labels={"windlass.dev/tenant": assignment.tenant, "windlass.dev/job": assignment.job},
            wish=VolumeWish(
                size_bytes=assignment.spec.volume_size_bytes,
                storage_class=assignment.spec.storage_class,
                node_labels=assignment.node_labels,
            ),
        )
        if not self.journal.is_staged(volume):
            await self._fill(assignment, progress)

    async def announce(self, assignment: Assignment) -> None:
        """The volume, once it is staged; on record when this returns."""
        if not assignment.spec.guest:
            size = assignment.spec.volume_size_bytes
            await self._report(VolumeMade(volume=assignment.volume, node=self._node, size_bytes=size))

    async def _fill(self, assignment: Assignment, progress: Progress) -> None:
        inputs = assignment.spec.inputs
        for n, item in enumerate(inputs, 1):
            await progress(f"staging input {n} of {len(inputs)} ({item.size} bytes)")
            parent, tar = self._as_archive(item)
            await self._runtime.put_archive(assignment.volume, parent, tar)
        if inputs:
            await self.journal.note_staged(assignment.volume)

    def _as_archive(self, item: Input) -> tuple[str, AsyncIterator[bytes]]:
        if item.is_archive:
            return item.path, self._blobs.read(item.digest)
        parent, _, name = item.path.rpartition("/")
        return parent, self._single_file(name, item)

    async def _single_file(self, name: str, item: Input) -> AsyncIterator[bytes]:
        """A tar of one file around the blob's bytes."""
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = item.size, 0o644
        yield entry.tobuf(tarfile.PAX_FORMAT)
        async for chunk in self._blobs.read(item.digest):
            yield chunk
        end = io.BytesIO()
        end.write(b"\0" * (-item.size % _BLOCK))
        end.write(b"\0" * (2 * _BLOCK))
        yield end.getvalue()
