"""How long something takes or is still to be waited for, in the words of a sentence: `45 s`, `20 min`, `3 h 20 min`, `14 d 6 h`."""

from itertools import pairwise
from typing import Final

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def spoken(seconds: int) -> str:
    """Two neighbouring units at most, rounded up: whoever comes back then does not come too early."""
    for (size, unit), (lesser, below) in pairwise(_UNITS):
        if seconds >= size:
            many, rest = divmod(-(-seconds // lesser) * lesser, size)
            return f"{many} {unit} {rest // lesser} {below}" if rest else f"{many} {unit}"
    return f"{seconds} s"
