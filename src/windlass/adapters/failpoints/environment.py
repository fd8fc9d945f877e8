"""Failpoints from `WINDLASS_FAILPOINTS="name=kill|sleep:MS|error:CODE|flaky:MS[@N]; …"`; refused unless `WINDLASS_TEST=1`.

`@N` arms the N-th time the place is reached (1 by default); kill and error strike once, sleep strikes from the N-th time on.
So does flaky, which waits as long and then fails, every other time.
"""

import os
import signal
from collections import Counter
from collections.abc import Mapping
from typing import Final

import anyio
from msgspec import Struct

from windlass.core.errors import Invalid, Unavailable
from windlass.ports.failpoints import NONE, Failpoints

_LASTING: Final = frozenset({"sleep", "flaky"})


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
        times = self._reached[name] - armed.at
        if times == 0 or (times > 0 and armed.act in _LASTING):
            await _strike(name, armed, times)


async def _strike(name: str, armed: _Armed, times: int) -> None:
    """`times`: so often before."""
    match armed.act:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            await anyio.sleep(int(armed.value) / 1000)
        case "flaky":
            await anyio.sleep(int(armed.value) / 1000)
            if times % 2 == 0:
                raise Unavailable(f"failpoint {name}")
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
    if act not in {"kill", "sleep", "error", "flaky"} or (nth and not nth.isdecimal()):
        raise Invalid(f"failpoint {part!r}: expected name=kill|sleep:MS|error:CODE|flaky:MS[@N]", code="failpoints")
    return name, _Armed(act, value, int(nth or 1))
