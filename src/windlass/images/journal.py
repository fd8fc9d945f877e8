"""What a run leaves in its logs (I3): started, what was found, every end, the counts, complete.

`logs` knows files and days; here stands what is said. Each reason for an exit 3 has its line in the failed log: an image
on a node, or `node *` for a node that could not take part at all.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from windlass.core.distribution import Comparison, Inventory, Want
from windlass.images.config import Config
from windlass.images.errors import ImageSyncError
from windlass.images.logs import DayLogs
from windlass.images.report import Outcome, Report, Result
from windlass.images.text import count

_DRY = " (dry run)"


def log_start(logs: DayLogs, config: Config, *, is_dry_run: bool) -> None:
    nodes = count(len(config.nodes), "node")
    dry = _DRY if is_dry_run else ""
    logs.info(f"SYNC STARTED{dry}: {nodes}, prefixes {' '.join(config.prefixes)}", always=True)


def log_inventories(logs: DayLogs, inventories: Mapping[str, Inventory], kinds: Mapping[str, str]) -> None:
    for name, inventory in inventories.items():
        logs.info(f"{name}: {kinds[name]}, {inventory.platform}, {count(len(inventory.images), 'image')}")


def log_refused(logs: DayLogs, refused: Mapping[str, Sequence[str]]) -> None:
    for name, texts in refused.items():
        shown = ", ".join(texts[:5])
        logs.error(f"{name}: {count(len(texts), 'name')} that are no image references were not used: {shown}")


def log_comparison(logs: DayLogs, before: Comparison, wants: Sequence[Want], unmatched: Iterable[str]) -> None:
    for prefix in unmatched:
        logs.warning(f"prefix {prefix}: no image on any node that answered begins so")
    for row in before.moved():
        versions = "; ".join(f"{image_id[:19]} on {', '.join(nodes)}" for image_id, nodes in row.versions)
        logs.warning(f"moved tag {row.name}: {versions}")
    for node in before.nodes:
        logs.info(f"{node}: {count(sum(want.node == node for want in wants), 'image')} to get")


def log_results(
    logs: DayLogs,
    results: Iterable[Result],
    faults: Mapping[str, ImageSyncError],
    refused: Mapping[str, Sequence[str]],
) -> None:
    """Once it is known what is true; the end of a failed first way was noted when the second began."""
    for result in results:
        if result.outcome is Outcome.SUCCESS:
            logs.succeeded(result.node, result.name)
        else:
            logs.failed(result.node, result.name, result.words)
    for node, fault in faults.items():
        logs.failed(node, "*", f"FAILED (NODE {fault.code})")
    for node, texts in refused.items():
        logs.failed(node, "*", f"FAILED (NAMES {len(texts)} refused)")


def log_summary(report: Report, logs: DayLogs) -> None:
    ends = report.counts()
    dry = _DRY if report.is_dry_run else ""
    logs.info(
        f"SUMMARY{dry}: {_ends(ends)}, {count(len(report.faults), 'node')} unusable, "
        f"{count(len(report.after.rows), 'image')} in scope, "
        f"{'equal on all nodes' if report.is_even else 'not equal everywhere'}",
        always=True,
    )
    if logs.withheld:
        logs.warning(f"{count(logs.withheld, 'log line')} found no room and went to stderr", always=True)
    logs.info(f"SYNC COMPLETE{dry}: exit {report.exit_code}, {report.seconds:.1f} s", always=True)


def log_break(logs: DayLogs, results: Sequence[Result], wanted: int) -> str:
    """A run that was broken off: what had ended by then; the nodes were not listed again."""
    ends = Counter(str(result.outcome) for result in results)
    text = f"{_ends(ends)}, {max(0, wanted - len(results))} not finished; the nodes were not listed again"
    logs.info(f"SUMMARY (interrupted): {text}", always=True)
    return text


def _ends(ends: Mapping[str, int]) -> str:
    return f"{ends['SUCCESS']} succeeded, {ends['FAILED']} failed, {ends['TIMEOUT']} timed out"
