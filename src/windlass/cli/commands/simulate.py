"""`windlass simulate`: the same trace under other rules, side by side. Runs here, in this process; no server is asked."""

import gc
from collections.abc import Sequence
from itertools import combinations
from os.path import realpath
from typing import Final

import click
from click.core import ParameterSource
from msgspec.structs import replace

from windlass.cli.output import can_redraw, note, output_option, say, show_json, show_table, width
from windlass.cli.progress import counted
from windlass.cli.render import figures
from windlass.cli.traces import read_trace, write_lines
from windlass.core.errors import Invalid
from windlass.core.foresight.generate import Making, generate
from windlass.core.foresight.measures import Figures, Report, compare
from windlass.core.foresight.swf import TenantBy, write_swf
from windlass.core.foresight.trace import SimPool, Trace, parse_pool, with_known_labels
from windlass.core.foresight.variant import PLAIN, Variant, parse_variant

_MAKING = Making()
_JOBS_A_NODE = 1_500
_OF_MAKING: Final = ("seed", "tenants", "pools", "nodes", "cores", "load")


@click.command()
@click.argument("trace", required=False, metavar="[TRACE]")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="WORDS",
    help="fifo, wfq or deadlines, and what else is different; again for each. Default: all three, nothing else changed.",
)
@click.option("--generate", "jobs", type=click.IntRange(1), metavar="JOBS", help="Make a trace of so many jobs up.")
@click.option(
    "--seed", type=click.IntRange(0), default=_MAKING.seed, show_default=True, help="The same seed: the same trace."
)
@click.option(
    "--tenants", type=click.IntRange(1), default=_MAKING.tenants, show_default=True, help="Of a made-up trace."
)
@click.option("--pools", type=click.IntRange(1), default=_MAKING.pools, show_default=True, help="Of a made-up trace.")
@click.option(
    "--nodes", type=click.IntRange(1), help="In each of these pools.  [default: as many as leave something to wait for]"
)
@click.option(
    "--cores", type=click.IntRange(1), default=_MAKING.cores, show_default=True, help="Of each of these nodes."
)
@click.option(
    "--load",
    type=click.FloatRange(0.01, 100),
    default=_MAKING.load,
    show_default=True,
    help="Work a made-up trace asks for, as part of what its nodes can do.",
)
@click.option(
    "--pool",
    "pool_words",
    multiple=True,
    metavar="NAME=NODESxCORES",
    help="The cluster, instead of the trace's own; :MEMORY and :GPUS may follow, as in gpu=4x32:128Gi:8.",
)
@click.option(
    "--tenant-by",
    type=click.Choice([one.value for one in TenantBy]),
    default=TenantBy.USER.value,
    show_default=True,
    help="The column of a Standard Workload Format that says who pays.",
)
@click.option("--html", "page", metavar="FILE", help="Write a page with tables and plots as well.")
@click.option("--save", "saved", metavar="FILE", help="Write the trace itself, in the Standard Workload Format.")
@output_option("table", "wide", "json")
def simulate(
    trace: str | None,
    variants: Sequence[str],
    jobs: int | None,
    seed: int,
    tenants: int,
    pools: int,
    nodes: int | None,
    cores: int,
    load: float,
    pool_words: Sequence[str],
    tenant_by: str,
    page: str | None,
    saved: str | None,
    form: str,
) -> None:
    """Replay a TRACE on the real scheduler, on virtual time, under several rules, and compare what comes of it.

    TRACE is a file in the Standard Workload Format or what `windlass events --all --everyone -o json` wrote, plain or
    gzipped, or - for standard input.

    \b
      windlass events --all --everyone -o json > past.jsonl; windlass simulate past.jsonl
      windlass simulate month.swf.gz --variant fifo --variant wfq --html month.html
      windlass simulate --generate 5000 --variant wfq --variant 'fewer=wfq pool.pool-1=12'
      windlass simulate month.swf --variant wfq --variant 'outage=wfq lose=4@2h+30m'
    """
    if jobs is not None and _is_given("tenant_by"):
        raise click.UsageError("--tenant-by: only with a TRACE")
    if (trace is None) == (jobs is None):
        raise click.UsageError("give either a TRACE or --generate JOBS")
    if trace is not None:
        _refuse_making()
    if "-" in (page, saved):
        raise click.UsageError("--html and --save take the name of a file, not -")
    _refuse_nameless(trace, page, saved)
    _refuse_overwriting(trace, page, saved)
    wanted = [parse_variant(text) for text in variants] or list(PLAIN)
    given = [parse_pool(word) for word in pool_words]
    _check_once("variants", [one.name for one in wanted], "name one: NAME=ORDER")
    _check_once("pools", [one.name for one in given], "the nodes of a pool are of one size, so name one differently")
    making = Making(
        jobs=jobs or 1,
        seed=seed,
        tenants=tenants,
        pools=pools,
        nodes=nodes or _enough(jobs or 1, pools),
        cores=cores,
        load=load,
    )
    column = TenantBy(tenant_by) if _is_given("tenant_by") else None
    found = read_trace(trace, tenant_by=column) if trace is not None else generate(making)
    found = _on_pools(found, given)
    if not found.jobs:
        raise Invalid("there is no job in this trace that could be run", code="trace")
    if not found.pools:
        raise Invalid(
            "this trace names no node to run it on",
            code="trace",
            hint="an admin's record has the nodes; or say what the cluster is: --pool NAME=NODESxCORES",
        )
    if saved is not None:
        write_lines(saved, write_swf(found))
        if any(job.labels for job in found.jobs):
            note("the Standard Workload Format knows no node labels: the jobs' are not in that file")
    report = _compared(found, wanted)
    if page is not None:
        from windlass.cli.render.report import report_page

        write_lines(page, [report_page(report)])
        note(f"written: {page}")
    _show(report, form)


def _refuse_making() -> None:
    """Of a trace that is there already nothing is made up: what somebody asked for there would be passed over in silence."""
    named = [f"--{name}" for name in _OF_MAKING if _is_given(name)]
    if named:
        raise click.UsageError(f"{', '.join(named)}: only with --generate; --pool gives a TRACE another cluster")


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _refuse_nameless(trace: str | None, page: str | None, saved: str | None) -> None:
    """A variable that nobody set: told before the replay, and by the option, for there is no name to tell it by."""
    for name, path in (("TRACE", trace), ("--save", saved), ("--html", page)):
        if path == "":
            raise click.UsageError(f"{name} is empty: expected the name of a file")


def _refuse_overwriting(trace: str | None, page: str | None, saved: str | None) -> None:
    """One file cannot be two things; the second would be written over the first, in silence."""
    named = [("TRACE", trace if trace != "-" else None), ("--save", saved), ("--html", page)]
    files = [(name, realpath(path)) for name, path in named if path is not None]
    for (name, path), (other, same) in combinations(files, 2):
        if path == same:
            raise click.UsageError(f"{name} and {other} are one file, {path}: name another")


def _enough(jobs: int, pools: int) -> int:
    """Nodes that a made-up trace of so many jobs keeps busy: on more, nobody waits, and all variants come to the same."""
    return min(max(1, jobs // (_JOBS_A_NODE * pools)), _MAKING.nodes)


def _compared(trace: Trace, variants: Sequence[Variant]) -> Report:
    gc.freeze()  # the trace stays to the end; there is no need to look through it again and again
    with counted("simulating", len(trace.jobs) * len(variants), is_drawn=can_redraw(err=True)) as told:
        return compare(trace, variants, told=lambda done, _: told(done))


def _show(report: Report, form: str) -> None:
    if form == "json":
        show_json(report)
        return
    say(figures.headline(report))
    say("")
    show_table(figures.HEADINGS, figures.rows(report), form)
    say("")
    for line in figures.refusals(report):
        say(line)
    for line in figures.late_losses(report):
        note(line)
    if not any(one.started for one in report.figures):
        note("nothing was started, so there is nothing to compare")
        return
    for line in figures.curves(report, width()):
        say(line)
    if all(_had_no_wait(one) for one in report.figures):
        note(f"nobody waited, so the variants cannot differ; {_tighter()} would tell them apart")
    headings, rows = figures.tenant_table(report)
    if rows:
        say("")
        show_table(headings, rows, form)


def _had_no_wait(one: Figures) -> bool:
    return one.waits is not None and not one.waits.longest_ms and not one.never_started


def _tighter() -> str:
    is_made_up = click.get_current_context().params.get("jobs") is not None
    return "fewer --nodes, or more --load," if is_made_up else "a smaller cluster (--pool)"


def _check_once(what: str, names: Sequence[str], remedy: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise click.UsageError(f"two {what} are called {', '.join(twice)}; {remedy}")


def _on_pools(trace: Trace, pools: Sequence[SimPool]) -> Trace:
    """A pool that the trace has as well keeps its labels."""
    if not pools:
        return trace
    known = {one.name: one.labels for one in trace.pools}
    labelled = tuple(replace(one, labels=known.get(one.name, ())) for one in pools)
    return with_known_labels(replace(trace, pools=labelled, resizes=()))
