"""Our own past as a trace: the events that `windlass events --all -o json` writes, one JSON document per line.

A job is submitted again when it was accepted (or released, if it was held back), and takes as long as its last run did. Jobs that
never ran, or are not over, are left out. The cluster are the nodes that the log saw joining, each with the size it had at the time.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from windlass.core.foresight.trace import (
    BYTES,
    JOBS_MAX,
    Labels,
    LineFaults,
    Resize,
    SimPool,
    Trace,
    TracedJob,
    in_order,
    with_known_labels,
)
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.resources import Resources

_CPU: Final = re.compile(r"(\d{1,9})(m?)", re.ASCII)
_MEMORY: Final = re.compile(r"(\d{1,18})(Ki|Mi|Gi|Ti)?", re.ASCII)
_UNITS: Final = {**BYTES, "Ki": 1 << 10, "": 1}
_ENDS: Final = frozenset({"Succeeded", "Failed", "TimedOut", "Cancelled"})
_SECONDS_MAX: Final = 100 * 366 * 86_400


class _Resources(Struct):
    cpu: str = "0"
    memory: str = "0"
    gpu: int = 0


class _Asked(Struct, rename="camel"):
    resources: _Resources
    priority: int = 0
    expected_seconds: float | None = None
    sla_seconds: float | None = None
    pools: tuple[str, ...] = ()
    node_selector: dict[str, str] = {}


class _Line(Struct):
    kind: str
    at: str
    job: str = ""
    name: str = ""
    tenant: str = ""
    message: str = ""
    node: str = ""
    pool: str = ""
    asked: _Asked | None = None
    capacity: _Resources | None = None
    labels: dict[str, str] = {}


class _Life:
    """One job, as far as it has been read."""

    __slots__ = ("asked", "began", "came", "ended", "name", "tenant")

    def __init__(self, line: _Line, asked: _Asked, came: int) -> None:
        self.asked = asked
        self.tenant = line.tenant or "unknown"
        self.name = line.name
        self.came = came
        self.began: int | None = None
        self.ended: int | None = None


class _Seat:
    """What one node of a pool was in the course of time: one node that changed, or workers one after the other."""

    __slots__ = ("labels", "node", "sizes")

    def __init__(self, node: str, since: int, has: Resources, labels: Mapping[str, str]) -> None:
        self.labels = labels
        """The node's own."""
        self.node = node
        """Who is on it now; empty: nobody."""
        self.sizes = [(since, has)]

    @property
    def size(self) -> Resources:
        return self.sizes[-1][1]

    def size_at(self, moment: int) -> Resources:
        """Before it was there at all, what it came with."""
        return next((has for since, has in reversed(self.sizes) if since <= moment), self.sizes[0][1])


class _Nodes:
    """Those that were there, by pool: of workers that came and went, as many as there were at once."""

    def __init__(self) -> None:
        self.seats: defaultdict[str, list[_Seat]] = defaultdict(list)
        self.labels: dict[str, Mapping[str, str]] = {}
        """What nodes have by their pool, as it was last."""
        self._on: dict[str, tuple[str, _Seat]] = {}

    def join(self, node: str, pool: str, has: Resources, labels: Mapping[str, str], at: int) -> None:
        """Also of one that is there already: then it has changed, if anything."""
        before, seat = self._on.get(node, ("", None))
        if seat is None or before != pool:
            self.leave(node)
            seat = self._free(pool, has, labels)
            if seat is None:
                seat = _Seat(node, at, has, labels)
                self.seats[pool].append(seat)
            seat.node = node
            self._on[node] = pool, seat
        seat.labels = labels
        if seat.size != has:
            seat.sizes.append((at, has))

    def leave(self, node: str) -> None:
        if node in self._on:
            self._on.pop(node)[1].node = ""

    def _free(self, pool: str, has: Resources, labels: Mapping[str, str]) -> _Seat | None:
        """One of its size, if there is one: then nothing has changed."""
        free = [seat for seat in self.seats[pool] if not seat.node and seat.labels == labels]
        return next((seat for seat in free if seat.size == has), free[0] if free else None)


def read_event_log(lines: Iterable[str]) -> Trace:
    """Invalid with the line numbers of what is wrong. Kinds that are not known are passed over."""
    decoder, faults = msgspec.json.Decoder(_Line), LineFaults()
    lives: dict[str, _Life] = {}
    early: set[str] = set()
    nodes = _Nodes()
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            _take(decoder.decode(text), lives, early, nodes)
        except (msgspec.DecodeError, ValueError) as problem:
            faults.add(number, f"is not one of our events: {str(problem)[:200]}")
        if len(lives) > JOBS_MAX:
            faults.add(number, f"more than {JOBS_MAX:,} jobs")
            break
    faults.check()
    ran = [life for life in lives.values() if life.began is not None and life.ended is not None]
    jobs, begins = [_job(life) for life in ran], min((life.came for life in ran), default=0)
    pools, resizes = _pools(nodes, begins)
    left_out = len(lives) - len(ran)
    return with_known_labels(
        Trace(jobs=in_order(_on(jobs, pools)), pools=tuple(pools), resizes=resizes, left_out=left_out)
    )


def _take(line: _Line, lives: dict[str, _Life], early: set[str], nodes: _Nodes) -> None:
    """`early`: jobs that were told of before they were accepted, which is of before the log begins."""
    at = _millis(line.at)
    if line.capacity is not None:
        nodes.join(line.node, line.pool, _resources(line.capacity), line.labels, at)
    elif line.kind == "NodeRemoved":
        nodes.leave(line.node)
    elif line.kind == "PoolLabelled":
        nodes.labels[line.pool] = line.labels
    if line.kind == "Accepted" and line.asked is not None:
        if line.job in early:
            raise ValueError("the record is out of order: this job was told of before it was accepted")
        _resources(line.asked.resources)  # refused on its own line, if it cannot be meant
        lives[line.job] = _Life(line, line.asked, at)
        return
    life = lives.get(line.job)
    if life is None:
        if line.job:
            early.add(line.job)
        return
    if line.kind == "Released":
        life.came = at
    elif line.kind == "Running":
        life.began = at
    elif line.kind in _ENDS:
        life.ended = at


def _job(life: _Life) -> TracedJob:
    assert life.began is not None
    assert life.ended is not None
    asked = life.asked
    return TracedJob(
        Millis(life.came),
        TenantId(life.tenant),
        _resources(asked.resources),
        Millis(max(1, life.ended - life.began)),
        _span(asked.expected_seconds),
        asked.priority,
        tuple(PoolId(pool) for pool in asked.pools),
        _span(asked.sla_seconds),
        life.name,
        tuple(sorted(asked.node_selector.items())),
    )


def _pools(nodes: _Nodes, begins: int) -> tuple[list[SimPool], tuple[Resize, ...]]:
    """As they were when the first job came, and what changed since.

    Nodes of a pool that differ then become pools of their own, `NAME~2` and so on: a pool of a simulation has equal nodes.
    """
    pools, resizes = list[SimPool](), list[Resize]()
    for name, all_of_it in sorted(nodes.seats.items()):
        alike: defaultdict[tuple[Resources, Labels], list[_Seat]] = defaultdict(list)
        for seat in all_of_it:
            labels = {**nodes.labels.get(name, {}), **seat.labels}
            alike[seat.size_at(begins), tuple(sorted(labels.items()))].append(seat)
        kinds = sorted(alike.items(), key=lambda kind: (-len(kind[1]), str(kind[0])))
        for part, ((each, given), equal) in enumerate(kinds, start=1):
            pool = PoolId(name if part == 1 else f"{name}~{part}")
            pools.append(SimPool(name=pool, nodes=len(equal), each=each, labels=given))
            resizes += [
                Resize(at=Millis(at - begins), pool=pool, number=number, each=has)
                for number, seat in enumerate(equal, start=1)
                for at, has in seat.sizes[1:]
                if at > begins
            ]
    return pools, tuple(sorted(resizes, key=lambda one: one.at))


def _on(jobs: list[TracedJob], pools: list[SimPool]) -> list[TracedJob]:
    """A job that may use a pool may use every part of it."""
    parts: dict[str, list[PoolId]] = {}
    for pool in pools:
        parts.setdefault(pool.name.partition("~")[0], []).append(pool.name)
    return [
        msgspec.structs.replace(job, pools=tuple(part for pool in job.pools for part in parts.get(pool, [pool])))
        if job.pools
        else job
        for job in jobs
    ]


def _millis(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a moment without its time zone")
    return round(moment.timestamp() * 1000)


def _span(seconds: float | None) -> Millis | None:
    if seconds is None:
        return None
    if not 0 < seconds < _SECONDS_MAX:
        raise ValueError("a time that cannot be meant")
    return Millis(round(seconds * 1000))


def _resources(given: _Resources) -> Resources:
    cpu, memory = _CPU.fullmatch(given.cpu), _MEMORY.fullmatch(given.memory)
    if cpu is None or memory is None or not 0 <= given.gpu <= 1_000:
        raise ValueError("resources that cannot be meant")
    return Resources(
        cpu_millis=int(cpu[1]) * (1 if cpu[2] else 1000),
        memory_bytes=int(memory[1]) * _UNITS[memory[2] or ""],
        gpus=given.gpu,
    )
