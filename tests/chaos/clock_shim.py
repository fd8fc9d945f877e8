"""The wall clock of one process, shifted while it runs: compiled on the spot, preloaded, steered by a file."""

import subprocess
from pathlib import Path

from tests.parts import present

_SOURCE = Path(__file__).with_suffix(".c")


class ClockShim:
    def __init__(self, directory: Path) -> None:
        compiler = present.program("cc")
        self._library = directory / "clock_shim.so"
        self._file = directory / "clock_shift"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self._library, _SOURCE, "-ldl"], check=True)
        self.shift(0)

    def shift(self, seconds: int) -> None:
        self._file.write_text(str(seconds))

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CLOCK_SHIM_FILE": str(self._file)}
