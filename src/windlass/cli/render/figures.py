"""A simulation's figures in a terminal: a table of the variants, and their curves drawn in characters."""

from collections.abc import Sequence
from typing import Final

from windlass.cli.render.fit import Columns, columns
from windlass.cli.render.table import Row
from windlass.cli.render.values import span
from windlass.core.foresight.measures import Figures, Report
from windlass.core.foresight.variant import Variant

HEADINGS: Final = columns(
    (
        "VARIANT",
        "STARTED",
        "WAIT P50",
        "P95",
        "P99",
        "UTILISATION",
        "JAIN",
        "MISSED",
        "COST",
        "MAKESPAN",
        "CHANGED",
    ),
    ("CHANGED", 16),
    ("VARIANT", 12),
    "CHANGED",
    "P99",
    "COST",
    "MISSED",
    "MAKESPAN",
)
TENANT_HEADINGS: Final = ("TENANT", "JOBS", "USED")
_STEPS: Final = " ▁▂▃▄▅▆▇█"
CURVE_WIDTH: Final = 60
_UNIT: Final = 1_000_000


def rows(report: Report) -> list[Row]:
    return [_row(figures) for figures in report.figures]


def tenant_table(report: Report) -> tuple[Columns, list[Row]]:
    """Who used most, and how long each waited under every variant."""
    if not report.figures:
        return columns(TENANT_HEADINGS), []
    waited = [f"P95 {figures.variant.name}" for figures in report.figures]
    headings = columns((*TENANT_HEADINGS, *waited), ("TENANT", 12), "USED", *reversed(waited[1:]))
    by_variant = [{one.tenant: one.waits.p95_ms for one in figures.tenants} for figures in report.figures]
    table: list[Row] = []
    for one in report.figures[0].tenants:
        known = (by_tenant.get(one.tenant) for by_tenant in by_variant)
        table.append((one.tenant, f"{one.jobs:,}", money(one.cost_micros), *map(wait, known)))
    return headings, table


def curves(report: Report, room: int | None = None) -> list[str]:
    """Jobs that wait and nodes that work, over time; the same scale for all variants."""
    lines = list[str]()
    most = max((max(figures.waiting, default=0) for figures in report.figures), default=0)
    width = max((len(figures.variant.name) for figures in report.figures), default=0)
    parts = CURVE_WIDTH if room is None else max(1, min(CURVE_WIDTH, room - width - 4))
    lines.append(f"jobs waiting over time (0 … {most:,.0f})")
    for figures in report.figures:
        lines.append(f"  {figures.variant.name:<{width}}  {spark(figures.waiting, most, width=parts)}")
    lines.append("utilisation over time (0 … 100 %)")
    for figures in report.figures:
        lines.append(f"  {figures.variant.name:<{width}}  {spark(figures.busy, 1.0, width=parts)}")
    return lines


def spark(values: Sequence[float], most: float, *, width: int = CURVE_WIDTH) -> str:
    """One character per part, as high as the mean in it; anything above nothing can be seen."""
    if not values or most <= 0:
        return _STEPS[0] * width
    drawn = []
    for at in range(width):
        part = values[at * len(values) // width : max((at + 1) * len(values) // width, at * len(values) // width + 1)]
        mean = sum(part) / len(part)
        step = min(len(_STEPS) - 1, round(mean / most * (len(_STEPS) - 1)))
        drawn.append(_STEPS[max(step, 1 if mean > 0 else 0)])
    return "".join(drawn)


def headline(report: Report) -> str:
    left_out = f", {report.left_out:,} entries left out" if report.left_out else ""
    passed_over = f", node labels of {_many(report.passed_over, 'job')} passed over" if report.passed_over else ""
    return (
        f"{_many(report.jobs, 'job')} of {_many(report.tenants, 'tenant')} over {span(report.span_ms / 1000)}; "
        f"{_many(report.nodes, 'node')} in {_many(report.pools, 'pool')}{left_out}{passed_over}"
    )


def wait(ms: int | None) -> str:
    return "-" if ms is None else "0s" if ms == 0 else span(ms / 1000)


def waits(figures: Figures) -> tuple[str, str, str, str]:
    """Half, 95 and 99 of a hundred, and the longest."""
    known = figures.waits
    if known is None:
        return "-", "-", "-", "-"
    return wait(known.p50_ms), wait(known.p95_ms), wait(known.p99_ms), wait(known.longest_ms)


def refusals(report: Report) -> list[str]:
    """How many each variant refused, and why; those that did alike in one line."""
    alike: dict[str, list[str]] = {}
    for figures in report.figures:
        reasons = dict(figures.refused_for)
        parts = [f"{count:,} {code} ({reasons[code]})" for code, count in figures.refusals]
        if parts:
            words = f"refused {figures.refused:,} of {_many(report.jobs, 'job')}: {'; '.join(parts)}"
            alike.setdefault(words, []).append(figures.variant.name)
    return [f"{', '.join(names)} {words}" for words, names in alike.items()]


def late_losses(report: Report) -> list[str]:
    """Which variants have losses that changed nothing: a moment beyond the end is most often a slip."""
    return [
        f"{one.variant.name}: {one.late_losses} loss{'es' * (one.late_losses != 1)} of nodes after the last end, "
        f"{wait(one.makespan_ms)} in, changed nothing"
        for one in report.figures
        if one.late_losses
    ]


def money(micros: int) -> str:
    """Of a whole trace: to the hundredth, unless that is nearly nothing."""
    if micros >= _UNIT or not micros:
        return f"{micros / _UNIT:,.2f}"
    return f"{micros / _UNIT:.6f}".rstrip("0").ljust(len("0.00"), "0")


def changes(variant: Variant) -> str:
    """What it changes, in the words it was asked for in."""
    words = [f"weight.{who}={weight / 1000:g}" for who, weight in variant.weights]
    for who, limit in variant.limits:
        cpu, memory = limit.cpu_millis, limit.memory_bytes
        words += [f"quota.{who}.cpu={cpu // 1000}"] if cpu is not None else []
        words += [f"quota.{who}.memory={memory >> 20}Mi"] if memory is not None else []
        words += [f"quota.{who}.gpu={limit.gpus}"] if limit.gpus is not None else []
        words += [f"quota.{who}.jobs={limit.jobs}"] if limit.jobs is not None else []
    words += [f"pool.{name}={nodes}" for name, nodes in variant.pools]
    for loss in variant.losses:
        back = f"+{span(loss.lasts / 1000)}" if loss.lasts is not None else ""
        words.append(f"lose={f'{loss.pool}:' if loss.pool else ''}{loss.nodes}@{wait(loss.at)}{back}")
    words += [] if variant.is_backfilling else ["backfill=off"]
    named = [] if variant.name == variant.order.value else [variant.order.value]
    return " ".join([*named, *words])


def started(figures: Figures) -> str:
    odd = [
        f"{count:,} {what}"
        for what, count in (
            ("refused", figures.refused),
            ("never", figures.never_started),
            ("lost", figures.lost_runs),
        )
        if count
    ]
    return f"{figures.started:,}" + (f" ({', '.join(odd)})" if odd else "")


def missed(figures: Figures) -> str:
    return f"{figures.missed:,} of {figures.due:,}" if figures.due else "-"


def jain(figures: Figures) -> str:
    return "-" if figures.jain is None else f"{figures.jain:.3f}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _row(figures: Figures) -> Row:
    return (
        figures.variant.name,
        started(figures),
        *waits(figures)[:3],
        f"{figures.utilisation:.1%}",
        jain(figures),
        missed(figures),
        money(figures.cost_micros),
        span(figures.makespan_ms / 1000),
        changes(figures.variant),
    )
