"""Between a node's agent and the control plane: sets of assignments down, facts up. In one process or over mTLS alike."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from windlass.core.model.assignment import Assignments
from windlass.core.model.facts import Fact
from windlass.core.model.ids import RunId
from windlass.core.model.node import Node
from windlass.core.model.run import Token
from windlass.core.model.secret import Handed


class Link(Protocol):
    async def join(self, node: Node, *, epoch_seen: int) -> None:
        """Say what this node is and the highest epoch it has obeyed."""
        ...

    def assignments(self) -> AbstractAsyncContextManager[AsyncIterator[Assignments]]:
        """The newest set, again whenever it changes. Sets may be skipped; the last one holds."""
        ...

    async def hand_over(self, run: RunId, token: Token) -> Handed:
        """The secrets and the login of a run that is about to be started. Kept nowhere: whoever must start it asks again.

        SecretMissing when it cannot have them, ever; Unavailable: ask again, unless the next set has it no more.
        """
        ...

    async def report(self, facts: Sequence[Fact]) -> None:
        """Returns when the facts are durable: only then may the node forget them. Unavailable: say it again."""
        ...
