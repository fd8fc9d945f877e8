"""Reads the seed's shell-style settings file without a shell: assignments are parsed, nothing is ever executed.

Understood: `KEY=value`, `export KEY=value`, single and double quotes, arrays `KEY=(a "b c")` over several lines,
comments, and `$NAME` or `${NAME}` for a key set further up or HOME. Whatever would make a shell *do* something
(command substitution, pipes, further words) is refused with its line, and the next line is read on, so that one look at
the mistakes is enough.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from windlass.images.errors import ImageSyncError

Value = str | tuple[str, ...]

_ASSIGNMENT: Final = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=", re.ASCII)
_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})", re.ASCII)
_ACTIVE: Final = frozenset(";&|<>`*?~!{}")
"""Characters that mean something to a shell outside quotes; a settings file has no use for them there."""
SIZE_MAX: Final = 1 << 20
_MISTAKES_MAX: Final = 20


class Parsed(Struct, frozen=True, kw_only=True):
    values: Mapping[str, Value] = {}
    mistakes: tuple[ImageSyncError, ...] = ()
    """Every line that was refused; the others were read."""
    lines: Mapping[str, tuple[int, ...]] = {}
    """The line of each word of an array, or of the one value."""
    refused: frozenset[str] = frozenset()
    """Keys that are there but could not be read: they are not missing."""


def parse_shell_file(text: str, *, where: str, environment: Mapping[str, str]) -> Parsed:
    if len(text) > SIZE_MAX or "\0" in text:
        raise ImageSyncError("config.unreadable", "not a settings file", where=where, expected="text of at most 1 MiB")
    return _Reader(text, where, environment).read()


class _Reader:
    """One pass over the text; `_at` moves back only to where a mistake began."""

    def __init__(self, text: str, where: str, environment: Mapping[str, str]) -> None:
        self._text = text.replace("\r\n", "\n")
        self._where = where
        self._environment = environment
        self._at = 0
        self._values: dict[str, Value] = {}
        self._mistakes: list[ImageSyncError] = []
        self._refused: set[str] = set()
        self._lines: dict[str, tuple[int, ...]] = {}

    def read(self) -> Parsed:
        while self._skip_blank() and len(self._mistakes) < _MISTAKES_MAX:
            try:
                self._assignment()
            except ImageSyncError as mistake:
                self._mistakes.append(mistake)
                self._skip_comment()
        return Parsed(
            values=self._values,
            mistakes=tuple(self._mistakes),
            lines=self._lines,
            refused=frozenset(self._refused),
        )

    def _assignment(self) -> None:
        match = _ASSIGNMENT.match(self._text, self._at)
        if match is None:
            raise self._refuse("not an assignment", "KEY=value; the file is read, not run")
        self._at = match.end()
        self._refused.add(match[1])
        lines: list[int] = [self._line()]
        value = self._array(lines) if self._peek() == "(" else self._word()
        self._end_of_line()
        self._lines[match[1]] = tuple(lines)
        self._refused.discard(match[1])
        self._values[match[1]] = value

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_blank(self) -> bool:
        """To the next line that says something; false at the end."""
        while self._at < len(self._text):
            if self._peek() in " \t\n":
                self._at += 1
            elif self._peek() == "#":
                self._skip_comment()
            else:
                return True
        return False

    def _skip_comment(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _end_of_line(self) -> None:
        while self._peek() in (" ", "\t"):
            self._at += 1
        if self._peek() == "#":
            self._skip_comment()
        if self._peek() not in ("", "\n"):
            raise self._refuse("more after the value", "quotes around a value with spaces; nothing is executed")

    def _array(self, lines: list[int]) -> tuple[str, ...]:
        begun = self._at
        lines.clear()
        self._at += 1
        words: list[str] = []
        while self._skip_blank():
            if self._peek() == ")":
                self._at += 1
                return tuple(words)
            lines.append(self._line())
            words.append(self._word(closers=")"))
        self._at = begun  # what is wrong is there, and what follows may be lines of their own
        raise self._refuse("an array without its ')'", "KEY=(one two)")

    def _word(self, closers: str = "") -> str:
        parts: list[str] = []
        while (char := self._peek()) and char not in " \t\n" and char not in closers:
            if char == "'":
                parts.append(self._quoted_plain())
            elif char == '"':
                parts.append(self._quoted_expanding())
            elif char == "$":
                parts.append(self._variable())
            elif char == "\\":
                parts.append(self._text[self._at + 1 : self._at + 2])
                self._at += 2
            elif char in _ACTIVE or char in "()":
                raise self._refuse(f"'{char}' outside quotes", "a plain value")
            else:
                parts.append(char)
                self._at += 1
        return "".join(parts)

    def _quoted_plain(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise self._refuse("a quote that is never closed", "a closing '")
        inner = self._text[self._at + 1 : end]
        self._at = end + 1
        return inner

    def _quoted_expanding(self) -> str:
        parts: list[str] = []
        begun = self._at
        self._at += 1
        while (char := self._peek()) != '"':
            if not char:
                self._at = begun
                raise self._refuse("a quote that is never closed", 'a closing "')
            if char == "`":
                raise self._refuse("a command in backticks", "a plain value: nothing is executed")
            if char == "$":
                parts.append(self._variable())
            elif char == "\\" and self._text[self._at + 1 : self._at + 2] in ('"', "\\", "$", "`"):
                parts.append(self._text[self._at + 1])
                self._at += 2
            else:
                parts.append(char)
                self._at += 1
        self._at += 1
        return "".join(parts)

    def _variable(self) -> str:
        match = _VARIABLE.match(self._text, self._at)
        if match is None:
            raise self._refuse("'$' that is no plain variable", "a plain value: nothing is executed")
        name = match[1] or match[2]
        value = self._values.get(name, self._environment.get(name) if name == "HOME" else None)
        if not isinstance(value, str):
            raise self._refuse(f"${name} is not set further up", "a key of this file, or HOME")
        self._at = match.end()
        return value

    def _refuse(self, what: str, expected: str) -> ImageSyncError:
        return ImageSyncError("config.syntax", what, where=f"{self._where} line {self._line()}", expected=expected)

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1
