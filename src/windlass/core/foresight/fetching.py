"""The last gate: a job that has its place, and whose image is not there yet, is refused, or is tried for again in a while.

What an image is, and who may read it, only its node and its registry know: this tells what the node has said of it.
"""

from windlass.core.foresight.change import Advice
from windlass.core.foresight.gate import Gate, GateName
from windlass.core.model.ids import Millis
from windlass.core.model.run import Run

_LOGIN = "windlass registries login REGISTRY -u USER"


def image_gate(run: Run, now: Millis) -> Gate | None:
    """Of a run that is being started; None when it is not the image that it waits for."""
    wait = run.image_wait
    if wait is None:
        return None
    again_at = wait.again_at if wait.again_at is not None and wait.again_at > now else None
    return Gate(
        name=GateName.IMAGE,
        is_open=False,
        says=f"not yet on {run.node}: {run.progress}",
        numbers=(("failedPulls", wait.failures),),
        opens_at=again_at,
    )


def refused_gate(message: str) -> Gate:
    """Of a job that is over for want of its image."""
    return Gate(name=GateName.IMAGE, is_open=False, says=f"refused: {message}")


def image_advice(run: Run) -> tuple[Advice, ...]:
    """A pull that goes on needs nothing. One that failed is tried again by itself, once the registry gives the image."""
    if run.image_wait is None or not run.image_wait.failures:
        return ()
    says = f"see that its registry has the image and gives it to {run.tenant}; {run.node} tries again by itself"
    return (Advice(does="image", says=says, command=_LOGIN),)


def another_image() -> tuple[Advice, ...]:
    says = "submit it again, with an image that its registry has, or after a login there"
    return (Advice(does="image", says=says, command=_LOGIN),)
