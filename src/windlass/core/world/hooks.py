"""Webhooks that are owed: which are due, and what an answer or a failure changes."""

from msgspec.structs import replace

from windlass.core.model.ids import JobId, Millis
from windlass.core.world.records import Hook, Table
from windlass.core.world.world import World

TRIES_MAX = 12
_PAUSE_MS = 1_000
_PAUSE_MAX_MS = 300_000


def due_hooks(world: World, *, now: Millis) -> list[Hook]:
    return [hook for hook in world.tables.hooks.values() if hook.not_before <= now]


def next_hook_at(world: World) -> Millis | None:
    return min((hook.not_before for hook in world.tables.hooks.values()), default=None)


def hook_settled(world: World, job: JobId, *, was_heard: bool, now: Millis) -> bool:
    """Drop it when it was heard or has been tried enough, else put it off; False when it was given up."""
    hook = world.tables.hooks.get(job)
    if hook is None:
        return True
    tries = hook.tries + 1
    with world.decision(now):
        if was_heard or tries >= TRIES_MAX:
            world.drop(Table.HOOKS, job)
        else:
            pause = min(_PAUSE_MS << (tries - 1), _PAUSE_MAX_MS)
            world.put(Table.HOOKS, job, replace(hook, tries=tries, not_before=Millis(now + pause)))
    return was_heard or tries < TRIES_MAX
