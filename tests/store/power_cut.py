"""A process that commits under load on a disk which forgets what was not synced, and pulls the plug at random operations.

Each cut leaves an image of the files, and beside it the commits that had been acknowledged by then: every one of them must
be in the image. Run as `python -m tests.store.power_cut DIRECTORY SEED CUTS COMMITS`.
"""

import asyncio
import json
import random
import sys
from pathlib import Path

from tests.store.disks import Operation, Platter, WatchedDisk
from windlass.adapters.store.sqlite import SqliteStore
from windlass.ports.store import Expect, Put

CLIENTS = 64
OPERATIONS_BETWEEN_CUTS = 1_000


class Plug:
    """Pulled `cuts` times, each instead of a random operation of the disk."""

    def __init__(self, directory: Path, chance: random.Random, cuts: int) -> None:
        self.acknowledged: list[tuple[int, str]] = []
        self.cuts_left = cuts
        self._directory = directory
        self._chance = chance
        self._platter = Platter()
        self._countdown = chance.randint(1, OPERATIONS_BETWEEN_CUTS)

    def touched(self, path: str, operation: Operation) -> None:
        self._countdown -= 1
        if self._countdown == 0 and self.cuts_left:
            self._pull()
        self._platter.note(path, operation)

    def _pull(self) -> None:
        self.cuts_left -= 1
        self._countdown = self._chance.randint(1, OPERATIONS_BETWEEN_CUTS)
        # First what was acknowledged, then the image: the other way round would accuse the innocent.
        acknowledged = self.acknowledged[:]
        image = self._directory / f"cut-{self.cuts_left:03}"
        kept = self._chance.choice((0.0, 0.0, 0.5, 0.9, 1.0))
        self._platter.cut(image, self._chance, kept=kept, torn=0.25)
        (image / "acknowledged.json").write_text(json.dumps(acknowledged))


async def commit_under_load(path: Path, plug: Plug, commits: int) -> None:
    async with SqliteStore.open(path) as store:
        leader = await store.commit([Put("/leader", b"me")], [Expect(key="/leader", created=0)])
        plug.acknowledged.append((leader, "/leader"))

        async def client(number: int) -> None:
            chance = random.Random(number)
            sent = 0
            while len(plug.acknowledged) < commits or plug.cuts_left:
                key = f"/client/{number}/{sent}"
                count = 50 if chance.random() < 0.005 else 1
                writes = [Put(key, key.encode() * 8), *(Put(f"{key}/{n}", bytes(500)) for n in range(1, count))]
                revision = await store.commit(writes, [Expect(key="/leader", created=leader)])
                plug.acknowledged.append((revision, key))
                sent += 1

        async with asyncio.TaskGroup() as tasks:
            for number in range(CLIENTS):
                tasks.create_task(client(number))


def main(directory: str, seed: str, cuts: str, commits: str) -> None:
    plug = Plug(Path(directory), random.Random(int(seed)), int(cuts))
    disk = WatchedDisk("power-cut", plug.touched, is_default=True)
    asyncio.run(commit_under_load(Path(directory) / "live" / "store.db", plug, int(commits)))
    print(json.dumps({"acknowledged": len(plug.acknowledged), "cuts": int(cuts), "disk": disk.name}))


if __name__ == "__main__":
    main(*sys.argv[1:])
