"""The Standard Workload Format: 18 numbers to a line, -1 for what is not known, comments behind semicolons.

The machine is taken as the format means it: processors are interchangeable, so a partition becomes one pool with one node of all
its processors, unless the caller knows the nodes better. The run time is what was measured, the requested time what was announced.

It knows neither deadlines nor priorities: what we write has them in a comment before a job's line, which others pass over.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from windlass.core.foresight.trace import JOBS_MAX, LineFaults, SimPool, Trace, TracedJob, in_order
from windlass.core.model.bounds import PRIORITY
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.resources import Resources

FIELDS: Final = 18
LINE_MAX: Final = 4_096
_NUMBER: Final = re.compile(r"-?\d{1,15}(\.\d{1,9})?", re.ASCII)
_ANY_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_HEADER: Final = re.compile(r";\s*(MaxProcs|MaxNodes)\s*:\s*([^\s(]*)", re.ASCII)
"""Words may follow the number: the format has the sizes of partitions there, in parentheses."""
_OF_JOB: Final = re.compile(r"; Job (\d{1,15}):(?: dueMs=(\d{1,18}))?(?: priority=(-?\d{1,9}))?", re.ASCII)
_SECONDS_MAX: Final = 100 * 366 * 86_400
_PROCESSORS_MAX: Final = 10_000_000
_DIGITS_MAX: Final = 15
_KIB: Final = 1024
_SUBMIT, _RUN, _PROCS, _MEMORY = 1, 3, 4, 6
_PROCS_ASKED, _TIME_ASKED, _MEMORY_ASKED = 7, 8, 9
_USER, _GROUP, _QUEUE, _PARTITION = 11, 12, 14, 15
_Beside = tuple[int, Millis | None, int]
"""The job's number, its deadline and its priority, out of the comment before its line."""
_NOTHING_BESIDE: Final[_Beside] = (-1, None, 0)
_SHORTEST_MS: Final = 500
"""The format counts whole seconds: 0 is something below one."""


class TenantBy(StrEnum):
    """Which column says who pays."""

    USER = "user"
    GROUP = "group"
    QUEUE = "queue"


_TENANT_COLUMN: Final = {TenantBy.USER: _USER, TenantBy.GROUP: _GROUP, TenantBy.QUEUE: _QUEUE}


def read_swf(lines: Iterable[str], *, tenant_by: TenantBy = TenantBy.USER) -> Trace:
    """Invalid with the line numbers of what is wrong. Lines that end in nothing to run are counted and left out."""
    faults, header = LineFaults(), dict[str, int]()
    jobs: list[TracedJob] = []
    left_out, beside = 0, _NOTHING_BESIDE
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(";"):
            _note_header(text, number, header, faults)
            beside = _beside(text, number, faults)
            continue
        values, (of, due_ms, priority) = _numbers(text, number, faults), beside
        beside = _NOTHING_BESIDE
        if values is None:
            continue
        job = _job(values, _TENANT_COLUMN[tenant_by])
        if job is not None and of == values[0]:
            job = replace(job, due_ms=due_ms, priority=priority)
        if job is None:
            left_out += 1
        elif len(jobs) >= JOBS_MAX:
            faults.add(number, f"more than {JOBS_MAX:,} jobs")
            break
        else:
            jobs.append(job)
    faults.check()
    return Trace(jobs=in_order(jobs), pools=_machine(jobs, header), left_out=left_out)


def write_swf(trace: Trace) -> Iterator[str]:
    """Lines that `read_swf` makes the same jobs of, tenants and pools numbered by their names' order; times in whole seconds."""
    tenants = {tenant: number for number, tenant in enumerate(trace.tenants, start=1)}
    pools = {pool.name: number for number, pool in enumerate(trace.pools, start=1)}
    cores = sum(pool.nodes * pool.each.cpu_millis for pool in trace.pools) // 1000
    yield "; Version: 2.2"
    yield f"; MaxProcs: {min(cores, _PROCESSORS_MAX)}"
    yield f"; MaxJobs: {len(trace.jobs)}"
    for tenant, number in tenants.items():
        yield f"; Note: user {number} is {tenant}"
    for number, job in enumerate(trace.jobs, start=1):
        cpus = max(1, job.needs.cpu_millis // 1000)
        memory = job.needs.memory_bytes // _KIB // cpus or -1
        asked = -1 if job.expected_ms is None else -(-job.expected_ms // 1000)
        partition = pools[job.pools[0]] if job.pools and len(pools) > 1 else -1
        seconds = -(-job.ran_ms // 1000)
        due = f" dueMs={job.due_ms}" if job.due_ms else ""
        priority = f" priority={job.priority}" if job.priority else ""
        if due or priority:
            yield f"; Job {number}:{due}{priority}"
        yield (
            f"{number} {job.at // 1000} -1 {seconds} {cpus} -1 -1 {cpus} {asked} {memory} 1 "
            f"{tenants[job.tenant]} -1 -1 -1 {partition} -1 -1"
        )


def _note_header(text: str, number: int, header: dict[str, int], faults: LineFaults) -> None:
    """The size of the machine. Nothing, -1 and 0 are not known; a number that nobody can mean would replay another machine."""
    matched = _HEADER.match(text[:LINE_MAX])
    word = matched[2].rstrip(",;.") if matched is not None else ""
    if matched is None or word in ("", "-1"):
        return
    if _ANY_NUMBER.fullmatch(word) is None:
        faults.add(number, f"{matched[1]} is not a number: {word[:40]!r}")
    elif not word.isdecimal() or len(word) > _DIGITS_MAX or int(word) > _PROCESSORS_MAX:
        faults.add(number, f"{matched[1]} is not a whole number up to {_PROCESSORS_MAX:,}: {word[:40]!r}")
    else:
        header[matched[1]] = int(word)


def _beside(text: str, number: int, faults: LineFaults) -> _Beside:
    """What a comment says of the job in the next line; nothing, where it is not one of ours."""
    matched = _OF_JOB.fullmatch(text[:LINE_MAX])
    if matched is None:
        return _NOTHING_BESIDE
    due = int(matched[2]) if matched[2] is not None else None
    priority = int(matched[3] or 0)
    if due is not None and not 0 < due <= _SECONDS_MAX * 1000:
        faults.add(number, f"dueMs is not a number of milliseconds that can be meant: {due}")
    if not PRIORITY.holds(priority):
        faults.add(number, f"priority is not between {PRIORITY.least} and {PRIORITY.most}: {priority}")
    return int(matched[1]), Millis(due) if due is not None else None, priority


def _numbers(text: str, number: int, faults: LineFaults) -> list[int] | None:
    """The 18 values, fractions cut off; or the fault noted, and None."""
    if len(text) > LINE_MAX:
        faults.add(number, f"is longer than {LINE_MAX} characters")
        return None
    words = text.split()
    if len(words) != FIELDS:
        faults.add(number, f"expected {FIELDS} numbers, found {len(words)}")
        return None
    wrong = next((at for at, word in enumerate(words, start=1) if _NUMBER.fullmatch(word) is None), None)
    if wrong is not None:
        said = "is out of range" if _ANY_NUMBER.fullmatch(words[wrong - 1]) else "is not a number"
        faults.add(number, f"field {wrong} {said}: {words[wrong - 1][:40]!r}")
        return None
    values = [int(word.partition(".")[0]) for word in words]
    problem = _out_of_bounds(values)
    if problem:
        faults.add(number, problem)
        return None
    return values


def _out_of_bounds(values: list[int]) -> str:
    if not -1 <= values[_SUBMIT] <= _SECONDS_MAX:
        return f"field 2 (submit time): {values[_SUBMIT]} is not a number of seconds that can be meant"
    if values[_RUN] > _SECONDS_MAX or values[_TIME_ASKED] > _SECONDS_MAX:
        return "fields 4 and 9 (run time, requested time): more than a hundred years"
    if max(values[_PROCS], values[_PROCS_ASKED]) > _PROCESSORS_MAX:
        return f"fields 5 and 8 (processors): more than {_PROCESSORS_MAX:,}"
    return ""


def _job(values: list[int], tenant_column: int) -> TracedJob | None:
    processors = values[_PROCS_ASKED] if values[_PROCS_ASKED] > 0 else values[_PROCS]
    if values[_RUN] < 0 or values[_SUBMIT] < 0 or processors <= 0:
        return None
    memory = values[_MEMORY_ASKED] if values[_MEMORY_ASKED] > 0 else max(0, values[_MEMORY])
    who, partition = values[tenant_column], values[_PARTITION]
    return TracedJob(
        Millis(values[_SUBMIT] * 1000),
        TenantId(f"t{who}" if who >= 0 else "unknown"),
        Resources(cpu_millis=processors * 1000, memory_bytes=memory * _KIB * processors),
        Millis(max(values[_RUN] * 1000, _SHORTEST_MS)),
        Millis(values[_TIME_ASKED] * 1000) if values[_TIME_ASKED] > 0 else None,
        pools=(PoolId(f"p{partition}"),) if partition >= 0 else (),
        name=str(values[0]),
    )


def _machine(jobs: list[TracedJob], header: dict[str, int]) -> tuple[SimPool, ...]:
    """One node per partition. The header speaks of the whole machine: several partitions share it by what was asked of them."""
    widest: dict[tuple[PoolId, ...], int] = {}
    memory: dict[tuple[PoolId, ...], int] = {}
    asked: dict[tuple[PoolId, ...], int] = {}
    for job in jobs:
        widest[job.pools] = max(widest.get(job.pools, 0), job.needs.cpu_millis)
        memory[job.pools] = max(memory.get(job.pools, 0), job.needs.memory_bytes // (job.needs.cpu_millis // 1000))
        asked[job.pools] = asked.get(job.pools, 0) + job.needs.cpu_millis * job.ran_ms
    named = sorted(pools for pools in widest if pools) or [(PoolId("all"),)]
    total = (header.get("MaxProcs") or header.get("MaxNodes") or 0) * 1000
    every = sum(asked.values()) or 1
    made = []
    for pools in named:
        share = total if len(named) == 1 else total * asked.get(pools, 0) // every
        cpus = max(share, widest.get(pools, 0), widest.get((), 0), 1000) // 1000
        most = max(memory.get(pools, 0), memory.get((), 0))
        made.append(SimPool(name=pools[0], nodes=1, each=Resources(cpu_millis=cpus * 1000, memory_bytes=most * cpus)))
    return tuple(made)
