"""What each container runtime is asked, and how its answers are read. Which ones a node has is found by looking.

A runtime is a small class over a `Shell`: commands are argument lists, answers go through strict decoders.
"""

from collections.abc import Mapping, Sequence

from windlass.images.errors import NodeError
from windlass.images.runtimes.containerd import Crictl, Ctr
from windlass.images.runtimes.engine import Docker, Podman
from windlass.images.runtimes.port import Listing, Runtime
from windlass.images.settings import RUNTIMES, Settings
from windlass.images.ssh import Shell
from windlass.images.tasks import task_group

__all__ = ["Crictl", "Ctr", "Docker", "Listing", "Podman", "Runtime", "find_runtimes"]


async def find_runtimes(shell: Shell, settings: Settings) -> tuple[Runtime, ...]:
    """Those that answer, in our order: `auto` takes the first, `all` every one, names mean these and no other."""
    asked = settings.runtimes
    kinds = RUNTIMES if asked[0] in ("auto", "all") else asked
    candidates = [_make(kind, shell, settings) for kind in kinds]
    said = await _ask_all(candidates, is_first_enough=asked[0] == "auto")
    answering = tuple(candidate for candidate in candidates if said.get(candidate.kind) == "")
    if not answering or (asked[0] not in ("auto", "all") and len(answering) < len(candidates)):
        what = "; ".join(f"{kind}: {reason}" for kind, reason in said.items() if reason)
        step = "Check the runtime, the user's rights (SUDO=true?), or set RUNTIME"
        raise NodeError("runtime.none", f"no container runtime answers ({what})", where=shell.name, next_step=step)
    return answering[:1] if asked[0] == "auto" else answering


async def _ask_all(candidates: Sequence[Runtime], *, is_first_enough: bool) -> dict[str, str]:
    """All at once. A client whose daemon is not there may take ten seconds to say so: once the choice is clear,
    nobody waits for it."""
    said: dict[str, str] = {}
    async with task_group() as tasks:

        async def ask(candidate: Runtime) -> None:
            said[candidate.kind] = await candidate.fault()
            if is_first_enough and _is_settled(candidates, said):
                tasks.cancel_scope.cancel()

        for candidate in candidates:
            tasks.start_soon(ask, candidate)
    return said


def _is_settled(candidates: Sequence[Runtime], said: Mapping[str, str]) -> bool:
    """Has one answered, and all before it declined?"""
    for candidate in candidates:
        if candidate.kind not in said:
            return False
        if not said[candidate.kind]:
            return True
    return False


def _make(kind: str, shell: Shell, settings: Settings) -> Runtime:
    match kind:
        case "crictl":
            return Crictl(shell, settings)
        case "docker":
            return Docker(shell, settings)
        case "ctr":
            return Ctr(shell, settings)
        case _:
            return Podman(shell, settings)
