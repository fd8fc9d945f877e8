"""Workers cut from this machine: each a node of its own, served by an agent in this process, with a directory for its journal.

The order is on disk before the agent is started, so a server that comes back after a crash has the same slices and each takes up
its runs again. What held a slice's runs together (a cgroup) goes before its order does, and is listed even without one, so that
nothing is left behind. What may be cut at all, and that slices never come to more than the machine has, is decided in the World.
"""

import os
import shutil
from pathlib import Path
from typing import Final, Protocol

import anyio
import structlog
from msgspec import DecodeError, Struct, json

from windlass.core.errors import Unavailable
from windlass.core.model.ids import NodeId
from windlass.ports.provisioner import WorkerOrder

log = structlog.get_logger()

_ORDER: Final = "order.json"


class Host(Protocol):
    """The machine that slices are cut from."""

    async def serve(self, order: WorkerOrder, directory: Path) -> None:
        """Be that worker, with this directory to remember things in, until cancelled."""
        ...

    async def clear(self, worker: NodeId) -> None:
        """Nothing that held its runs together is left. Unavailable: try again."""
        ...

    async def uncleared(self) -> tuple[NodeId, ...]:
        """Those that something is left of."""
        ...


class _Served(Struct):
    scope: anyio.CancelScope
    has_left: anyio.Event


class SliceProvisioner:
    def __init__(self, directory: Path, host: Host) -> None:
        self._directory = directory
        self._host = host
        self._served: dict[NodeId, _Served] = {}
        self._wanted = anyio.Event()
        self._starting: list[WorkerOrder] = []
        self._disk = anyio.Lock()
        """Whoever looks must not take what is being made for what was left unmade."""

    async def run(self) -> None:
        """Serves those there are, and those asked for from now on."""
        async with self._disk:
            for order in await anyio.to_thread.run_sync(self._orders):
                self._start(order)
        async with anyio.create_task_group() as tasks:
            while True:
                self._wanted = anyio.Event()
                while self._starting:
                    order = self._starting.pop()
                    tasks.start_soon(self._live, order, self._served[order.worker])
                await self._wanted.wait()

    async def ask(self, order: WorkerOrder) -> None:
        try:
            async with self._disk:
                await anyio.to_thread.run_sync(self._write, order)
        except OSError as error:
            raise Unavailable(f"the slice's directory cannot be written: {error}", code="slice-directory") from error
        self._start(order)

    async def end(self, worker: NodeId) -> None:
        served = self._served.get(worker)
        if served is not None:
            served.scope.cancel()
            if not any(order.worker == worker for order in self._starting):
                await served.has_left.wait()
            self._starting = [order for order in self._starting if order.worker != worker]
            self._served.pop(worker, None)
        await self._host.clear(worker)
        try:
            async with self._disk:
                await anyio.to_thread.run_sync(self._remove, worker)
        except OSError as error:
            raise Unavailable(f"the slice's directory cannot be removed: {error}", code="slice-directory") from error

    async def list(self) -> tuple[NodeId, ...]:
        async with self._disk:
            orders = await anyio.to_thread.run_sync(self._orders)
        return tuple(dict.fromkeys((*(order.worker for order in orders), *await self._host.uncleared())))

    def _start(self, order: WorkerOrder) -> None:
        if order.worker not in self._served:
            self._served[order.worker] = _Served(scope=anyio.CancelScope(), has_left=anyio.Event())
            self._starting.append(order)
            self._wanted.set()

    async def _live(self, order: WorkerOrder, served: _Served) -> None:
        try:
            with served.scope:
                await self._host.serve(order, self._directory / order.worker)
        finally:
            served.has_left.set()

    def _orders(self) -> tuple[WorkerOrder, ...]:
        """A directory without a whole order is one whose making was cut short: nothing was started there, and it goes."""
        found = []
        for path in sorted(self._directory.glob("*")):
            try:
                found.append(json.decode((path / _ORDER).read_bytes(), type=WorkerOrder))
            except (FileNotFoundError, DecodeError) as error:
                log.warning("slice.unfinished", worker=path.name, error=str(error))
                shutil.rmtree(path, ignore_errors=True)
        return tuple(found)

    def _write(self, order: WorkerOrder) -> None:
        home = self._directory / order.worker
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (home / _ORDER).exists():
            return
        fresh = home / f".{_ORDER}.new"
        with open(fresh, "wb") as file:
            file.write(json.encode(order))
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, home / _ORDER)

    def _remove(self, worker: NodeId) -> None:
        """The order first: a crash in between leaves what the next start takes for unfinished."""
        home = self._directory / worker
        (home / _ORDER).unlink(missing_ok=True)
        if home.exists():
            shutil.rmtree(home)
