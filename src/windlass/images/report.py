"""What a run did, as data: the summary, `--json`, the logs and the exit code are all made from it."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from windlass.core.distribution import Comparison, Want
from windlass.images.errors import ImageSyncError

EXIT_OK: Final = 0
EXIT_COULD_NOT_RUN: Final = 1
EXIT_INCOMPLETE: Final = 3


class Outcome(StrEnum):
    SUCCESS = "SUCCESS"
    TIMEOUT = "TIMEOUT"
    FAILED = "FAILED"


class Result(Struct, frozen=True, kw_only=True):
    """One name on one node: how getting it ended."""

    node: str
    name: str
    outcome: Outcome
    reason: str = ""
    """Why not: `EXIT n` of the pull, or DISK, SSH, NODE (nonsense from it), VERIFY, MOVED, PEER."""
    detail: str = ""
    via: str = "registry"
    """Where it came from: the registry, or the node that sent it."""
    seconds: float = 0.0
    moved_bytes: int = 0
    """Bytes that travelled to the node; known for copies, not for pulls."""
    attempts: int = 1

    @property
    def words(self) -> str:
        """As the failed log has it: `TIMEOUT`, `FAILED (EXIT 1)`."""
        return f"{self.outcome} ({self.reason})" if self.outcome is Outcome.FAILED else str(self.outcome)


class Way(Struct, frozen=True, kw_only=True):
    """How a dry run thinks an image would come."""

    via: str
    """`registry` or `peers`."""
    senders: tuple[str, ...] = ()
    """Nodes that could send it; without one, a copy would fail."""


class Traffic:
    """Bytes of node-to-node copies. A sender's count once, however many receive from it."""

    def __init__(self) -> None:
        self._sent: Counter[str] = Counter()
        self._received: Counter[str] = Counter()

    def sent(self, node: str, count: int) -> None:
        self._sent[node] += count

    def received(self, node: str, count: int) -> None:
        self._received[node] += count

    def by_node(self) -> dict[str, dict[str, int]]:
        nodes = sorted({*self._sent, *self._received})
        return {node: {"sent": self._sent[node], "received": self._received[node]} for node in nodes}


class Report(Struct, frozen=True, kw_only=True):
    nodes: Mapping[str, str]
    """Node → runtime, of those that took part."""
    faults: Mapping[str, ImageSyncError]
    refused: Mapping[str, tuple[str, ...]]
    """Node → names in scope that are no references."""
    before: Comparison
    after: Comparison
    wants: tuple[Want, ...]
    results: tuple[Result, ...]
    seconds: float
    traffic: Mapping[str, Mapping[str, int]] = {}
    """Node → bytes sent and received in copies between nodes."""
    order: tuple[str, ...] = ()
    """All nodes, as the settings list them."""
    unmatched: tuple[str, ...] = ()
    """Prefixes that begin no image on any node that answered."""
    is_dry_run: bool = False
    ways: Mapping[tuple[str, str], Way] = {}
    """(node, name) → how it would come; in a dry run alone."""
    withheld_log_lines: int = 0

    @property
    def exit_code(self) -> int:
        """0 only when every node took part and every image in scope is the same on all of them."""
        if self.faults or self.refused:
            return EXIT_INCOMPLETE
        if self.is_dry_run:
            return EXIT_OK
        failed = any(result.outcome is not Outcome.SUCCESS for result in self.results)
        return EXIT_INCOMPLETE if failed or not self.after.is_even else EXIT_OK

    @property
    def is_even(self) -> bool:
        return self.after.is_even and not self.faults

    def counts(self) -> Counter[str]:
        return Counter(str(result.outcome) for result in self.results)

    def as_json(self) -> dict[str, Any]:
        return {
            "exit": self.exit_code,
            "dry_run": self.is_dry_run,
            "seconds": round(self.seconds, 3),
            "nodes": {name: self._node_json(name) for name in self.order},
            "refused_names": {node: list(names) for node, names in self.refused.items()},
            "moved_tags": moved_tags(self.before),
            "unmatched_prefixes": list(self.unmatched),
            "wanted": [self._want_json(want) for want in self.wants],
            "results": [_result_json(result) for result in self.results],
            "even": self.is_even,
            "traffic": {node: dict(counts) for node, counts in self.traffic.items()},
            "images": len(self.after.rows),
            "withheld_log_lines": self.withheld_log_lines,
        }

    def _node_json(self, name: str) -> dict[str, Any]:
        if fault := self.faults.get(name):
            return {"ok": False, "code": fault.code, "error": str(fault)}
        return {"ok": True, "runtime": self.nodes[name]}

    def _want_json(self, want: Want) -> dict[str, Any]:
        shown: dict[str, Any] = {"node": want.node, "image": str(want.name), "size": want.size}
        if way := self.ways.get((want.node, str(want.name))):
            shown |= {"via": way.via, "senders": list(way.senders)}
        return shown


def moved_tags(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "image": str(row.name),
            "versions": [{"id": image_id, "nodes": list(nodes)} for image_id, nodes in row.versions],
        }
        for row in comparison.moved()
    ]


def _result_json(result: Result) -> dict[str, Any]:
    return {
        "node": result.node,
        "image": result.name,
        "outcome": str(result.outcome),
        "reason": result.reason,
        "detail": result.detail,
        "via": result.via,
        "seconds": round(result.seconds, 3),
        "bytes": result.moved_bytes,
        "attempts": result.attempts,
    }
