"""Knowing, making and removing a container; the same for runs, debug shells and helpers."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from windlass.adapters.runtime.docker.engine import Engine, Facts
from windlass.adapters.runtime.docker.refusals import REFUSED
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable
from windlass.ports.runtime import ImageUnavailable

REMOVAL_SECONDS: Final = 30.0
_HOPELESS: Final = re.compile(r"is not a directory|not a directory|cannot mkdir", re.IGNORECASE)
"""Failures that the engine calls its own, though what was asked can never be had from this image."""


class Known(Struct, frozen=True):
    """A container that was seen to be ours. The engine's id cannot be taken over by another one, as a name can."""

    id: str
    has_terminal: bool
    has_input: bool = False
    """Without a terminal."""


async def create_container(engine: Engine, name: str, config: Callable[[Facts], Mapping[str, Any]]) -> str:
    """The engine's id of it. Conflict when the name is taken, ImageUnavailable when the image went meanwhile, Invalid."""
    params = {"name": name}
    try:
        made = await engine.call("POST", "/containers/create", params=params, body=config(await engine.facts()))
    except NotFound as exc:
        raise ImageUnavailable(exc.message, is_transient=True, code="image-not-found") from exc
    except Unavailable as exc:
        if exc.code != REFUSED:
            raise
        if _HOPELESS.search(exc.message):
            raise Invalid(exc.message, code="invalid-container") from exc
        if "init binary" not in exc.message:
            raise
        # Podman tells at the first create only that it has no init program.
        made = await engine.call("POST", "/containers/create", params=params, body=config(await engine.forget_init()))
    return str(made["Id"])


async def delete_container(engine: Engine, container: str) -> None:
    """Killed if it must be, and gone when this returns. Absent is fine."""
    try:
        # `v` takes the container's anonymous volumes along; named ones, ours among them, stay.
        await engine.call("DELETE", f"/containers/{container}", params={"force": "true", "v": "true"})
    except NotFound:
        return
    except Conflict:  # somebody else's removal is under way
        await _removed(engine, container)


async def _removed(engine: Engine, container: str) -> None:
    try:
        await engine.call(
            "POST", f"/containers/{container}/wait", params={"condition": "removed"}, seconds=REMOVAL_SECONDS
        )
    except NotFound:
        return
