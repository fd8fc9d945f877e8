"""Who leads: one key in the store. Every commit of a leader expects the key as it won it, so that a deposed one writes nothing.

On SQLite a lock on the data directory already keeps a second server out; the epoch still grows with each start, so that runs
of different leaderships never share a token.
"""

from msgspec import Struct, json

from windlass.ports.store import Expect, Item, Put, Store

LEADER_KEY = "leader"


class Leader(Struct, frozen=True):
    epoch: int


async def take_epoch(store: Store, *, epoch_seen: int = 0) -> tuple[int, Expect]:
    """The next epoch, above any that the store or a node has seen, and the fence that goes with it."""
    known = await store.get(LEADER_KEY)
    epoch = max(_epoch_in(known), epoch_seen) + 1
    before = Expect(key=LEADER_KEY, modified=known.modified if known is not None else 0)
    revision = await store.commit([Put(LEADER_KEY, json.encode(Leader(epoch)))], [before])
    return epoch, Expect(key=LEADER_KEY, modified=revision)


async def known_epoch(store: Store) -> int:
    """Of the newest leadership that the store knows of; 0 when there was none."""
    return _epoch_in(await store.get(LEADER_KEY))


def _epoch_in(known: Item | None) -> int:
    return json.decode(known.value, type=Leader).epoch if known is not None else 0
