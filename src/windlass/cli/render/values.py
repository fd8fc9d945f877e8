"""Times, sizes and states as people read them."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from windlass.client.documents import Manifest
from windlass.core.model.exit_code import with_signal

STATE_COLOUR: Final[Mapping[str, str]] = {
    "PENDING": "yellow",
    "SUSPENDED": "yellow",
    "SCHEDULED": "cyan",
    "STARTING": "cyan",
    "RUNNING": "blue",
    "UNKNOWN": "magenta",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "TIMED_OUT": "red",
    "CANCELLED": "bright_black",
    "EXITED": "green",
    "STOPPED": "bright_black",
    "LOST": "red",
    "REFUSED": "red",
    "Pending": "yellow",
    "Running": "blue",
    "Succeeded": "green",
    "Failed": "red",
    "active": "green",
    "NotReady": "yellow",
    "Inactive": "red",
}
OVER: Final = frozenset({"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"})
SAID_BY_STATE: Final = frozenset({"Cancelled", "DeadlineExceeded"})
_NEAR: Final = {
    "at-risk": "deadline at risk",
    "critical": "deadline critical",
    "missed": "deadline missed",
}
_QUANTITY: Final = re.compile(r"(\d+)(?:([KMGT])i)?", re.ASCII)
_LAST_LINES: Final = re.compile(r";? its last lines:\s*$", re.ASCII)
_BEGINNING: Final = 86_400.0
"""The first day of 1970: a thing that nobody created, such as the tenant `local`, carries the moment zero."""
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def seconds_of(timestamp: str | None) -> float | None:
    """RFC 3339 to seconds since the epoch; None for what is absent or unreadable."""
    if not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def clock_time(timestamp: str | None) -> str:
    """The reader's own wall clock, with the day: `11-15 20:51:07`."""
    seconds = seconds_of(timestamp)
    return "-" if seconds is None else datetime.fromtimestamp(seconds).astimezone().strftime("%m-%d %H:%M:%S")


def span(seconds: float) -> str:
    """Two units at most: `3d4h`, `5m12s`, `0.4s`."""
    if seconds < 0:
        return "0s"
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole, parts = int(seconds), list[str]()
    for size, unit in _UNITS:
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
        if len(parts) == 2:
            break
    return "".join(parts)


def age(timestamp: str | None, now: float) -> str:
    """One unit is enough to know how old a thing is: `5m`."""
    seconds = seconds_of(timestamp)
    if seconds is None or seconds < _BEGINNING:
        return "-"
    whole = max(0, int(now - seconds))
    return next((f"{whole // size}{unit}" for size, unit in _UNITS if whole >= size), "0s")


def ran(job: Manifest, now: float) -> str:
    """How long it ran, or has been running: its runs together, without what was waited between them."""
    status = job["status"]
    start = seconds_of(status.get("startedAt"))
    if start is None:
        return "-"
    over = status.get("ranSeconds")
    if over is not None:
        since = seconds_of(status.get("runStartedAt"))
        return span(over + (now - since if since is not None else 0.0))
    end = seconds_of(status.get("finishedAt"))
    return span((now if end is None else end) - start)


def bytes_of(size: float) -> str:
    if size < 1024:
        return f"{int(size)} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def money(micros: int | None) -> str:
    return "-" if micros is None else f"{micros / 1_000_000:.6f}".rstrip("0").rstrip(".")


def newest(limit: int) -> str:
    return "the newest one is shown" if limit == 1 else f"the newest {limit} are shown"


def name_of(job: Manifest) -> str:
    return job["metadata"].get("name") or job["metadata"].get("uid", "-")


def state_of(job: Manifest) -> str:
    """What the list shows: a job held back by its owner is told apart from one that waits for room."""
    state = job["status"].get("state", "PENDING")
    return "SUSPENDED" if state == "PENDING" and job["spec"].get("suspend") else state


def is_over(job: Manifest) -> bool:
    return job["status"].get("state") in OVER


def command_line(spec: Mapping[str, Any]) -> str:
    from shlex import join

    command = spec.get("command") or []
    return command if isinstance(command, str) else join(str(word) for word in command)


def what(job: Manifest) -> str:
    """The image; a job without one is named by its command."""
    return job["spec"].get("image") or command_line(job["spec"]) or "-"


def memory(quantity: object) -> str:
    """`24684100Ki` as `23.5Gi`; what cannot be read stays as it is."""
    matched = _QUANTITY.fullmatch(str(quantity))
    if matched is None:
        return str(quantity)
    size = float(matched[1]) * 1024 ** (" KMGT".index(matched[2]) if matched[2] else 0)
    for unit in ("", "Ki", "Mi", "Gi"):
        if size < 1024:
            return f"{size:.1f}".removesuffix(".0") + unit
        size /= 1024
    return f"{size:.1f}".removesuffix(".0") + "Ti"


def detail(job: Manifest) -> str:
    """Why it waits, what it is doing, or how it ended: one line."""
    status = job["status"]
    state = state_of(job)
    if state == "SUSPENDED":
        said = first_line(status.get("message")) if status.get("reason") == "Suspended" else ""
        return said or "waits to be released"
    if state == "PENDING":
        sla: Any = status.get("sla") or {}
        near = _NEAR.get(sla.get("state") or "", "")
        why = "; ".join(status.get("waiting") or []) or first_line(status.get("message")) or ""
        return "; ".join(part for part in (near, why) if part)
    if state in {"SCHEDULED", "STARTING"}:
        return status.get("progress") or status.get("reason") or ""
    if state == "RUNNING":
        return status.get("reason") or ""
    if state == "SUCCEEDED":
        return ""
    return _ended_badly(job)


def _ended_badly(job: Manifest) -> str:
    status = job["status"]
    reason, code = status.get("reason") or "", status.get("exitCode")
    if reason in {"ExitCode", "Error", ""} and code is not None:
        return f"exit code {with_signal(code)}"
    message = first_line(status.get("message"))
    if reason in SAID_BY_STATE:
        return message
    return f"{reason}: {message}" if message and reason else reason or message


def first_line(text: str | None) -> str:
    """Of a message that goes on with the end of a log: the log has its own place."""
    return _LAST_LINES.sub("", (text or "").strip().partition("\n")[0])
