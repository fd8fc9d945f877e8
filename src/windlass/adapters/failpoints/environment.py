"""Failpoints from `WINDLASS_FAILPOINTS="name=kill|sleep:MS|error:CODE[@N]; …"`; refused unless `WINDLASS_TEST=1`.

`@N` arms the N-th time the place is reached (1 by default); kill and error strike once, sleep strikes from the N-th time on.
"""

import os
import signal
from collections import Counter
from collections.abc import Mapping

import anyio
from msgspec import Struct

from windlass.core.errors import Invalid, Unavailable
from windlass.ports.failpoints import NONE, Failpoints


class _Armed(Struct, frozen=True):
    act: str
    value: str
    at: int


class EnvironmentFailpoints:
    def __init__(self, armed: Mapping[str, _Armed]) -> None:
        self._armed = armed
        self._reached: Counter[str] = Counter()

    async def reach(self, name: str) -> None:
        armed = self._armed.get(name)
        if armed is None:
            return
        self._reached[name] += 1
        if self._reached[name] == armed.at or (armed.act == "sleep" and self._reached[name] > armed.at):
            await _strike(name, armed)


async def _strike(name: str, armed: _Armed) -> None:
    match armed.act:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            await anyio.sleep(int(armed.value) / 1000)
        case "error":
            raise Unavailable(f"failpoint {name}", code=armed.value or "failpoint")


def from_environment(environ: Mapping[str, str]) -> Failpoints:
    text = environ.get("WINDLASS_FAILPOINTS", "").strip()
    if not text:
        return NONE
    if environ.get("WINDLASS_TEST") != "1":
        raise Invalid(
            "WINDLASS_FAILPOINTS is for tests only", code="failpoints", hint="unset it, or set WINDLASS_TEST=1"
        )
    return EnvironmentFailpoints(dict(_parse(part) for part in text.split(";") if part.strip()))


def _parse(part: str) -> tuple[str, _Armed]:
    name, _, rest = part.strip().partition("=")
    what, _, nth = rest.partition("@")
    act, _, value = what.partition(":")
    if act not in {"kill", "sleep", "error"} or (nth and not nth.isdecimal()):
        raise Invalid(f"failpoint {part!r}: expected name=kill|sleep:MS|error:CODE[@N]", code="failpoints")
    return name, _Armed(act, value, int(nth or 1))
