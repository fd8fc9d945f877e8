"""The nodes of a run: connected all at once, each with the runtimes that answer there. One that fails stops no other."""

import contextlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import anyio
from msgspec import Struct

from windlass.core.distribution import Inventory, Platform
from windlass.images.config import Address, Config
from windlass.images.errors import ImageSyncError, NodeError, OutputRefused
from windlass.images.runtimes import Runtime, find_runtimes
from windlass.images.settings import Settings
from windlass.images.ssh import Finished, Shell
from windlass.images.tasks import task_group

_MACHINES: Final[Mapping[str, tuple[str, str]]] = {
    "x86_64": ("amd64", ""),
    "aarch64": ("arm64", ""),
    "armv7l": ("arm", "v7"),
    "armv6l": ("arm", "v6"),
    "i686": ("386", ""),
}
_DF: Final = re.compile(r"\S+\s+[0-9]+\s+[0-9]+\s+([0-9]+)\s+[0-9]+%\s+/.*", re.ASCII)


class Node(Struct, frozen=True, eq=False, kw_only=True):
    """A runtime on a machine. A machine with two runtimes in use is two nodes, `host/docker` and `host/crictl`."""

    name: str
    shell: Shell
    runtime: Runtime
    platform: Platform | None

    async def inventory(self) -> Inventory:
        listing = await self.runtime.images()
        return Inventory(node=self.name, images=listing.images, platform=self.platform, refused=listing.refused)

    async def free_bytes(self) -> int:
        """Free where its images are kept, by POSIX `df`."""
        path = await self.runtime.storage_path()
        finished = await self.shell.run(("df", "-Pk", "--", path), timeout_seconds=30, stdout_max=1 << 16)
        lines = finished.stdout.decode("utf-8", "replace").strip().splitlines()
        match = _DF.fullmatch(lines[-1]) if finished.exit == 0 and lines else None
        if match is None:
            raise OutputRefused("node.output", "df says nothing usable", where=self.name)
        return int(match[1]) * 1024


class Crew(Struct, frozen=True, kw_only=True):
    nodes: Mapping[str, Node]
    faults: Mapping[str, ImageSyncError]
    """Nodes that cannot take part, and why."""
    order: tuple[str, ...] = ()
    """All of them as the settings list them, not as they answered: reports read alike every time."""


@contextlib.asynccontextmanager
async def open_crew(config: Config) -> AsyncIterator[Crew]:
    shells = {address.name: Shell(address, config.settings) for address in config.nodes}
    found: dict[str, tuple[Node, ...]] = {}
    faults: dict[str, ImageSyncError] = {}

    async def join(address: Address) -> None:
        try:
            found[address.name] = await _join(shells[address.name], config.settings)
        except NodeError as error:
            faults[address.name] = error

    try:
        async with task_group() as tasks:
            for address in config.nodes:
                tasks.start_soon(join, address)
        nodes = {node.name: node for address in config.nodes for node in found.get(address.name, ())}
        ordered = {address.name: faults[address.name] for address in config.nodes if address.name in faults}
        yield Crew(nodes=nodes, faults=ordered, order=_order(config.nodes, found))
    finally:
        with anyio.move_on_after(5, shield=True):
            async with task_group() as tasks:
                for shell in shells.values():
                    tasks.start_soon(shell.close)


async def take_inventories(crew: Crew) -> tuple[dict[str, Inventory], dict[str, ImageSyncError]]:
    """What every node has, and the nodes whose answer could not be used."""
    inventories: dict[str, Inventory] = {}
    faults: dict[str, ImageSyncError] = {}

    async def ask(node: Node) -> None:
        try:
            inventories[node.name] = await node.inventory()
        except NodeError as error:
            faults[node.name] = error

    async with task_group() as tasks:
        for node in crew.nodes.values():
            tasks.start_soon(ask, node)
    return {name: inventories[name] for name in crew.nodes if name in inventories}, faults


def _order(addresses: Sequence[Address], found: Mapping[str, Sequence[Node]]) -> tuple[str, ...]:
    names = ([node.name for node in found.get(address.name, ())] or [address.name] for address in addresses)
    return tuple(name for some in names for name in some)


async def _join(shell: Shell, settings: Settings) -> tuple[Node, ...]:
    await shell.check()
    platform = _platform(await shell.run(("uname", "-sm"), timeout_seconds=20, stdout_max=1 << 12, sudo=False))
    runtimes = await find_runtimes(shell, settings)
    several = len(runtimes) > 1
    return tuple(
        Node(
            name=f"{shell.name}/{runtime.kind}" if several else shell.name,
            shell=shell,
            runtime=runtime,
            platform=platform,
        )
        for runtime in runtimes
    )


def _platform(finished: Finished) -> Platform | None:
    words = finished.stdout.decode("ascii", "replace").split()
    if len(words) != 2:
        return None
    architecture, variant = _MACHINES.get(words[1], (words[1], ""))
    return Platform(words[0].lower(), architecture, variant)
