"""What may reach a terminal. Of one that cannot take every character: what we draw with has a plain stand-in, the rest is escaped,
and nothing ends in a traceback. Of foreign text: nothing that a terminal obeys. Only what a job printed itself is left as it is."""

import codecs
import json
import re
import sys
from typing import Final

_STAND_INS: Final = {"…": "...", "┃": "|", "∞": "-", "→": "->", "·": "-", "≥": ">=", "≤": "<="}
_BARS: Final = "█▏▎▍▌▋▊▉▁▂▃▄▅▆▇"
_NAME: Final = "windlass-plain"
_UNUSUAL: Final = re.compile("[^\n -~]")


def clean(text: str) -> str:
    """One line, without what could move the cursor or ring the bell of whoever reads it."""
    return "".join(c if c.isprintable() else " " for c in text)


def clean_lines(text: str) -> str:
    return "\n".join(map(clean, text.split("\n")))


def is_plain(text: str) -> bool:
    """Whether it can be shown as it is."""
    return text.replace("\n", "").isprintable()


def clean_json(text: str) -> str:
    """The same document to a program. JSON lets control characters stand, and those that turn a line's direction."""
    return _UNUSUAL.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


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
