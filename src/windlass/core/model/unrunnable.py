"""A command that an OCI runtime could not begin: read from its complaint, whoever passed that on."""

import re
from typing import Final

from msgspec import Struct


class Unrunnable(Struct, frozen=True):
    words: str
    exit_code: int
    """What a shell would answer: 127 for no such command, 126 for one that cannot be run."""


def read_unrunnable(complaint: str) -> Unrunnable | None:
    """None, when it is about something else."""
    for pattern, words, code in _COMPLAINTS:
        if found := pattern.search(complaint):
            return Unrunnable(words.format(found[1]), code)
    return None


_ABSENT: Final = "no such command in the image: {0}"
_DENIED: Final = "the command cannot be executed: {0}: permission denied"
# Both runtimes, runc and crun, name the program that they could not execute.
_COMPLAINTS: Final = (
    (
        re.compile(r'exec: "([^"]*)": (?:executable file not found in \$PATH|stat .*: no such file or directory)'),
        _ABSENT,
        127,
    ),
    (re.compile(r"executable file [`']?([^`' ]+)[`']? not found in \$PATH"), _ABSENT, 127),
    (re.compile(r'exec: "([^"]*)": permission denied'), _DENIED, 126),
    (re.compile(r"(?:open|exec) [`']?([^`': ]+)[`']?: Permission denied"), _DENIED, 126),
    (re.compile(r'exec: "([^"]*)": is a directory'), "the command cannot be executed: {0} is a directory", 126),
    (re.compile(r"exec (\S+): exec format error"), "the command is not for this machine's processor: {0}", 126),
    (re.compile(r"exec (\S+): no such file or directory"), _ABSENT, 127),
)
