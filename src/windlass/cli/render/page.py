"""The page about one job: what it is, how it stands and why, its attempts, what happened, what it said last."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from windlass.cli.plain import clean
from windlass.cli.render import table
from windlass.cli.render.fit import Columns, columns
from windlass.cli.render.values import (
    STATE_COLOUR,
    age,
    clock_time,
    command_line,
    detail,
    first_line,
    memory,
    money,
    name_of,
    ran,
    seconds_of,
    span,
    state_of,
)
from windlass.client.documents import Happening, LogLine, Manifest, Run
from windlass.core.model.exit_code import with_signal

RUNS = columns(
    ("ATTEMPT", "STATE", "NODE", "STARTED", "RAN", "EXIT", "RUN", "REASON"),
    ("NODE", 8),
    "RUN",
    ("REASON", 10),
    "NODE",
    "STARTED",
)
EVENTS = columns(("AT", "WHAT", "NODE", "WHY"), ("NODE", 8), ("WHY", 20), "NODE", ("WHY", 12))
_INDENT = "  "
_OWN_ROW = {"image", "command", "resources", "env", "secretFiles", "suspend"}
_MAX_COST = "maxCost"
_USUAL: dict[str, Any] = {
    "retries": 0,
    "priority": 0,
    "ttlSecondsAfterFinished": 0,
    "pvcTTLSecondsAfterFinished": 3600,
    "lostAfter": 600,
    "graceSeconds": 10,
    "collect": False,
    "pidsLimit": 4096,
    "terminal": False,
    "stdin": False,
    "network": True,
    "pvcSize": "1Gi",
    "onLostNode": "wait",
}
"""What nobody chose is not worth a line; `get -o yaml` has it."""


def job_page(
    job: Manifest,
    happenings: Sequence[Happening],
    tail: Sequence[LogLine],
    *,
    now: float,
    is_coloured: bool,
    width: int | None = None,
) -> list[str]:
    """`width` None means as wide as it takes."""
    pen = _Pen(is_coloured, width)
    parts = [_head(job, now, pen), _fields(_about(job, now), pen)]
    parts.append(pen.titled("Spec", _fields(_spec(job["spec"]), pen)))
    parts.append(pen.titled("Runs", _runs(job, now, pen)))
    parts.append(pen.titled("Events", _events(happenings, now, pen)))
    parts.append(pen.titled("Output", [f"  {clean(line['text'])}" for line in tail]))
    return [line for part in parts if part for line in (*part, "")][:-1]


class _Pen:
    def __init__(self, is_coloured: bool, width: int | None) -> None:
        self.is_coloured = is_coloured
        self._width = width

    def styled(self, text: str, **style: Any) -> str:
        return click.style(text, **style) if self.is_coloured else text

    def titled(self, title: str, lines: list[str]) -> list[str]:
        return [self.styled(title, bold=True), *lines] if lines else []

    def table(self, columns: Columns, rows: Sequence[table.Row]) -> list[str]:
        width = None if self._width is None else self._width - len(_INDENT)
        lines = table.lines(columns, rows, is_coloured=self.is_coloured, width=width)
        return [f"{_INDENT}{line}" for line in lines] if rows else []


def _head(job: Manifest, now: float, pen: _Pen) -> list[str]:
    state, why = state_of(job), detail(job)
    shown = table.pill(state, STATE_COLOUR.get(state), is_coloured=pen.is_coloured)
    lines = [f"{pen.styled(name_of(job), bold=True)}  {shown}{'  ' + clean(why) if why else ''}"]
    message = first_line(job["status"].get("message"))
    if message and message not in why:
        lines.append(f"  {clean(message)}")
    if state == "PENDING":
        lines += [f"  waits: {clean(reason)}" for reason in (job["status"].get("waiting") or [])[1:]]
    return lines


def _about(job: Manifest, now: float) -> Iterable[tuple[str, str]]:
    metadata, status = job["metadata"], job["status"]
    code = status.get("exitCode")
    yield "Kind", job["kind"]
    yield "Uid", metadata.get("uid", "-")
    yield "Labels", _pairs(metadata.get("labels") or {})
    yield "Created", _moment(metadata.get("creationTimestamp"), now)
    yield "Started", _moment(status.get("startedAt"), now)
    yield "Start by", _deadline(status)
    yield "Finished", _moment(status.get("finishedAt"), now)
    yield "Ran", ran(job, now) if status.get("startedAt") else ""
    yield "Node", status.get("node") or ""
    yield "Attempt", f"{status.get('attempt', 0)} of {1 + int(job['spec'].get('retries') or 0)}"
    yield "Exit code", "" if code is None else with_signal(code)
    yield "Reason", status.get("reason") or ""
    yield "Artifacts", status.get("artifactPath") or ""
    yield "Cost", money(status.get("cost")) if status.get("cost") else ""


def _deadline(status: Mapping[str, Any]) -> str:
    sla = status.get("sla") or {}
    return f"{clock_time(sla['dueAt'])}  ({sla['state'] or 'ended before'})" if sla else ""


def _variable(value: Any) -> str:
    """As it is, or where it comes from: a value that is a secret is not here."""
    return f"(secret {value['secret']}, key {value['key']})" if isinstance(value, Mapping) else str(value)


def _spec(spec: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    needs = spec.get("resources") or {}
    yield "Image", spec.get("image") or "none: a plain process"
    yield "Command", command_line(spec)
    yield (
        "Resources",
        f"cpu {needs.get('cpu', '-')}, memory {memory(needs.get('memory', '-'))}, gpu {needs.get('gpu', 0)}",
    )
    yield "Env", "\n".join(f"{key}={_variable(value)}" for key, value in (spec.get("env") or {}).items())
    files = (spec.get("secretFiles") or {}).items()
    yield "Secret files", "\n".join(f"{name}: {_variable(value)}" for name, value in files)
    for key, value in spec.items():
        if key not in _OWN_ROW and value not in (None, "", {}, []) and _USUAL.get(key) != value:
            yield key, money(value) if key == _MAX_COST else _plain(value)


def _runs(job: Manifest, now: float, pen: _Pen) -> list[str]:
    runs = job["status"].get("runs") or []
    rows = [
        (
            str(run.get("attempt", "-")),
            _run_state(run),
            run.get("node") or "-",
            clock_time(run.get("startedAt")),
            _took(run.get("startedAt"), run.get("endedAt"), now),
            "-" if run.get("exitCode") is None else str(run.get("exitCode")),
            run.get("id", "-"),
            run.get("reason") or "",
        )
        for run in runs
    ]
    return pen.table(RUNS, rows)


def _run_state(run: Run) -> table.Cell:
    state = run.get("state", "-")
    return table.Cell(state, "red" if run.get("exitCode") else STATE_COLOUR.get(state), is_pill=True)


def _events(happenings: Sequence[Happening], now: float, pen: _Pen) -> list[str]:
    rows = [
        (
            clock_time(event.get("at")),
            event.get("kind", ""),
            event.get("node") or "",
            _why(event),
        )
        for event in happenings
    ]
    return pen.table(EVENTS, rows)


def _why(event: Happening) -> str:
    reason, message = event.get("reason") or "", first_line(event.get("message"))
    return ": ".join(part for part in (reason, message) if part)


def _fields(pairs: Iterable[tuple[str, str]], pen: _Pen) -> list[str]:
    shown = [(label, value) for label, value in pairs if value]
    width = max((len(label) for label, _ in shown), default=0)
    lines = list[str]()
    for label, value in shown:
        first, *rest = value.splitlines() or [""]
        lines.append(f"  {pen.styled(label.ljust(width), dim=True)}  {clean(first)}")
        lines += [f"  {' ' * width}  {clean(line)}" for line in rest]
    return lines


def _moment(timestamp: str | None, now: float) -> str:
    return f"{clock_time(timestamp)}  ({age(timestamp, now)} ago)" if timestamp else ""


def _took(start: str | None, end: str | None, now: float) -> str:
    began = seconds_of(start)
    if began is None:
        return "-"
    ended = seconds_of(end)
    return span((now if ended is None else ended) - began)


def _pairs(pairs: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in pairs.items())


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return _pairs({str(k): str(v) for k, v in value.items()})
    return str(value).lower() if isinstance(value, bool) else str(value)
