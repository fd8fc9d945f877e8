"""What a trace file may look like, what is refused with its line, and that a seed is a promise."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from windlass.cli.traces import LINE_BYTES_MAX, read_trace
from windlass.core.errors import Invalid
from windlass.core.foresight.generate import Making, generate
from windlass.core.foresight.swf import TenantBy, read_swf, write_swf
from windlass.core.foresight.trace import TracedJob, parse_pool
from windlass.core.foresight.variant import Limit, Loss, Order, parse_variant
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.resources import Resources

KIB = 1024
HEADER = ["; Computer: test", ";   MaxProcs:  64", "", ";Note: -1 is unknown"]


def swf(
    *,
    number: int = 1,
    submit: object = 0,
    run: object = 60,
    used: int = 2,
    asked: int = -1,
    time: int = -1,
    memory: int = -1,
    user: int = 3,
    group: int = 7,
    queue: int = 1,
    partition: int = -1,
) -> str:
    return (
        f"{number} {submit} 5 {run} {used} -1 -1 {asked} {time} {memory} 1 {user} {group} -1 {queue} {partition} -1 -1"
    )


def test_a_line_becomes_a_job_and_minus_one_is_not_known() -> None:
    full = swf(submit=100, run=60, used=2, asked=4, time=3600, memory=512, partition=2)
    bare = swf(number=2, submit=160, used=8, user=-1)
    trace = read_swf([*HEADER, full, bare])
    assert trace.jobs == (
        TracedJob(
            Millis(0),
            TenantId("t3"),
            Resources(cpu_millis=4000, memory_bytes=4 * 512 * KIB),
            Millis(60_000),
            Millis(3_600_000),
            pools=(PoolId("p2"),),
            name="1",
        ),
        TracedJob(Millis(60_000), TenantId("unknown"), Resources(cpu_millis=8000), Millis(60_000), name="2"),
    )
    assert [(pool.name, pool.nodes, pool.each.cpu_millis) for pool in trace.pools] == [("p2", 1, 64_000)]


def test_who_pays_is_the_column_that_was_asked_for() -> None:
    names = {by: read_swf([swf()], tenant_by=by).jobs[0].tenant for by in TenantBy}
    assert names == {TenantBy.USER: "t3", TenantBy.GROUP: "t7", TenantBy.QUEUE: "t1"}


def test_entries_that_never_ran_are_left_out_and_counted() -> None:
    trace = read_swf([swf(run=-1), swf(used=-1), swf(submit=-1), swf(run=0)])
    assert (len(trace.jobs), trace.left_out) == (1, 3)
    assert trace.jobs[0].ran_ms == 500


def test_lines_out_of_order_are_put_in_order() -> None:
    trace = read_swf([swf(number=1, submit=50), swf(number=2, submit=10)])
    assert [(job.name, job.at) for job in trace.jobs] == [("2", 0), ("1", 40_000)]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("1 2 3", "found 3"),
        (swf() + " 9", "found 19"),
        (swf(submit="soon"), "field 2"),
        (swf(run="1e9"), "field 4"),
        (swf(run="NaN"), "field 4"),
        (swf(run="9" * 30), "field 4 is out of range"),
        (swf(run="٣"), "field 4"),  # a digit, but not one of ours
        (swf(submit=10**12), "submit time"),
        (swf(run=10**12), "hundred years"),
        (swf(used=10**9), "processors"),
        ("9" * 5000, "longer than"),
        ("\x00" * 18, "found 1"),
    ],
)
def test_a_line_that_cannot_be_meant_is_refused_with_its_number(line: str, word: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_swf([*HEADER, swf(), line, swf()])
    (fault,) = refused.value.faults
    assert fault.field == "line 6"
    assert word in fault.message


@pytest.mark.parametrize("name", ["MaxProcs", "MaxNodes"])
@pytest.mark.parametrize("value", ["x", "-4", "99999999999999", "9" * 3000, "10000001", "64.5", "2,048", "0x40", "٣"])
def test_a_machine_that_cannot_be_meant_is_refused_with_its_line(name: str, value: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_swf(["; Computer: test", f"; {name}: {value}", swf()])
    (fault,) = refused.value.faults
    assert fault.field == "line 2"
    assert fault.message.startswith(f"{name} is not a ")
    assert repr(value[:40]) in fault.message


@pytest.mark.parametrize(
    ("value", "cores"),
    [("128", 128), ("128 (64 and 64)", 128), ("128(2x64)", 128), ("128;", 128), ("-1", 2), ("0", 2), ("", 2)],
)
def test_words_may_follow_the_size_of_a_machine_and_it_may_be_unknown(value: str, cores: int) -> None:
    trace = read_swf([f"; MaxProcs: {value}", "; Note: MaxProcs: x", swf(used=2)])
    assert [pool.each.cpu_millis for pool in trace.pools] == [cores * 1000]


def test_a_machine_of_more_processors_than_are_read_is_written_as_one_that_is() -> None:
    vast = replace(read_swf([swf()]), pools=(parse_pool("vast=100000x1000"),))
    assert read_swf(write_swf(vast)).pools[0].each.cpu_millis == 10_000_000_000


def test_a_file_that_is_all_wrong_is_given_up_after_ten_faults() -> None:
    with pytest.raises(Invalid) as refused:
        read_swf("hello" for _ in range(10**9))
    assert len(refused.value.faults) == 10


def test_a_gzipped_file_and_a_plain_one_are_the_same(tmp_path: Path) -> None:
    text = "\n".join([*HEADER, swf(), swf(number=2, submit=9)])
    (tmp_path / "a.swf").write_text(text)
    (tmp_path / "a.swf.gz").write_bytes(gzip.compress(text.encode()))
    plain = read_trace(str(tmp_path / "a.swf"), tenant_by=TenantBy.USER)
    assert plain == read_trace(str(tmp_path / "a.swf.gz"), tenant_by=TenantBy.USER)
    assert len(plain.jobs) == 2


@pytest.mark.parametrize("what", ["cut", "damaged", "one endless line"])
def test_a_damaged_file_is_refused_with_a_line(tmp_path: Path, what: str) -> None:
    packed = gzip.compress("\n".join(swf(number=n) for n in range(2000)).encode())
    content = {
        "cut": packed[:-200],
        "damaged": packed[:40] + b"\xff" * 40 + packed[80:],
        "one endless line": gzip.compress(b"1 " * LINE_BYTES_MAX),
    }[what]
    (tmp_path / "bad.gz").write_bytes(content)
    with pytest.raises(Invalid) as refused:
        read_trace(str(tmp_path / "bad.gz"), tenant_by=TenantBy.USER)
    assert refused.value.faults[0].field.startswith("line ")


def test_a_trace_that_was_written_is_read_back_with_the_same_jobs() -> None:
    made = generate(Making(jobs=300, tenants=5, pools=2))
    back = read_swf(write_swf(made))

    def told(job: TracedJob) -> tuple[int, int, int, int | None]:
        return job.at, job.needs.cpu_millis, job.ran_ms, job.expected_ms

    assert [told(job) for job in back.jobs] == [told(job) for job in made.jobs]
    assert [job.tenant[1:] for job in back.jobs] == [job.tenant.rpartition("-")[2] for job in made.jobs]


def test_deadlines_and_priorities_are_written_and_read_back() -> None:
    made = generate(Making(jobs=300, tenants=5))
    jobs = tuple(replace(job, priority=at % 3 - 1) for at, job in enumerate(made.jobs))
    back = read_swf(write_swf(replace(made, jobs=jobs)))
    assert any(job.due_ms for job in jobs)
    assert [(job.due_ms, job.priority) for job in back.jobs] == [(job.due_ms, job.priority) for job in jobs]


def test_what_a_comment_says_of_a_job_is_of_the_next_line_only() -> None:
    said = ["; Job 1: dueMs=60000 priority=2", swf(), swf(), "; Job 9: dueMs=60000", swf(number=2), "; Job 3: hello"]
    trace = read_swf([*said, swf(number=3)])
    assert [(job.due_ms, job.priority) for job in trace.jobs] == [(60_000, 2), (None, 0), (None, 0), (None, 0)]


@pytest.mark.parametrize("word", ["dueMs=0", "dueMs=9999999999999999", "priority=99999999", "priority=-99999999"])
def test_a_deadline_or_priority_that_cannot_be_meant_is_refused_with_its_line(word: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_swf([swf(), f"; Job 2: {word}", swf(number=2)])
    (fault,) = refused.value.faults
    assert (fault.field, word.partition("=")[0] in fault.message) == ("line 2", True)


def test_a_made_up_trace_has_the_shape_of_published_ones() -> None:
    trace = generate(Making(jobs=20_000, tenants=50, nodes=8))
    spans = sorted(job.ran_ms for job in trace.jobs)
    longest_tenth = sum(spans[-len(spans) // 10 :])
    assert longest_tenth > 0.5 * sum(spans)  # heavy-tailed
    by_tenant = sorted((sum(job.tenant == tenant for job in trace.jobs) for tenant in trace.tenants), reverse=True)
    assert sum(by_tenant[:5]) > 0.4 * len(trace.jobs)  # few bring most
    hours = [0] * 24
    for job in trace.jobs:
        hours[job.at // 3_600_000 % 24] += 1
    assert max(hours) > 2 * min(hours)  # day and night
    gaps = [later.at - job.at for job, later in zip(trace.jobs, trace.jobs[1:], strict=False)]
    mean = sum(gaps) / len(gaps)
    assert (
        sum((gap - mean) ** 2 for gap in gaps) / len(gaps) > 1.5 * mean**2
    )  # bursts: more uneven than by chance alone


def test_a_seed_is_a_promise_to_the_byte_in_any_process() -> None:
    start = [sys.executable, "-c", "from windlass.boot.entry import windlass; windlass()", "simulate"]
    command = [*start, "--generate", "400", "--seed", "11", "-o", "json"]
    words = ["--variant", "fifo", "--variant", "wfq lose=4@20m+5m", "--pools", "3", "--nodes", "2", "--load", "2"]
    outputs = [
        subprocess.run(
            [*command, *words], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert b'"jain"' in outputs[0]


def test_a_variant_is_read_from_one_line() -> None:
    variant = parse_variant(
        "big=fifo weight.*=2 weight.acme=0.5 quota.beta.cpu=16 quota.beta.memory=4Gi pool.p=9 lose=p:2@1h+30m"
    )
    assert (variant.name, variant.order) == ("big", Order.FIFO)
    assert (variant.weight(TenantId("acme")), variant.weight(TenantId("other"))) == (500, 2000)
    assert variant.limit(TenantId("beta")) == Limit(cpu_millis=16_000, memory_bytes=4 << 30)
    assert variant.pools == ((PoolId("p"), 9),)
    assert variant.losses == (Loss(pool=PoolId("p"), nodes=2, at=Millis(3_600_000), lasts=Millis(1_800_000)),)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "lifo",
        "wfq weight.a=11",
        "wfq weight.a",
        "wfq quota.a.disk=3",
        "wfq pool.p=many",
        "wfq lose=2",
        "a b=wfq",
        "wfq lose=0@1h",
        "wfq backfill=off backfill=on",
        "wfq pool.x=1 pool.x=2",
        "wfq quota.a.cpu=1 quota.a.cpu=1",
    ],
)
def test_a_variant_that_cannot_be_meant_is_refused(words: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_variant(words)
    assert refused.value.code == "variant"
    assert refused.value.faults


def test_a_pool_is_read_from_a_word() -> None:
    pool = parse_pool("gpu=4x32:128Gi:8")
    assert (pool.name, pool.nodes, pool.each) == (
        "gpu",
        4,
        Resources(cpu_millis=32_000, memory_bytes=128 << 30, gpus=8),
    )
    with pytest.raises(Invalid):
        parse_pool("gpu=4")
