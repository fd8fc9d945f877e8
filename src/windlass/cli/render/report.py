"""A simulation as one HTML file: everything is in it, nothing is fetched, no script runs. It can be mailed and kept."""

from collections.abc import Sequence
from html import escape
from typing import Final

from windlass import __version__
from windlass.cli.render import figures as said
from windlass.cli.render.charts import COLOURS, bar_chart, line_chart, log_chart
from windlass.cli.render.values import span
from windlass.core.foresight.measures import Figures, Report

_TENANTS_DRAWN: Final = 8
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #667085; --line: #e4e7ec; --card: #fff; --page: #f5f6f8;
  --good: #e7f5ee; --v0: #2563eb; --v1: #d97706; --v2: #059669; --v3: #7c3aed; --v4: #dc2626; --v5: #0891b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --dim: #98a2b3; --line: #2b3240; --card: #171c26;
  --page: #0f131a; --good: #12301f; --v0: #60a5fa; --v1: #fbbf24; --v2: #34d399; --v3: #a78bfa; --v4: #f87171;
  --v5: #22d3ee; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 32px 24px 48px; }
h1 { font-size: 24px; margin: 0 0 4px; letter-spacing: -.01em; }
h2 { font-size: 16px; margin: 32px 0 10px; }
p { margin: 0 0 4px; color: var(--dim); }
.card, figure { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.card { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 9px 14px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-size: 12px; font-weight: 600; color: var(--dim); }
tr:last-child td { border-bottom: 0; }
th:first-child, td:first-child { text-align: left; }
.words { color: var(--dim); font: 12px/1.45 ui-monospace, monospace; white-space: normal; max-width: 260px; margin-left: 18px; }
td.best { background: var(--good); font-weight: 600; }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 8px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 16px; }
figure { margin: 0; padding: 14px 14px 6px; }
figcaption { font-size: 13.5px; font-weight: 600; margin-bottom: 6px; }
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 11.5px; fill: var(--dim); }
svg text.end { text-anchor: end; } svg text.small { font-size: 9.5px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
.legend { display: flex; gap: 20px; flex-wrap: wrap; margin: 0 0 12px; font-size: 13.5px; }
footer { margin-top: 28px; font-size: 12.5px; color: var(--dim); }
"""
_HEADINGS: Final = (
    "variant",
    "started",
    "wait p50",
    "p95",
    "p99",
    "longest",
    "utilisation",
    "Jain index",
    "deadlines missed",
    "cost",
    "makespan",
)


def report_page(report: Report) -> str:
    """The whole document. The same report gives the same bytes: no moment and no machine is named in it."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Windlass simulation</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>The same work, {len(report.figures)} way{'s' * (len(report.figures) != 1)}</h1>"
        f"<p>{escape(said.headline(report))}</p>"
        f"<h2>Figures</h2>{_figures_table(report)}{_refusals(report)}"
        f"<h2>Over time</h2>{_legend(report)}<div class=charts>{''.join(_charts(report))}</div>"
        f"<h2>Tenants that used most</h2>{_tenants(report)}"
        f"<footer>{_FOOT} Windlass {escape(__version__)}.</footer></main></body></html>"
    )


_FOOT: Final = (
    "Waits are from submission to start. Utilisation is core-time held, of what the nodes had until the last end. The Jain index "
    "is taken over tenants that waited all through a hundredth of the time, of what each was given for its weight: 1 is even. "
    "Cost is at list price."
)


def _figures_table(report: Report) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in _HEADINGS)
    best = _best(report.figures)
    rows = "".join(_figures_row(number, one, best) for number, one in enumerate(report.figures))
    return f"<div class=card><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"


def _refusals(report: Report) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in said.refusals(report))


def _figures_row(number: int, one: Figures, best: set[tuple[int, int]]) -> str:
    values = (
        said.started(one),
        *said.waits(one),
        f"{one.utilisation:.1%}",
        said.jain(one),
        said.missed(one),
        said.money(one.cost_micros),
        span(one.makespan_ms / 1000),
    )
    cells = "".join(
        f"<td{' class=best' if (number, column) in best else ''}>{escape(value)}</td>"
        for column, value in enumerate(values)
    )
    changes = said.changes(one.variant)
    below = f"<div class=words>{escape(changes)}</div>" if changes else ""
    return f"<tr><td>{_dot(number)}{escape(one.variant.name)}{below}</td>{cells}</tr>"


def _best(figures: Sequence[Figures]) -> set[tuple[int, int]]:
    """Cells that are better than all others of their column: where all are equal nothing is lit."""
    if not all(one.started for one in figures):
        return set()  # where nothing was started nothing was lost, spent or late either
    waits = [one.waits for one in figures if one.waits is not None]
    columns: dict[int, list[float]] = {
        1: [one.p50_ms for one in waits],
        2: [one.p95_ms for one in waits],
        3: [one.p99_ms for one in waits],
        4: [one.longest_ms for one in waits],
        5: [-one.utilisation for one in figures],
        6: [-(one.jain or 0) for one in figures],
        7: [one.missed for one in figures],
        8: [one.cost_micros for one in figures],
        9: [one.makespan_ms for one in figures],
    }
    return {
        (values.index(min(values)), column)
        for column, values in columns.items()
        if len(values) > 1 and values.count(min(values)) == 1
    }


def _charts(report: Report) -> list[str]:
    figures = report.figures
    longest = max((one.makespan_ms for one in figures), default=0)
    most = max((max(one.waiting, default=0.0) for one in figures), default=0.0)
    waiting = [(one.variant.name, _over(one.waiting, one.makespan_ms, longest)) for one in figures]
    busy = [(one.variant.name, _over(one.busy, one.makespan_ms, longest)) for one in figures]
    waits = [(one.variant.name, [ms / 1000 for ms in one.wait_quantiles_ms]) for one in figures]
    return [
        line_chart(
            "Jobs waiting", waiting, most=most, y_said=lambda n: f"{n:,.0f}", x_ends=_moment, x_most=longest / 1000
        ),
        line_chart("Utilisation", busy, most=1.0, y_said=lambda n: f"{n:.0%}", x_ends=_moment, x_most=longest / 1000),
        log_chart("How long jobs waited: so many per cent waited no longer", waits, y_said=_moment),
        _tenant_chart(report),
    ]


def _over(values: Sequence[float], ends: int, longest: int) -> list[float]:
    """On the time of the longest variant, so that all curves share one axis."""
    if not longest or not ends:
        return list(values)
    points = len(values)
    places = (at * longest // ends for at in range(points))
    return [values[place] if place < points else 0.0 for place in places]


def _tenant_chart(report: Report) -> str:
    names = [one.variant.name for one in report.figures]
    known = [{one.tenant: one.waits.p95_ms / 1000 for one in figures.tenants} for figures in report.figures]
    shown = report.figures[0].tenants[:_TENANTS_DRAWN] if report.figures else ()
    rows = [(one.tenant, [by_tenant.get(one.tenant, 0.0) for by_tenant in known]) for one in shown]
    return bar_chart("Wait of the tenants that used most (p95)", rows, names=names, said=_moment)


def _tenants(report: Report) -> str:
    headings, rows = said.tenant_table(report)
    head = "".join(f"<th>{escape(name.lower())}</th>" for name in headings.headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class=card><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _legend(report: Report) -> str:
    names = (f"<span>{_dot(at)}{escape(one.variant.name)}</span>" for at, one in enumerate(report.figures))
    return f"<div class=legend>{''.join(names)}</div>"


def _dot(number: int) -> str:
    return f'<span class=dot style="background:var(--v{number % COLOURS})"></span>'


def _moment(seconds: float) -> str:
    return "0s" if seconds == 0 else span(seconds) if seconds >= 10 else f"{seconds:g}s"
