"""The last look before the engine, which takes in silence what it should refuse: pids −5, a NUL in a variable, 2^63−1 bytes.

The server's own validator stands far in front of this one; what arrives here wrong came past it, and must not reach runc.
"""

import re
from typing import Final

from windlass.core.errors import Fault, Invalid
from windlass.core.model.assignment import Assignment
from windlass.core.model.secret import NOTHING_HANDED, Handed

MEMORY_LEAST: Final = 6 << 20
"""What Docker itself insists on."""
MEMORY_MOST: Final = 1 << 50
CPU_MOST_MILLIS: Final = 1_000_000
PIDS_MOST: Final = 1 << 22
"""The kernel's own ceiling."""
TEXT_MOST: Final = 131_072
"""What the kernel takes as one argument or one variable."""

_ID: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{1,127}", re.ASCII)
_DEVICE: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_./:=-]{0,127}", re.ASCII)
_VARIABLE: Final = re.compile(r"[^=\x00-\x1f\x7f]{1,256}")
_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_DOMAIN: Final = r"(?:[a-zA-Z0-9]+(?:[.-]+[a-zA-Z0-9]+)*|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?"
_REFERENCE: Final = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>sha256:[0-9a-f]{{64}}))?",
    re.ASCII,
)


def check_id(text: str, *, field: str) -> None:
    """Ids become names in the engine and parts of its URLs."""
    if not _ID.fullmatch(text):
        raise _invalid([Fault(field, f"{text[:200]!r} cannot name a thing in the engine")])


def parse_image(image: str) -> tuple[str, str]:
    """Name, and tag or digest (`latest` when neither is said). Raises Invalid."""
    found = _REFERENCE.fullmatch(image) if len(image) <= 512 else None
    if found is None:
        raise _invalid([Fault("spec.image", f"{image[:200]!r} is not the name of an image (like `registry/name:tag`)")])
    return found["name"], found["digest"] or found["tag"] or "latest"


def check_image(image: str) -> None:
    parse_image(image)


def check_command(command: tuple[str, ...]) -> None:
    _refuse(list(_command_faults(command)))


def check_assignment(assignment: Assignment, handed: Handed = NOTHING_HANDED) -> None:
    check_id(assignment.run, field="run")
    check_id(assignment.volume, field="volume")
    check_image(assignment.spec.image)
    spec, needs = assignment.spec, assignment.spec.needs
    faults = [
        *_number("spec.resources.memory", needs.memory_bytes, MEMORY_LEAST, MEMORY_MOST),
        *_number("spec.resources.cpu", needs.cpu_millis, 0, CPU_MOST_MILLIS),
        *_number("spec.pidsMax", spec.pids_max, 1, PIDS_MOST),
        *_command_faults(spec.command),
    ]
    for name, value in (*spec.env, *handed.variables):
        if not _VARIABLE.fullmatch(name):
            faults.append(Fault("spec.env", f"{name[:200]!r} cannot name a variable"))
        elif not _is_word(value):
            faults.append(Fault(f"spec.env.{name}", "a value is text without NUL, below 128 KiB"))
    if spec.workdir and not _is_plain_path(spec.workdir):
        faults.append(Fault("spec.workdir", f"{spec.workdir[:200]!r} is not an absolute path of the container"))
    faults += [
        Fault("gpu_ids", f"{d[:200]!r} is not a device id") for d in assignment.gpu_ids if not _DEVICE.fullmatch(d)
    ]
    _refuse(faults)


def _command_faults(command: tuple[str, ...]) -> list[Fault]:
    if not all(map(_is_word, command)) or (command and not command[0]):
        return [Fault("spec.command", "words are text without NUL, below 128 KiB, and the first is not empty")]
    return []


def _is_word(text: str) -> bool:
    """Can be handed to a process: lone surrogates cannot, nor what is longer than the kernel takes."""
    try:
        return "\0" not in text and len(text.encode()) < TEXT_MOST
    except UnicodeEncodeError:
        return False


def _number(field: str, value: int, least: int, most: int) -> list[Fault]:
    return [] if least <= value <= most else [Fault(field, f"{value} is not between {least} and {most}")]


def _is_plain_path(path: str) -> bool:
    """Absolute, and not through /proc: runc has been led out of containers that way."""
    parts = path.split("/")
    return path.startswith("/") and "\0" not in path and ".." not in parts and parts[1] != "proc" and len(path) < 4096


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise _invalid(faults)


def _invalid(faults: list[Fault]) -> Invalid:
    return Invalid(f"this cannot run in a container: {faults[0].message}", code="invalid-container", faults=faults)
