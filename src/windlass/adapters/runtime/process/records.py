"""What lies in a node directory, and how it is written. Used by both sides: standard library only.

lock, socket, executor.log      the executor's own
runs/<run>/journal              what is known of it (see `journal`); without one, there is no run
           stop.json            the grace a stop allows; the shim reads it when told to
           stdout, stderr       as the workload wrote them
           terminal             socket of its pseudo-terminal, if it has one
volumes/<volume>/               what the workload sees as its working directory
labels/<volume>.json            whose volume it is
"""

import json
import os
import re

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Run and volume ids become file names: nothing else may pass."""

Record = dict[str, object]


def run_path(root: str, run: str) -> str:
    return f"{root}/runs/{run}"


def write(path: str, record: Record, *, is_durable: bool) -> None:
    """Whole or not at all; after a return with `is_durable`, also across a power cut."""
    temporary = f"{path}.new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, json.dumps(record).encode())
        if is_durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, path)
    if is_durable:
        sync_directory(os.path.dirname(path))


def read(path: str) -> Record | None:
    """None when absent or, after a power cut, not what we wrote."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def number(record: Record, key: str) -> int:
    value = record.get(key)
    return value if isinstance(value, int) else 0


def text(record: Record, key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def texts(record: Record, key: str) -> list[str]:
    value = record.get(key)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def table(record: Record, key: str) -> Record:
    value = record.get(key)
    return value if isinstance(value, dict) else {}
