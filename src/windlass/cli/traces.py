"""Trace files on their way into `simulate`: plain or gzipped, from a path or standard input, a line at a time and bounded.

What the lines mean is `core.foresight`'s; nothing here is kept in memory but the line at hand.
"""

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import BinaryIO, Final, cast

from windlass.core.errors import Fault, Invalid, TooLarge
from windlass.core.foresight.eventlog import read_event_log
from windlass.core.foresight.swf import TenantBy, read_swf
from windlass.core.foresight.trace import Trace

LINE_BYTES_MAX: Final = 64 << 10
FILE_BYTES_MAX: Final = 16 << 30
"""Unpacked: a small file may claim to hold anything."""
_GZIP: Final = b"\x1f\x8b"


def read_trace(path: str, *, tenant_by: TenantBy | None = None) -> Trace:
    """`-` is standard input. Which format it is, its first line says. Our own has tenants, and no column to choose."""
    with _opened(path) as file:
        lines = _lines(file)
        first = next(lines, "")
        whole = chain([first], lines)
        if not first.lstrip().startswith("{"):
            return read_swf(whole, tenant_by=tenant_by or TenantBy.USER)
        if tenant_by is not None:
            fault = Fault(
                "--tenant-by", "is for the Standard Workload Format: a record of events names the tenants itself"
            )
            raise Invalid("this trace has no columns to choose from", code="trace", faults=[fault])
        return read_event_log(whole)


def write_lines(path: str, lines: Iterable[str]) -> None:
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield _unpacked(cast(BinaryIO, sys.stdin.buffer))
        return
    with open(path, "rb") as file:
        yield _unpacked(cast(BinaryIO, file))


def _unpacked(file: BinaryIO) -> BinaryIO:
    start: bytes = file.peek(2)[:2]  # type: ignore[attr-defined]  # both are buffered readers
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if start == _GZIP else file


def _lines(file: BinaryIO) -> Iterator[str]:
    read, number = 0, 0
    while True:
        number += 1
        try:
            line = file.readline(LINE_BYTES_MAX)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise _broken(number, f"the compressed file is damaged: {exc}") from exc
        if not line:
            return
        read += len(line)
        if len(line) >= LINE_BYTES_MAX:
            raise _broken(number, f"is longer than {LINE_BYTES_MAX >> 10} KiB")
        if read > FILE_BYTES_MAX:
            raise TooLarge(f"the trace has more than {FILE_BYTES_MAX >> 30} GiB", code="trace", hint="cut it in parts")
        yield line.decode("utf-8", errors="replace")


def _broken(line: int, message: str) -> Invalid:
    return Invalid(
        "this file is not a trace that can be replayed", code="trace", faults=[Fault(f"line {line}", message)]
    )
