"""Where heavy test assets (built binaries, debootstrapped images) stay between runs."""

import os
from pathlib import Path


def cache_directory(*names: str) -> Path:
    """The directory under `$WINDLASS_TEST_CACHE`, else the user's cache; made when absent. Safe to delete at any time."""
    named = os.environ.get("WINDLASS_TEST_CACHE") or os.environ.get("XDG_CACHE_HOME")
    base = Path(named) if named else Path.home() / ".cache"
    directory = base.joinpath("windlass-tests", *names)
    directory.mkdir(parents=True, exist_ok=True)
    return directory
