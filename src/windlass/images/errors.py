"""How image-sync says no: what happened, where, what was expected, what to do next, each under a stable code."""

from collections.abc import Sequence


class ImageSyncError(Exception):
    """The run cannot go on (exit 1)."""

    def __init__(self, code: str, what: str, *, where: str = "", expected: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.where = where
        self.expected = expected
        self.next_step = next_step

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        expected = f"; expected {self.expected}" if self.expected else ""
        step = f". {self.next_step}" if self.next_step else ""
        return f"{place}{self.what}{expected}{step} [{self.code}]"


class Mistakes(ImageSyncError):
    """Several at once, each named; the code is the first one's."""

    def __init__(self, errors: Sequence[ImageSyncError]) -> None:
        super().__init__(errors[0].code, f"{len(errors)} mistakes in the settings", where=errors[0].where)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n  ".join((f"{self.what}:", *map(str, self.errors)))


class NodeError(ImageSyncError):
    """One node cannot take part; the others go on (exit 3)."""


class OutputRefused(NodeError):
    """A node's output was too long, not JSON, or not what its runtime prints. It is never used."""
