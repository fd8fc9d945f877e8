"""Who a container runs as, as the machine counts users: the owner of the files it is to read."""

import io
import os
import tarfile
from typing import Final

from windlass.adapters.runtime.docker.engine import Engine
from windlass.core.errors import NotFound
from windlass.ports.runtime import StartFailed

_PASSWD: Final = "/etc/passwd"  # noqa: S105 — a file
_PASSWD_BYTES_MAX: Final = 1 << 20
_UID_MAX: Final = 1 << 31


async def user_of(engine: Engine, container: str, user: str) -> int:
    """The machine's id of the image's `user`, a name or a number, looked up where the engine would. StartFailed."""
    name = user.partition(":")[0]
    inside = (
        int(name) if name.isdecimal() and name.isascii() else 0 if not name else await _look_up(engine, container, name)
    )
    facts = await engine.facts()
    if facts.is_rootless:
        if inside:
            raise StartFailed(
                f"a rootless engine maps user {user!r} to one whom files cannot be given to",
                hint="use an image that runs as root, or variables",
            )
        return os.geteuid()
    if not 0 <= inside < _UID_MAX:
        raise StartFailed(f"the image's user {user[:64]!r} is none")
    return facts.user_offset + inside


async def _look_up(engine: Engine, container: str, name: str) -> int:
    for line in (await _passwd(engine, container)).splitlines():
        fields = line.split(":")
        if fields[0] == name and len(fields) > 2 and fields[2].isdecimal():
            return int(fields[2])
    raise StartFailed(f"the image's user {name[:64]!r} is not in its {_PASSWD}")


async def _passwd(engine: Engine, container: str) -> str:
    raw = bytearray()
    try:
        async with engine.stream(
            "GET", f"/containers/{container}/archive", params={"path": _PASSWD}, seconds=60
        ) as answer:
            async for chunk in answer.content.iter_any():
                raw += chunk
                if len(raw) > _PASSWD_BYTES_MAX:
                    raise StartFailed(f"the image's {_PASSWD} is too large to be read")
    except NotFound:
        return ""
    with tarfile.open(fileobj=io.BytesIO(bytes(raw))) as tar:
        member = next((one for one in tar if one.isreg()), None)
        file = tar.extractfile(member) if member is not None else None
        return file.read().decode(errors="replace") if file is not None else ""
