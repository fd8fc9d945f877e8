"""Making a container; the same for runs and for debug shells."""

from collections.abc import Callable, Mapping
from typing import Any

from windlass.adapters.runtime.docker.engine import Engine, Facts
from windlass.adapters.runtime.docker.refusals import REFUSED
from windlass.core.errors import NotFound, Unavailable
from windlass.ports.runtime import ImageUnavailable


async def create_container(engine: Engine, name: str, config: Callable[[Facts], Mapping[str, Any]]) -> str:
    """The engine's id of it. Conflict when the name is taken, ImageUnavailable when the image went meanwhile."""
    params = {"name": name}
    try:
        made = await engine.call("POST", "/containers/create", params=params, body=config(await engine.facts()))
    except NotFound as exc:
        raise ImageUnavailable(exc.message, is_transient=True, code="image-not-found") from exc
    except Unavailable as exc:
        if exc.code != REFUSED or "init binary" not in exc.message:
            raise
        # Podman tells at the first create only that it has no init program.
        made = await engine.call("POST", "/containers/create", params=params, body=config(await engine.forget_init()))
    return str(made["Id"])
