"""Results for people, as plain aligned text: it reads the same in a terminal, a cron mail and a pager."""

import csv
import io
from collections.abc import Iterable, Sequence

from windlass.core.distribution import CellState, Comparison, Row
from windlass.images.report import Outcome, Report
from windlass.images.text import show_size

_FAILURES_SHOWN = 50


def summary(report: Report) -> str:
    """A line a node, then what went wrong and which tags moved, then the verdict."""
    lines = [*_node_table(report), *_moved_lines(report.before), *_failure_lines(report)]
    if report.is_dry_run:
        sizes = sum(want.size for want in report.wants)
        lines.append(f"dry run: {len(report.wants)} pulls, up to {show_size(sizes)}; nothing was done")
        lines += [f"  {want.node}  {want.name}{'  (moved tag)' if want.has_moved else ''}" for want in report.wants]
    elif report.exit_code == 0:
        lines.append(f"all {len(report.after.rows)} images are equal on all {len(report.nodes)} nodes")
    else:
        lines.append("not all images are equal on all nodes (exit 3)")
    return "\n".join(lines)


def failures(report: Report) -> str:
    """What went wrong, for whoever sees nothing else of the run."""
    return "\n".join(["image-sync: not all images are equal on all nodes", *_failure_lines(report)])


def _node_table(report: Report) -> list[str]:
    rows: list[Sequence[str]] = [("NODE", "RUNTIME", "WANTED", "SUCCESS", "FAILED", "TIMEOUT", "SENT", "RECEIVED")]
    for node, kind in report.nodes.items():
        counts = [
            sum(result.node == node and result.outcome is outcome for result in report.results)
            for outcome in (Outcome.SUCCESS, Outcome.FAILED, Outcome.TIMEOUT)
        ]
        wanted = sum(want.node == node for want in report.wants)
        moved = report.traffic.get(node, {"sent": 0, "received": 0})
        rows.append(
            (node, kind, str(wanted), *map(str, counts), show_size(moved["sent"]), show_size(moved["received"]))
        )
    rows += [(node, "unusable", *("-" * 6)) for node in report.faults]
    return align(rows)


def _moved_lines(comparison: Comparison) -> list[str]:
    return [f"moved tag: {row.name}: {_versions(row)}" for row in comparison.moved()]


def _failure_lines(report: Report) -> list[str]:
    lines = [str(fault) for fault in report.faults.values()]
    lines += [f"{node}: refused names: {', '.join(names)}" for node, names in report.refused.items()]
    failed = [result for result in report.results if result.outcome is not Outcome.SUCCESS]
    lines += [f"{r.node}  {r.name} - {r.words}  {r.detail}".rstrip() for r in failed[:_FAILURES_SHOWN]]
    if len(failed) > _FAILURES_SHOWN:
        lines.append(f"… and {len(failed) - _FAILURES_SHOWN} more; all are in the failed log and in --json")
    return lines


def matrix(comparison: Comparison) -> str:
    """Node × image: `=` present, `-` missing, `≠` different; the size as the runtimes count it."""
    signs = {CellState.PRESENT: "=", CellState.MISSING: "-", CellState.DIFFERENT: "≠"}
    rows: list[Sequence[str]] = [("IMAGE", "SIZE", *comparison.nodes)]
    for row in comparison.rows:
        cells = (signs[row.cells[node].state] for node in comparison.nodes)
        rows.append((str(row.name), show_size(row.size), *cells))
    uneven = sum(not row.is_even for row in comparison.rows)
    verdict = f"{uneven} of {len(comparison.rows)} images differ" if uneven else f"{len(comparison.rows)} images, equal"
    return "\n".join([*align(rows), *_moved_lines(comparison), f"{verdict}   (= present, - missing, ≠ different)"])


def matrix_csv(comparison: Comparison) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("image", "node", "state", "size", "id"))
    for row in comparison.rows:
        for node in comparison.nodes:
            cell = row.cells[node]
            image = cell.image
            writer.writerow((row.name, node, cell.state, image.size if image else 0, image.id if image else ""))
    return out.getvalue()


def align(rows: Iterable[Sequence[str]]) -> list[str]:
    table = list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _versions(row: Row) -> str:
    return "; ".join(f"{image_id[:19]} on {', '.join(nodes)}" for image_id, nodes in row.versions)
