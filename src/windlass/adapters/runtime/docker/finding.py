"""Which engine is there: the first of the usual sockets that answers, and what was tried before it, for people."""

from collections.abc import Mapping
from typing import Final

import anyio
from msgspec import Struct

from windlass.adapters.runtime.docker.address import Address, parse_address
from windlass.adapters.runtime.docker.engine import Engine
from windlass.core.errors import WindlassError

ANSWER_SECONDS: Final = 2.0
NAMED_SECONDS: Final = 15.0
"""For the one that was named, or used before: a busy machine is no reason to do without it, or to refuse to start."""


class Tried(Struct, frozen=True, kw_only=True):
    address: str
    why_not: str


class Found(Struct, frozen=True, kw_only=True):
    docker_host: str | None
    """What to open; None when nothing answered."""
    tried: tuple[Tried, ...] = ()
    """What did not answer, in order."""


async def find_engine(environ: Mapping[str, str], docker_host: str | None = None) -> Found:
    """With `docker_host` only that one; else DOCKER_HOST, then the places where Docker and Podman listen."""
    tried: list[Tried] = []
    for text in (docker_host,) if docker_host else usual_places(environ):
        is_named = text in (docker_host, environ.get("DOCKER_HOST"))
        why_not = await _why_not(text, environ, NAMED_SECONDS if is_named else ANSWER_SECONDS)
        if why_not is None:
            return Found(docker_host=text, tried=tuple(tried))
        tried.append(Tried(address=text, why_not=why_not))
    return Found(docker_host=None, tried=tuple(tried))


def usual_places(environ: Mapping[str, str]) -> tuple[str, ...]:
    places = [environ["DOCKER_HOST"]] if environ.get("DOCKER_HOST") else []
    runtime, home = environ.get("XDG_RUNTIME_DIR"), environ.get("HOME")
    places.append("unix:///var/run/docker.sock")
    places += [f"unix://{runtime}/docker.sock"] if runtime else []
    places += [f"unix://{home}/.docker/run/docker.sock"] if home else []
    places.append("unix:///run/podman/podman.sock")
    places += [f"unix://{runtime}/podman/podman.sock"] if runtime else []
    return tuple(dict.fromkeys(places))


async def _why_not(text: str, environ: Mapping[str, str], seconds: float) -> str | None:
    """None when it answers."""
    try:
        address: Address = parse_address(text, environ)
        if address.socket and not await anyio.Path(address.socket).exists():
            return "no such socket"
        engine = Engine(address)
    except WindlassError as exc:
        return exc.message
    except PermissionError:
        return "permission denied"
    try:
        with anyio.fail_after(seconds):
            await engine.ping()
    except WindlassError as exc:
        return exc.message
    except TimeoutError:
        return f"no answer within {seconds:.0f} s"
    finally:
        await engine.close()
    return None
