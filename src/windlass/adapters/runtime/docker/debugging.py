"""A shell beside a volume, for people: a container of its own, attached before it starts so that its first words are seen."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from windlass.adapters.runtime.docker.containers import create_container, delete_container
from windlass.adapters.runtime.docker.engine import Engine, Facts
from windlass.adapters.runtime.docker.hardening import debug_container
from windlass.adapters.runtime.docker.labels import Owner
from windlass.adapters.runtime.docker.refusals import REFUSED, readable_start_error
from windlass.adapters.runtime.docker.terminals import EngineTerminal, attached, open_terminal
from windlass.adapters.runtime.docker.validation import check_id
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable
from windlass.core.model.ids import VolumeId
from windlass.ports.runtime import StartFailed


@asynccontextmanager
async def debug_shell(
    engine: Engine,
    owner: Owner,
    volume: VolumeId,
    *,
    name: str,
    image: str,
    command: tuple[str, ...],
    labels: Mapping[str, str],
    keep: bool,
) -> AsyncIterator[EngineTerminal]:
    """One that was kept and still runs is attached to again; one that was kept and is over makes room."""
    check_id(name, field="name")

    def config(facts: Facts) -> dict[str, Any]:
        return debug_container(volume, image=image, command=command, labels=labels, owner=owner, facts=facts)

    container, is_running = await _found(engine, owner, name)
    try:
        if container is None:
            container = await create_container(engine, name, config)
        async with attached(engine, container, await open_terminal(engine, container)) as terminal:
            if not is_running:
                await _start(engine, container)
            yield terminal
    finally:
        if container is not None and not keep:
            with anyio.move_on_after(30, shield=True):
                await delete_container(engine, container)


async def _found(engine: Engine, owner: Owner, name: str) -> tuple[str | None, bool]:
    try:
        record = await engine.call("GET", f"/containers/{name}/json")
    except NotFound:
        return None, False
    if not owner.owns(record["Config"].get("Labels")):
        raise Conflict(f"the engine has a container {name} that is not ours", code="name-taken")
    container = str(record["Id"])
    if record["State"].get("Running"):
        return container, True
    await delete_container(engine, container)
    return None, False


async def _start(engine: Engine, container: str) -> None:
    try:
        await engine.call("POST", f"/containers/{container}/start")
    except (Invalid, NotFound, Unavailable) as exc:
        if exc.code != REFUSED:
            raise
        raise StartFailed(readable_start_error(exc.message)) from exc
