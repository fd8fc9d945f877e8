"""Whether needs fit into a room, and what of it is short: asked of nearly every placing, so as functions that can be compiled."""

from windlass.core.model.resources import Resources


def fits(needs: Resources, room: Resources) -> bool:
    return needs.cpu_millis <= room.cpu_millis and needs.memory_bytes <= room.memory_bytes and needs.gpus <= room.gpus


def lacks(needs: Resources, room: Resources) -> tuple[str, ...]:
    """The names of what does not fit, in the order people care about."""
    if fits(needs, room):
        return ()
    pairs = (
        ("gpu", needs.gpus, room.gpus),
        ("cpu", needs.cpu_millis, room.cpu_millis),
        ("memory", needs.memory_bytes, room.memory_bytes),
    )
    return tuple([name for name, need, have in pairs if need > have])
