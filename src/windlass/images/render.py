"""Results for people, as plain aligned text: it reads the same in a terminal, a cron mail and a pager."""

import csv
import io
from collections.abc import Container, Iterable, Sequence

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
    lines += _copied_lines(report)
    return "\n".join([*lines, *(_dry_lines(report) if report.is_dry_run else [_ending(report)])])


def failures(report: Report) -> str:
    """What went wrong, for whoever sees nothing else of the run."""
    return "\n".join([f"image-sync: {_ending(report)}", *_failure_lines(report)])


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
    return "\n".join([*lines, *_moved_lines(comparison), *unmatched_warnings(status.unmatched), _standing(status)])


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
    if not table:
        return []
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _node_table(report: Report) -> list[str]:
    """Only columns that can say something: a dry run has no ends, and without copies no bytes are known."""
    ends = () if report.is_dry_run else (Outcome.SUCCESS, Outcome.FAILED, Outcome.TIMEOUT)
    moved = ("sent", "received") if report.traffic else ()
    heads = ("NODE", "RUNTIME", "WANTED", *map(str, ends), *(name.upper() for name in moved))
    rows: list[Sequence[str]] = [heads]
    for node in report.order:
        if node in report.faults:
            rows.append((node, "unusable", *("-" * (len(heads) - 2))))
            continue
        counts = [sum(want.node == node for want in report.wants)]
        counts += [sum(r.node == node and r.outcome is outcome for r in report.results) for outcome in ends]
        sizes = (show_size(report.traffic.get(node, {}).get(name, 0)) for name in moved)
        rows.append((node, report.nodes[node], *map(str, counts), *sizes))
    return align(rows)


def _dry_lines(report: Report) -> list[str]:
    """Each image with its way, by node; then the sum."""
    places = {name: place for place, name in enumerate(report.order)}
    wants = sorted(report.wants, key=lambda want: places[want.node])
    lines = align((want.node, str(want.name), show_size(want.size), _way(report, want)) for want in wants)
    ways = [way.via for way in report.ways.values()]
    pulls, copies = ways.count("registry"), ways.count("peers")
    sizes = show_size(sum(want.size for want in wants))
    if pulls:
        said = f"nothing was done: {count(pulls, 'pull')} from the registry, up to {sizes}"
    elif copies:
        said = f"nothing was done: {copies} {'copy' if copies == 1 else 'copies'} between nodes, up to {sizes}"
    else:
        said = f"nothing to do: {_even(len(report.after.rows), len(report.nodes))}"
    return [*lines, f"dry run, {said}{_silent(report)}"]


def _silent(report: Report) -> str:
    if report.exit_code == 0:
        return ""
    return f"; not known on {', '.join(report.faults)} (exit 3)" if report.faults else " (exit 3)"


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


def _copied_lines(report: Report) -> list[str]:
    copied = sum(r.outcome is Outcome.SUCCESS and r.via != "registry" for r in report.results)
    return [f"{count(copied, 'image')} came from other nodes, not from the registry"] if copied else []


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


def _ending(report: Report) -> str:
    """The verdict over a run, with its exit code when that is not 0."""
    said = _verdict(report.after, report.order, report.faults)
    if report.exit_code == 0:
        return said
    failed = len(report.results) - report.counts()["SUCCESS"]
    return f"{said}{f'; {failed} failed' if failed else ''} (exit {report.exit_code})"


def _standing(status: Status) -> str:
    said = _verdict(status.comparison, status.order, status.faults)
    return f"{said} (exit 3)" if status.faults else said


def _verdict(comparison: Comparison, order: Sequence[str], faults: Container[str]) -> str:
    """What is known, and of whom nothing is: equal among those that answered is not equal."""
    images = len(comparison.rows)
    silent = [node for node in order if node in faults]
    answered = len(comparison.nodes)
    uneven = sum(not row.is_even for row in comparison.rows)
    if silent and not answered:
        return "no node could take part"
    if silent:
        among = f"among the {count(answered, 'node')} that could take part"
        found = f"{uneven} of {count(images, 'image')} not equal" if uneven else f"{count(images, 'image')} equal"
        return f"{found} {among}; not known on {', '.join(silent)}"
    return f"{uneven} of {count(images, 'image')} not equal" if uneven else _even(images, answered)


def _even(images: int, nodes: int) -> str:
    if not images:
        return f"no images in scope on {count(nodes, 'node')}"
    return f"{count(images, 'image')} equal on {'all ' if nodes > 1 else ''}{count(nodes, 'node')}"


def _versions(row: Row) -> str:
    return "; ".join(f"{image_id[:19]} on {', '.join(nodes)}" for image_id, nodes in row.versions)
