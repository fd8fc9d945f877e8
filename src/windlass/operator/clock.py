"""The time that times-to-live are judged by: service time, and never ahead of the API server's.

While the operator runs, a jump of the wall clock does not move it. Where it starts anew on a machine whose clock is wrong, the
API server says so: of two clocks the earlier one is believed, because what is deleted late harms nobody.
"""

from collections.abc import Callable
from typing import Final

import structlog

from windlass.core.model.ids import Millis

AHEAD_MS: Final = 5_000
"""The API server tells its time to the second, and an answer takes a while."""

log = structlog.get_logger(__name__)


class ClusterClock:
    def __init__(self, service: Callable[[], Millis]) -> None:
        self._service = service
        self._ahead_ms = 0

    def now(self) -> Millis:
        return Millis(self._service() - self._ahead_ms)

    def compare(self, served: Millis) -> None:
        """With the API server's time, before anything is judged."""
        ahead = self._service() - served
        if ahead > AHEAD_MS:
            self._ahead_ms = ahead
            log.warning("clock ahead of the API server's", seconds=ahead // 1000, hint="its time is taken instead")
