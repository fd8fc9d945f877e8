"""What a person sees while it works: a bar per node, true at every moment."""

import io
import re

from rich.console import Console

from windlass.images import progress


def drawn(bars: "progress._Bars") -> list[str]:
    """The bars as they stand, without colours: (node, note, bytes)."""
    screen = io.StringIO()
    Console(file=screen, width=140).print(bars._shown)
    return [re.sub(r" [━╸╺ ]+ ", " ", line).rstrip() for line in screen.getvalue().splitlines()]


def test_what_failed_is_counted_apart_and_once_when_a_peer_takes_over() -> None:
    with progress.bars() as bars:
        assert isinstance(bars, progress._Bars)
        bars.expect("n1", 3, 3 << 20)
        bars.done("n1", 1 << 20, ok=True)
        bars.done("n1", 1 << 20, ok=False)
        bars.done("n1", 1 << 20, ok=False)
        assert drawn(bars)[0].startswith("n1 1/3 images, 2 failed 1.0/3.0 MiB")
        bars.expect("n1", 2, 2 << 20)
        assert drawn(bars)[0].startswith("n1 1/3 images 1.0/3.0 MiB")
        bars.done("n1", 2 << 20, ok=True)
        bars.done("n1", 0, ok=True)
        assert drawn(bars)[0].startswith("n1 3/3 images 3.0/3.0 MiB")
