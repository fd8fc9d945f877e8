"""What really happened, by the engine's own record: starts per run, who was alive when."""

from collections import Counter
from typing import Any

from tests.parts.dockerd import DockerEngine


class Witness:
    def __init__(self, engine: DockerEngine, since: float) -> None:
        self._engine = engine
        self._since = since

    def starts(self) -> Counter[str]:
        """Starts per run, by the label that every container of ours carries."""
        events = self._engine.events(self._since, type=["container"], event=["start"])
        return Counter(run for event in events if (run := _attributes(event).get("windlass.dev/run")))

    def check_no_double_start(self) -> None:
        doubled = {run: count for run, count in self.starts().items() if count > 1}
        assert not doubled, f"started more than once: {doubled}"


def _attributes(event: dict[str, Any]) -> dict[str, str]:
    return dict(event["Actor"]["Attributes"])
