"""The control plane's end of a node's link: facts go into the World and are acknowledged when durable; sets come out."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from windlass.control.brain import Brain
from windlass.control.dispatch import Dispatch
from windlass.control.secrets import Secrets
from windlass.core.model.assignment import Assignments
from windlass.core.model.facts import Fact
from windlass.core.model.ids import Millis, NodeId, RunId
from windlass.core.model.node import Node
from windlass.core.model.run import Token
from windlass.core.model.secret import Handed
from windlass.core.world.facts import observe
from windlass.core.world.workers import join_node


class NodeLink:
    """`ports.link.Link` for an agent in this process."""

    def __init__(self, brain: Brain, dispatch: Dispatch, secrets: Secrets, node: NodeId) -> None:
        self._brain = brain
        self._dispatch = dispatch
        self._secrets = secrets
        self._node = node

    async def join(self, node: Node, *, epoch_seen: int) -> None:
        await self._brain.decide(lambda now: join_node(self._brain.world, node, now=now))

    def assignments(self) -> AbstractAsyncContextManager[AsyncIterator[Assignments]]:
        return self._dispatch.assignments(self._node)

    async def hand_over(self, run: RunId, token: Token) -> Handed:
        return await self._secrets.hand_over(self._node, run, token)

    async def report(self, facts: Sequence[Fact]) -> None:
        """Facts of one report share a commit; the node may forget them when this returns."""

        def verb(now: Millis) -> None:
            for fact in facts:
                observe(self._brain.world, fact, now=now)

        await self._brain.decide(verb)
        await self._brain.failpoints.reach("report.after_commit_before_ack")
