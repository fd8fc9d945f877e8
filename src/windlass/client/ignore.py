"""`.windlassignore`: which files of a project directory stay at home.

The part of gitignore's language that people use: comments, `!` takes back, a leading or inner `/` anchors, a trailing `/`
means directories only, `*`, `?` and `**`. The last rule that matches decides. One file, at the top of the project.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

FILE = ".windlassignore"
ALWAYS = (".git/", ".hg/", ".svn/", "__pycache__/", FILE)
"""Never of use to a job, and often large."""


class Rule(Struct, frozen=True, kw_only=True):
    pattern: re.Pattern[str]
    takes_back: bool = False
    is_for_directories: bool = False


class Ignore:
    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._rules = tuple(rule for line in (*ALWAYS, *lines) if (rule := _rule(line)))

    @classmethod
    def of(cls, directory: Path) -> "Ignore":
        try:
            return cls((directory / FILE).read_text(encoding="utf-8", errors="replace").splitlines())
        except FileNotFoundError:
            return cls()

    def covers(self, path: str, *, is_directory: bool) -> bool:
        """`path` is relative, with slashes. What lies below an ignored directory is never asked for."""
        covered = False
        for rule in self._rules:
            if (is_directory or not rule.is_for_directories) and rule.pattern.fullmatch(path):
                covered = not rule.takes_back
        return covered


def _rule(line: str) -> Rule | None:
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    takes_back, text = text.startswith("!"), text.removeprefix("!")
    is_for_directories, text = text.endswith("/"), text.rstrip("/")
    is_anchored, text = "/" in text, text.removeprefix("/")
    if not text:
        return None
    prefix = "" if is_anchored else "(?:.*/)?"
    return Rule(
        pattern=re.compile(prefix + _regex(text), re.DOTALL),
        takes_back=takes_back,
        is_for_directories=is_for_directories,
    )


def _regex(glob: str) -> str:
    out, rest = "", glob
    while rest:
        if rest.startswith("**/"):
            out, rest = out + "(?:[^/]+/)*", rest[3:]
        elif rest.startswith("**"):
            out, rest = out + ".*", rest[2:]
        elif rest[0] == "*":
            out, rest = out + "[^/]*", rest[1:]
        elif rest[0] == "?":
            out, rest = out + "[^/]", rest[1:]
        else:
            out, rest = out + re.escape(rest[0]), rest[1:]
    return out
