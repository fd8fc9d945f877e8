"""Which columns each list has."""

from collections.abc import Iterable, Sequence

from windlass.cli.render.fit import columns
from windlass.cli.render.table import Cell, Row
from windlass.cli.render.values import (
    STATE_COLOUR,
    age,
    detail,
    memory,
    money,
    name_of,
    ran,
    seconds_of,
    span,
    state_of,
    what,
)
from windlass.client.documents import Document, Login, Manifest, Node, Secret, Volume

JOBS = columns(
    ("NAME", "STATE", "AGE", "RAN", "WHAT", "DETAIL"),
    ("WHAT", 12),
    ("DETAIL", 20),
    "RAN",
    ("NAME", 18),
    ("DETAIL", 12),
    "WHAT",
    "AGE",
    ("NAME", 8),
)
JOBS_WIDE = ("NAME", "STATE", "AGE", "RAN", "ATTEMPT", "NODE", "CPU", "MEMORY", "GPU", "COST", "UID", "WHAT", "DETAIL")
EPHEMERAL = columns(
    ("NAME", "PHASE", "MODEL", "GPU", "AGE", "RAN", "DETAIL"),
    ("MODEL", 10),
    ("DETAIL", 16),
    "GPU",
    ("NAME", 18),
    "MODEL",
    "RAN",
    ("DETAIL", 12),
    "AGE",
    ("NAME", 8),
)
EPHEMERAL_WIDE = ("NAME", "PHASE", "MODEL", "GPU", "AGE", "RAN", "NODE", "POD", "ARTIFACTS", "IMAGE", "DETAIL")
NODES = columns(
    ("NAME", "STATE", "POOL", "RUNTIME", "RUNS", "CPU FREE", "MEMORY FREE", "GPU FREE"),
    ("RUNTIME", 9),
    ("POOL", 8),
    ("NAME", 16),
    "RUNTIME",
    "GPU FREE",
    "POOL",
    ("NAME", 8),
    "RUNS",
)
VOLUMES = columns(
    ("NAME", "STATE", "JOB", "NODE", "EXPIRES IN"), ("NODE", 8), ("JOB", 8), "JOB", ("NAME", 20), "NODE", ("NAME", 12)
)
SECRETS = columns(
    ("NAME", "KEYS", "VERSION", "UPDATED", "USED BY"),
    ("USED BY", 12),
    ("KEYS", 10),
    ("NAME", 18),
    "VERSION",
    ("NAME", 10),
    "UPDATED",
)
LOGINS = columns(("REGISTRY", "USERNAME", "UPDATED"), ("USERNAME", 10), ("REGISTRY", 20), "UPDATED", ("REGISTRY", 12))


def state_cell(state: str) -> Cell:
    return Cell(state, STATE_COLOUR.get(state), is_pill=True)


def job_row(job: Manifest, now: float, *, is_wide: bool = False) -> Row:
    created = age(job["metadata"].get("creationTimestamp"), now)
    first: list[Cell | str] = [name_of(job), state_cell(state_of(job)), created, ran(job, now)]
    if is_wide:
        first += _wide_part(job)
    return (*first, what(job), Cell(detail(job), STATE_COLOUR.get(state_of(job))))


def job_rows(jobs: Iterable[Manifest], now: float, *, is_wide: bool = False) -> list[Row]:
    return [job_row(job, now, is_wide=is_wide) for job in jobs]


def ephemeral_rows(jobs: Iterable[Manifest], now: float, *, is_wide: bool = False) -> list[Row]:
    return [_ephemeral_row(job, now, is_wide=is_wide) for job in jobs]


def node_rows(nodes: Iterable[Node]) -> list[Row]:
    return [
        (
            node.get("name", "-"),
            state_cell(node.get("state", "-")),
            node.get("pool", "-"),
            node.get("runtime", "-"),
            str(node.get("runs", 0)),
            *(_of(node, key) for key in ("cpu", "memory", "gpu")),
        )
        for node in nodes
    ]


def secret_rows(secrets: Iterable[Secret], now: float) -> list[Row]:
    return [
        (
            secret["name"],
            ", ".join(secret["keys"]),
            str(secret["version"]),
            f"{age(secret['updatedAt'], now)} ago",
            _users(secret),
        )
        for secret in secrets
    ]


def login_rows(logins: Iterable[Login], now: float) -> list[Row]:
    return [(one["registry"], one["username"], f"{age(one['updatedAt'], now)} ago") for one in logins]


def _users(secret: Secret) -> str:
    more = secret["usedByCount"] - len(secret["usedBy"])
    return (", ".join(secret["usedBy"]) or "-") + (f" and {more} more" if more else "")


def volume_rows(volumes: Iterable[Volume], now: float) -> list[Row]:
    return [
        (
            volume.get("name", "-"),
            volume.get("state", "-"),
            volume.get("job") or "-",
            volume.get("node") or "-",
            _until(volume.get("expiresAt"), now),
        )
        for volume in volumes
    ]


def _ephemeral_row(job: Manifest, now: float, *, is_wide: bool) -> Row:
    status, spec = job["status"], job["spec"]
    phase = status.get("phase", "Pending")
    row: list[Cell | str] = [
        name_of(job),
        state_cell(phase),
        spec.get("model") or "-",
        str((spec.get("resources") or {}).get("gpu", 0)),
        age(job["metadata"].get("creationTimestamp"), now),
        ran(job, now),
    ]
    if is_wide:
        row += [
            status.get("node") or "-",
            status.get("podName") or "-",
            status.get("artifactPath") or "-",
            spec.get("image") or "-",
        ]
    return (*row, Cell(detail(job), STATE_COLOUR.get(phase)))


def _wide_part(job: Manifest) -> Sequence[str]:
    needs: Document = job["spec"].get("resources") or {}
    return (
        str(job["status"].get("attempt", 0)),
        job["status"].get("node") or "-",
        str(needs.get("cpu", "-")),
        memory(needs.get("memory", "-")),
        str(needs.get("gpu", 0)),
        money(job["status"].get("cost")),
        job["metadata"].get("uid", "-"),
    )


def _of(node: Node, key: str) -> str:
    shown = memory if key == "memory" else str
    return f"{shown(node.get('free', {}).get(key, '-'))} of {shown(node.get('capacity', {}).get(key, '-'))}"


def _until(timestamp: str | None, now: float) -> str:
    seconds = seconds_of(timestamp)
    if seconds is None:
        return "-"
    return "due" if seconds <= now else span(max(10.0, seconds - now))
