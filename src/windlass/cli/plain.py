"""Terminals and pipes that cannot take every character: what we draw with has a plain stand-in, the rest is escaped, and nothing
ends in a traceback."""

import codecs
import sys
from typing import Final

_STAND_INS: Final = {"…": "...", "┃": "|", "∞": "-", "→": "->", "·": "-", "≥": ">=", "≤": "<="}
_BARS: Final = "█▏▎▍▌▋▊▉▁▂▃▄▅▆▇"
_NAME: Final = "windlass-plain"


def make_do() -> None:
    """With whatever encoding the streams have; those of UTF-8 never ask."""
    codecs.register_error(_NAME, _stand_in)
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors=_NAME)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_STAND_INS.get(c) or ("#" if c in _BARS else _escaped(c)) for c in lost), error.end


def _escaped(character: str) -> str:
    """As JSON has it, too."""
    return character.encode("ascii", "backslashreplace").decode()
