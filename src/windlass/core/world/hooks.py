"""Webhooks that are owed: what an answer or a failure changes."""

from typing import Final

from msgspec.structs import replace

from windlass.core.model.hook import Hook, HookState
from windlass.core.model.ids import JobId, Millis
from windlass.core.world.records import HookOver, Table
from windlass.core.world.world import World

TRIES_MAX: Final = 12
_PAUSE_MS: Final = 1_000
_PAUSE_MAX_MS: Final = 300_000


def hook_settled(world: World, job: JobId, *, problem: str, is_final: bool, now: Millis) -> Hook | None:
    """What became of it after a try; None when nobody owes it any more. No `problem`: it was heard. A final one is not tried
    again, nor is any other after `TRIES_MAX`."""
    hook = world.tables.hooks.get(job)
    if hook is None:
        return None
    tried = replace(hook, tries=hook.tries + 1, problem=problem, tried_at=now)
    is_over = not problem or is_final or tried.tries >= TRIES_MAX
    with world.decision(now):
        if is_over:
            tried = replace(tried, state=HookState.GIVEN_UP if problem else HookState.HEARD)
            world.drop(Table.HOOKS, job)
            world.put(Table.OUTBOX, hook_key(job), HookOver(hook=tried))
        else:
            pause = min(_PAUSE_MS << (tried.tries - 1), _PAUSE_MAX_MS)
            tried = replace(tried, state=HookState.FAILING, not_before=Millis(now + pause))
            world.put(Table.HOOKS, job, tried)
    return tried


def hook_moot(world: World, job: JobId, *, now: Millis) -> None:
    """Its job was erased: there is nothing left to tell, and nobody to tell how that went."""
    if job in world.tables.hooks:
        with world.decision(now):
            world.drop(Table.HOOKS, job)


def hook_key(job: JobId) -> str:
    """In the outbox, beside the job's own."""
    return f"hook-{job}"
