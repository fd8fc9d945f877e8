"""A process that uploads blobs until someone ends it, and says each digest once it is sealed.

Run as `python -m tests.contracts.uploading ROOT one|many`; `one` never comes to its seal.
"""

import asyncio
import os
import sys
from pathlib import Path

from windlass.adapters.blobs.directory import DirectoryBlobs


async def upload_for_ever(root: Path, how_many: str) -> None:
    blobs = await DirectoryBlobs.open(root)
    while True:
        async with blobs.create(size_max=1 << 40) as writer:
            await writer.write(os.urandom(3 << 20))
            while how_many == "one":
                os.write(1, b"writing\n")
                await writer.write(os.urandom(1 << 20))
            blob = await writer.seal()
        os.write(1, f"{blob.digest}\n".encode())


if __name__ == "__main__":
    asyncio.run(upload_for_ever(Path(sys.argv[1]), sys.argv[2]))
