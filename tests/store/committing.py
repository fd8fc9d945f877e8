"""A process that commits as fast as it can and says what was acknowledged, until someone ends it.

Run as `python -m tests.store.committing DATABASE NAME`.
"""

import asyncio
import os
import sys
from pathlib import Path

from windlass.adapters.store.sqlite import SqliteStore
from windlass.ports.store import Put

CLIENTS = 32


async def commit_for_ever(path: Path, name: str) -> None:
    async with SqliteStore.open(path) as store:

        async def client(number: int) -> None:
            sent = 0
            while True:
                key = f"/{name}/{number}/{sent}"
                revision = await store.commit([Put(key, bytes(100))])
                # One system call each: what was said is in the pipe, whatever happens to us next.
                os.write(1, f"{revision} {key}\n".encode())
                sent += 1

        async with asyncio.TaskGroup() as tasks:
            for number in range(CLIENTS):
                tasks.create_task(client(number))


if __name__ == "__main__":
    asyncio.run(commit_for_ever(Path(sys.argv[1]), sys.argv[2]))
