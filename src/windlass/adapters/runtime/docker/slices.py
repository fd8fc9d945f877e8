"""The slices that runs of this engine lie in: for each a cgroup, made with its first run and removed when its worker goes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from windlass.adapters.runtime.docker.address import parse_address
from windlass.adapters.runtime.docker.engine import Engine
from windlass.adapters.runtime.docker.groups import Groups, find_groups
from windlass.adapters.runtime.docker.labels import Owner
from windlass.adapters.runtime.docker.refusals import REFUSED
from windlass.adapters.runtime.docker.validation import check_id
from windlass.core.errors import Unavailable
from windlass.core.model.assignment import Slice
from windlass.core.model.ids import NodeId

_TRIES: Final = 100
_PAUSE_SECONDS: Final = 0.1


class Slices:
    def __init__(self, engine: Engine, owner: Owner) -> None:
        self._engine = engine
        self._owner = owner
        self._found: tuple[Groups | None, str] | None = None
        """Looked at once: what an engine and a machine allow does not change under a server."""
        self._made: set[NodeId] = set()

    async def lack(self) -> str:
        """Why slices have no cgroup of their own here; empty where they have."""
        await self._groups()
        assert self._found is not None
        return self._found[1]

    async def parent(self, cut: Slice | None) -> str:
        """What a container of that slice is put below; nothing where it has no cgroup, or there is no slice."""
        groups = await self._groups() if cut is not None else None
        if cut is None or groups is None:
            return ""
        check_id(cut.node, field="slice")
        if cut.node not in self._made:
            await _change(partial(groups.make, cut), is_refusal=True)  # asked a few times more, then believed
            self._made.add(cut.node)
        return groups.parent(cut.node)

    async def names(self) -> tuple[NodeId, ...]:
        groups = await self._groups()
        return tuple(map(NodeId, await anyio.to_thread.run_sync(groups.names))) if groups is not None else ()

    async def end(self, node: NodeId) -> None:
        check_id(node, field="slice")
        groups = await self._groups()
        if groups is not None:
            self._made.discard(node)
            await _change(partial(groups.remove, node))

    async def end_all(self) -> None:
        groups = await self._groups()
        if groups is not None:
            self._made.clear()
            await _patiently(groups.remove_all)

    async def _groups(self) -> Groups | None:
        if self._found is None:
            look = partial(find_groups, self._engine.address, await self._engine.facts(), self._owner)
            self._found = await anyio.to_thread.run_sync(look)
        return self._found[0]


async def slices_lack(docker_host: str, environ: Mapping[str, str]) -> str:
    """As `Slices.lack`, of an engine that nobody here has open."""
    engine = Engine(parse_address(docker_host, environ))
    try:
        return await Slices(engine, Owner(installation="doctor", node="doctor")).lack()
    finally:
        await engine.close()


async def _patiently(act: Callable[[], None]) -> None:
    """An engine may be a moment behind its own word that a container is gone: its processes leave the group last."""
    for _ in range(_TRIES):
        try:
            return await _change(act)
        except Unavailable:
            await anyio.sleep(_PAUSE_SECONDS)
    return await _change(act)


async def _change(act: Callable[[], None], *, is_refusal: bool = False) -> None:
    try:
        await anyio.to_thread.run_sync(act)
    except OSError as exc:
        said = f"the cgroup of a slice cannot be changed: {exc}"
        raise (Unavailable(said, code=REFUSED) if is_refusal else Unavailable(said, code="slice-cgroup")) from exc
