"""Results for people, as plain aligned text: it reads the same in a terminal, a cron mail and a pager."""

import csv
import io
from collections.abc import Iterable, Sequence

from windlass.core.distribution import CellState, Comparison, Row, Want
from windlass.images.report import Outcome, Report, Result
from windlass.images.status import Status
from windlass.images.text import count, show_size

_FAILURES_SHOWN = 50
_HEADER_MAX = 60
"""Node names that are longer together stand below the matrix, and numbers above it."""
_SIGNS = {CellState.PRESENT: "=", CellState.MISSING: "-", CellState.DIFFERENT: "≠"}


def summary(report: Report) -> str:
    """A line a node, then what went wrong and which tags moved, then the verdict."""
    lines = [
        *_node_table(report),
        *_moved_lines(report.before),
        *_failure_lines(report),
        *unmatched_warnings(report.unmatched),
    ]
    if report.is_dry_run:
        lines += _dry_lines(report)
    elif report.exit_code == 0:
        lines.append(_even(len(report.after.rows), len(report.nodes)))
    else:
        lines.append("not all images are equal on all nodes (exit 3)")
    return "\n".join(lines)


def failures(report: Report) -> str:
    """What went wrong, for whoever sees nothing else of the run."""
    return "\n".join(["image-sync: not all images are equal on all nodes", *_failure_lines(report)])


def unmatched_warnings(unmatched: Iterable[str]) -> list[str]:
    return [f"warning: prefix {prefix}: no image on any node that answered begins so" for prefix in unmatched]


def matrix(status: Status) -> str:
    """Node × image; the size as the runtimes count it. A node that did not answer has its column too."""
    comparison = status.comparison
    is_wide = sum(map(len, status.order)) > _HEADER_MAX
    heads = [str(place) for place, _ in enumerate(status.order, 1)] if is_wide else status.order
    rows: list[Sequence[str]] = [("IMAGE", "SIZE", *heads)]
    rows += [
        (str(row.name), show_size(row.size), *(_sign(row, node) for node in status.order)) for row in comparison.rows
    ]
    lines = [*align(rows), ""]
    if is_wide:
        lines += [f"{head}  {node}" for head, node in zip(heads, status.order, strict=True)]
    lines += ["= present, - missing, ≠ different, ? no answer"]
    lines += [str(fault) for fault in status.faults.values()]
    return "\n".join([*lines, *_moved_lines(comparison), *unmatched_warnings(status.unmatched), _verdict(status)])


def matrix_csv(status: Status) -> str:
    """A line for each image on each node. Where no node has any image in scope, one that did not answer has a line still."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("image", "node", "state", "size", "id"))
    for row in status.comparison.rows:
        for node in status.order:
            cell = row.cells.get(node)
            image = cell.image if cell else None
            state = cell.state if cell else status.state_of(node)
            writer.writerow((row.name, node, state, image.size if image else 0, image.id if image else ""))
    if not status.comparison.rows:
        writer.writerows(("", node, status.state_of(node), 0, "") for node in status.faults)
    return out.getvalue()


def align(rows: Iterable[Sequence[str]]) -> list[str]:
    table = list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _node_table(report: Report) -> list[str]:
    rows: list[Sequence[str]] = [("NODE", "RUNTIME", "WANTED", "SUCCESS", "FAILED", "TIMEOUT", "SENT", "RECEIVED")]
    for node in report.order:
        if node in report.faults:
            rows.append((node, "unusable", *("-" * 6)))
            continue
        ends = [
            sum(result.node == node and result.outcome is outcome for result in report.results)
            for outcome in (Outcome.SUCCESS, Outcome.FAILED, Outcome.TIMEOUT)
        ]
        wanted = sum(want.node == node for want in report.wants)
        moved = report.traffic.get(node, {"sent": 0, "received": 0})
        sizes = show_size(moved["sent"]), show_size(moved["received"])
        rows.append((node, report.nodes[node], str(wanted), *map(str, ends), *sizes))
    return align(rows)


def _dry_lines(report: Report) -> list[str]:
    """What would happen, then each image with its way."""
    sizes = show_size(sum(want.size for want in report.wants))
    ways = [way.via for way in report.ways.values()]
    pulls, copies = ways.count("registry"), ways.count("peers")
    lines = [f"  {want.node}  {want.name}  {_way(report, want)}" for want in report.wants]
    if pulls:
        lines.append(f"dry run, nothing was done: {count(pulls, 'pull')} from the registry, up to {sizes}")
    elif copies:
        copied = f"{copies} {'copy' if copies == 1 else 'copies'}"
        lines.append(f"dry run, nothing was done: {copied} between nodes, up to {sizes}")
    elif report.exit_code == 0:
        lines.append(f"dry run, nothing to do: {_even(len(report.after.rows), len(report.nodes))}")
    else:
        lines.append("dry run, nothing to do on the nodes that answered (exit 3)")
    return lines


def _way(report: Report, want: Want) -> str:
    way = report.ways[want.node, str(want.name)]
    moved = "; the tag moved" if want.has_moved else ""
    if way.via == "registry":
        return f"pull{moved}"
    if way.senders:
        return f"copy from {' or '.join(way.senders[:3])}{moved}"
    return "left alone: the tag moved, --source NODE settles it" if moved else "no node of its platform has it"


def _moved_lines(comparison: Comparison) -> list[str]:
    return [f"moved tag: {row.name}: {_versions(row)}" for row in comparison.moved()]


def _failure_lines(report: Report) -> list[str]:
    lines = [str(fault) for fault in report.faults.values()]
    lines += [f"{node}: refused names: {', '.join(names)}" for node, names in report.refused.items()]
    failed = [result for result in report.results if result.outcome is not Outcome.SUCCESS]
    lines += map(_failure, failed[:_FAILURES_SHOWN])
    if len(failed) > _FAILURES_SHOWN:
        lines.append(f"… and {len(failed) - _FAILURES_SHOWN} more; all are in the failed log and in --json")
    return lines


def _failure(result: Result) -> str:
    return f"{result.node}  {result.name} - {result.words}  {result.detail}".rstrip()


def _sign(row: Row, node: str) -> str:
    cell = row.cells.get(node)
    return _SIGNS[cell.state] if cell else "?"


def _verdict(status: Status) -> str:
    rows, silent = status.comparison.rows, [node for node in status.order if node in status.faults]
    uneven = sum(not row.is_even for row in rows)
    answered = len(status.order) - len(silent)
    if not silent:
        return f"{uneven} of {count(len(rows), 'image')} not equal" if uneven else _even(len(rows), answered)
    if not answered:
        return "no node answered (exit 3)"
    among = f"among the {count(answered, 'node')} that answered"
    found = f"{uneven} of {count(len(rows), 'image')} not equal" if uneven else f"{count(len(rows), 'image')} equal"
    return f"{found} {among}; not known on {', '.join(silent)} (exit 3)"


def _even(images: int, nodes: int) -> str:
    if not images:
        return f"no images in scope on {count(nodes, 'node')}"
    return f"{count(images, 'image')} equal on {'all ' if nodes > 1 else ''}{count(nodes, 'node')}"


def _versions(row: Row) -> str:
    return "; ".join(f"{image_id[:19]} on {', '.join(nodes)}" for image_id, nodes in row.versions)
