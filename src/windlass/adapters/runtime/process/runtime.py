"""The Runtime port on plain processes: for one machine, one tenant, where there is no container engine.

There is no image, no isolation from the machine, and limits only where cgroups may be used. What does hold is the execution
contract: a run is started at most once, outlives the server, and its exit code is never lost (see `keeper`, `shim`).
"""

import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import ByteStream

from windlass.adapters import staging
from windlass.adapters.runtime.listening import Listening
from windlass.adapters.runtime.process import journal, records, sockets
from windlass.adapters.runtime.process.environment import base_environment, order_of
from windlass.adapters.runtime.process.follow import Inotify, changed, follow
from windlass.adapters.runtime.process.link import Link, connect
from windlass.adapters.runtime.process.records import Record, number, text
from windlass.adapters.runtime.process.session import Attached, Session
from windlass.adapters.secrets.memory_files import MemoryFiles
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import Millis, NodeId, RunId, VolumeId
from windlass.core.model.resources import Resources
from windlass.core.model.run import Token
from windlass.core.model.secret import NOTHING_HANDED, Handed
from windlass.core.model.variables import ALWAYS, PRESET
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
    Terminal,
    Traits,
    Used,
    VolumeWish,
)

_WAIT_SECONDS = 0.2
_SHELL = ("/bin/sh", "-i")
_GPU = re.compile(r"nvidia(\d+)")
_TOLD = frozenset((*ALWAYS, *PRESET))
"""What is handed over stands in the place of none of these."""


class ProcessRuntime:
    """See `windlass.ports.runtime.Runtime`. Open it with `open`; closing it leaves the runs and their executor alone."""

    traits = Traits()

    def __init__(
        self,
        directory: str,
        owner: str,
        link: Link,
        inotify: Inotify,
        *,
        search_path: str,
        secret_files: MemoryFiles,
    ) -> None:
        self._directory = directory
        self._owner = owner
        self._link = link
        self._inotify = inotify
        self._search_path = search_path
        self._secret_files = secret_files

    @classmethod
    @asynccontextmanager
    async def open(
        cls, directory: Path, installation: str, node: NodeId, *, search_path: str | None = None
    ) -> AsyncIterator["ProcessRuntime"]:
        """`search_path` is the workloads' PATH; by default this process's own."""
        root = await anyio.to_thread.run_sync(_make_directories, directory)
        owner, inotify = f"{installation}/{node}", Inotify()
        path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
        try:
            async with Link.open(root, owner) as link:
                link.start_soon(inotify.run)
                yield cls(
                    root, owner, link, inotify, search_path=path, secret_files=MemoryFiles(f"{installation}-{node}")
                )
        finally:
            inotify.close()

    async def close(self) -> None:
        """Nothing of ours ends with the server; the connection closes with `open`'s block."""

    async def machine(self) -> Machine:
        await self._link.ask("hello")
        return Machine(
            runtime=f"process (limits are not enforced: {self._link.no_limits})" if self._link.no_limits else "process",
            kind="process",
            capacity=Resources(
                cpu_millis=len(os.sched_getaffinity(0)) * 1000,
                memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                gpus=len(_gpu_ids()),
            ),
            gpu_ids=_gpu_ids(),
            slices_lack=self._link.no_limits,
        )

    async def ensure_image(self, image: str, *, access: ImageAccess = ANYBODY) -> AsyncIterator[str]:
        """A process has no image: the machine's own programs are what there is."""
        return
        yield ""

    # --- volumes

    async def ensure_volume(
        self, volume: VolumeId, *, labels: Mapping[str, str], wish: VolumeWish = ANY_VOLUME
    ) -> None:
        path = self._volume_path(volume)
        await anyio.to_thread.run_sync(self._make_volume, volume, path, dict(labels))

    async def put_archive(self, volume: VolumeId, path: str, tar: AsyncIterator[bytes]) -> None:
        await staging.extract(self._known_volume(volume), path, tar)

    async def get_archive(self, volume: VolumeId, path: str) -> AsyncIterator[bytes]:
        async for chunk in staging.archive(self._known_volume(volume), path):
            yield chunk

    async def remove_volume(self, volume: VolumeId) -> None:
        if not self._owns_volume(volume):
            return
        if users := (await self._link.ask("users", volume=volume))["runs"]:
            raise Conflict(f"volume {volume} is in use by {users}", code="volume-in-use")
        await anyio.to_thread.run_sync(self._drop_volume, volume)

    async def volumes(self) -> tuple[VolumeId, ...]:
        names = await anyio.to_thread.run_sync(os.listdir, f"{self._directory}/labels")
        found = (VolumeId(name.removesuffix(".json")) for name in sorted(names) if name.endswith(".json"))
        return tuple(volume for volume in found if self._owns_volume(volume))

    # --- runs

    async def create(self, assignment: Assignment, *, handed: Handed = NOTHING_HANDED) -> None:
        """What is handed over waits for the start: an order is written down, and that must not be."""
        volume = self._volume_path(assignment.volume)
        order = order_of(assignment, owner=self._owner, volume=volume, search_path=self._search_path)
        await self._link.ask("create", order=order)

    async def start(self, run: RunId, *, handed: Handed = NOTHING_HANDED) -> None:
        environment = {name: value for name, value in handed.variables if name not in _TOLD}
        if handed.files:
            put = partial(self._secret_files.put, run, handed.files, user=os.geteuid(), group=os.getegid())
            environment["WINDLASS_SECRETS"] = str(await anyio.to_thread.run_sync(put))
        await self._link.ask("start", run=run, handed=environment)

    async def observe(self, run: RunId) -> Observed:
        return _observed(await self._link.ask("observe", run=run))

    async def usage(self, run: RunId) -> Used | None:
        return None  # the kernel tells whoever reaps it, exactly

    async def observe_all(self) -> tuple[Observed, ...]:
        seen = (await self._link.ask("list"))["seen"]
        assert isinstance(seen, list)
        return tuple(_observed(record) for record in seen)

    async def wait(self, run: RunId) -> Observed:
        while True:
            with self._link.end_of(run) as end, suppress(Unavailable):
                seen = await self.observe(run)
                if seen.phase in (Phase.EXITED, Phase.ABSENT):
                    return self._cleared(seen)
                if (record := await end.wait()) is not None:
                    return self._cleared(_observed(record))
            await anyio.sleep(_WAIT_SECONDS)

    async def stop(self, run: RunId, *, grace_ms: Millis) -> None:
        await self._link.ask("stop", run=run, grace_ms=grace_ms, more_seconds=grace_ms / 1000)

    async def logs(self, run: RunId, *, after: LogPosition) -> AsyncIterator[LogLine]:
        with suppress(NotFound):
            async for line in follow(self._known_run(run)[0], self._inotify, after=after):
                yield line
            await self.wait(run)  # the journal is ahead of the executor by a moment

    async def remove(self, run: RunId) -> None:
        await self._link.ask("remove", run=run)
        self._secret_files.drop(run)

    async def remove_all(self) -> int:
        runs, volumes = await self.observe_all(), await self.volumes()
        for seen in runs:
            await self.remove(seen.run)
        for volume in volumes:
            await self.remove_volume(volume)
        self._secret_files.drop_all()
        with suppress(Conflict):  # another installation's runs keep it busy
            await self._link.ask("quit")  # and with it go the groups of all slices
        return len(runs) + len(volumes)

    async def slices(self) -> tuple[NodeId, ...]:
        names = (await self._link.ask("slices"))["slices"]
        assert isinstance(names, list)
        return tuple(NodeId(name) for name in names)

    async def end_slice(self, node: NodeId) -> None:
        await self._link.ask("end-slice", slice=node)

    async def tidy(self, *, idle_ms: Millis = IDLE_MS) -> None:
        """One tenant, and the machine's own network."""

    # --- sessions

    @asynccontextmanager
    async def attach(self, run: RunId) -> AsyncIterator[Terminal]:
        """Its pseudo-terminal or its pipes, also after a restart of the server; without any, its output from the beginning."""
        path, order = self._known_run(run)
        if not order.get("terminal") and not order.get("input"):
            yield self._written(run)
            return
        async with AsyncExitStack() as open_streams:

            async def reach() -> ByteStream | None:
                stream = await self._reach_terminal(path)
                if stream is not None:
                    open_streams.push_async_callback(stream.aclose)
                return stream

            yield Attached(reach, lambda: self._written(run))

    @asynccontextmanager
    async def execute(self, run: RunId, command: tuple[str, ...], *, wants_terminal: bool) -> AsyncIterator[Terminal]:
        order: Record = {"command": list(command), "terminal": wants_terminal}
        async with await self._link.call(op="execute", run=run, order=order) as stream:
            yield Session(stream)

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
        """A shell whose working directory is the volume: /mnt is this machine's own, and there is nothing to keep."""
        path = self._known_volume(volume)
        environment = base_environment(volume=path, search_path=self._search_path, is_terminal=True)
        order: Record = {
            "command": list(command or _SHELL),
            "terminal": True,
            "directory": path,
            "environment": environment,
        }
        async with await self._link.call(op="execute", order=order) as stream:
            yield Session(stream)

    async def _reach_terminal(self, path: str) -> ByteStream | None:
        """None when the run is over."""
        watch = self._inotify.add(path)
        try:
            while True:
                event = self._inotify.armed(watch)
                known = journal.read(path)
                if known is None or "exit" in known:
                    return None
                with suppress(OSError):
                    return await connect(path, sockets.TERMINAL)
                await changed(event)
        finally:
            self._inotify.remove(watch)

    def _written(self, run: RunId) -> Listening:
        async def exit_code() -> int | None:
            return (await self.observe(run)).exit_code

        return Listening(self.logs(run, after=LogPosition()), exit_code)

    # --- what is where, and whose

    def _cleared(self, over: Observed) -> Observed:
        """Its secret files go with its end, not with its removal, which may be days later."""
        self._secret_files.drop(over.run)
        return over

    def _volume_path(self, volume: VolumeId) -> str:
        if not records.ID.fullmatch(volume):
            raise Invalid(f"{volume!r} is not a volume's id")
        return f"{self._directory}/volumes/{volume}"

    def _known_volume(self, volume: VolumeId) -> str:
        if not self._owns_volume(volume):
            raise NotFound(f"there is no volume {volume}")
        return self._volume_path(volume)

    def _owns_volume(self, volume: VolumeId) -> bool:
        label = records.read(f"{self._directory}/labels/{volume}.json") if records.ID.fullmatch(volume) else None
        return label is not None and label.get("owner") == self._owner

    def _known_run(self, run: RunId) -> tuple[str, Record]:
        """Its directory and its order."""
        path = records.run_path(self._directory, run)
        known = journal.read(path) if records.ID.fullmatch(run) else None
        if known is None or known["order"].get("owner") != self._owner:
            raise NotFound(f"there is no run {run}")
        return path, known["order"]

    def _make_volume(self, volume: VolumeId, path: str, labels: dict[str, str]) -> None:
        label = f"{self._directory}/labels/{volume}.json"
        known = records.read(label)
        if known is not None and known.get("owner") != self._owner:
            raise Conflict(f"volume {volume} belongs to another installation", code="volume-foreign")
        if known is None:
            records.write(label, {"owner": self._owner, "labels": labels}, is_durable=True)
        os.makedirs(path, 0o700, exist_ok=True)

    def _drop_volume(self, volume: VolumeId) -> None:
        """The label goes last: half-removed, it is still ours to remove."""
        shutil.rmtree(self._volume_path(volume), onerror=_open_up)
        os.unlink(f"{self._directory}/labels/{volume}.json")


def _observed(record: Record) -> Observed:
    return Observed(
        run=RunId(text(record, "run")),
        phase=Phase(text(record, "phase")),
        token=_token(record.get("token")),
        pid=(number(record, "pid") or None) if record.get("phase") == Phase.RUNNING else None,
        exit_code=code if isinstance(code := record.get("exit_code"), int) else None,
        is_oom=record.get("is_oom") is True,
        cpu_used_ms=_measure(record, "cpu_used_ms"),
        memory_peak_bytes=_measure(record, "memory_peak_bytes"),
        ran_ms=Millis(number(record, "ran_ms")),
        started_wall=_seconds(record, "started_wall"),
        finished_wall=_seconds(record, "finished_wall"),
        error=text(record, "error"),
    )


def _token(value: object) -> Token | None:
    return Token(*value) if isinstance(value, list) and len(value) == 2 else None


def _seconds(record: Record, key: str) -> float | None:
    value = record.get(key)
    return value if isinstance(value, float) else None


def _make_directories(directory: Path) -> str:
    root = os.path.realpath(directory)
    os.makedirs(root, 0o700, exist_ok=True)
    for name in ("runs", "volumes", "labels"):
        os.makedirs(f"{root}/{name}", 0o700, exist_ok=True)
    return root


def _gpu_ids() -> tuple[str, ...]:
    found = (_GPU.fullmatch(name) for name in os.listdir("/dev"))
    return tuple(sorted((match[1] for match in found if match), key=int))


def _open_up(remove: object, path: str, problem: tuple[type[BaseException], BaseException, object]) -> None:
    """A workload may leave directories it closed to itself; what is gone already is fine."""
    error = problem[1]
    if isinstance(error, FileNotFoundError):
        return
    parent = os.path.dirname(path)
    if not isinstance(error, PermissionError):
        raise error
    os.chmod(parent, 0o700)
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _measure(record: Record, name: str) -> int | None:
    """Absent from what an older executor wrote down, and from what nobody saw the end of."""
    return number(record, name) if name in record else None
