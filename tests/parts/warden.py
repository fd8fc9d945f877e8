"""Cleans up after a test run that could not: killed, or ended by its time limit in the middle of a test.

The run tells this process what its parts may leave, over a pipe. When the pipe closes, the run is over, however it ended,
and whatever it has not taken back by then is removed here.
"""

import subprocess
import sys
from pathlib import Path

from tests.parts.traces import Traces, remove_directory, sweep

ROOT = Path(__file__).resolve().parents[2]

_process: "subprocess.Popen[str] | None" = None


def watch(traces: Traces) -> None:
    """Note a part, or note it anew with more traces."""
    _tell(f"watch {traces.to_json()}")


def forget(directory: Path) -> None:
    """The part is gone and left nothing."""
    _tell(f"forget {directory}")


def main() -> None:
    known: dict[str, Traces] = {}
    for line in sys.stdin:
        verb, _, rest = line.rstrip("\n").partition(" ")
        if verb == "watch":
            traces = Traces.from_json(rest)
            known[traces.directory] = traces
        else:
            known.pop(rest, None)
    # The last first, as the run itself would; a directory may hold another part's, so they go at the end.
    for traces in reversed(known.values()):
        sweep(traces)
    for traces in known.values():
        remove_directory(traces)


def _tell(line: str) -> None:
    global _process
    if _process is None or _process.poll() is not None:
        # A session of its own: the Ctrl-C or the kill that ends the run must not end it.
        _process = subprocess.Popen(
            [sys.executable, "-m", "tests.parts.warden"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            text=True,
            start_new_session=True,
        )
    assert _process.stdin is not None
    _process.stdin.write(line + "\n")
    _process.stdin.flush()


if __name__ == "__main__":
    main()
