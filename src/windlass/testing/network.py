"""The bad line between a node, or a client, and the control plane: requests, answers and sets that are lost, late, doubled.

A request is carried out in the server's own process: when that is killed half-way the caller only learns that no answer came.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Protocol, TypeVar

import anyio
from msgspec import Struct

from windlass.control.observer import NodeLink
from windlass.control.plane import ControlPlane
from windlass.core.errors import Unavailable, WindlassError
from windlass.core.model.assignment import Assignments
from windlass.core.model.facts import Fact
from windlass.core.model.ids import NodeId, RunId
from windlass.core.model.node import Node
from windlass.core.model.run import Token
from windlass.core.model.secret import Handed
from windlass.testing.virtual import Process

T = TypeVar("T")


class Lost(Unavailable):
    """No answer came. Whether the request was carried out, nobody can tell."""

    default_code = "no-answer"


class Weather(Struct, frozen=True, kw_only=True):
    """How often, out of one, what goes wrong with a message; and how long a good one takes."""

    lost: float = 0.0
    unanswered: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    delay_seconds_max: float = 0.01
    late_seconds_max: float = 90.0


CALM = Weather()


class Host(Protocol):
    """Where the control plane is, if it is."""

    @property
    def process(self) -> Process | None: ...

    @property
    def plane(self) -> ControlPlane | None: ...


class Network:
    def __init__(self, chance: Random, outside: Process, host: Host) -> None:
        """`outside` is the process of messages under way: it outlives senders and receivers."""
        self.weather = CALM
        self.cut: set[NodeId] = set()
        self.timeout_seconds = 15.0
        self._chance = chance
        self._outside = outside
        self._host = host

    def is_reachable(self, node: NodeId | None) -> bool:
        return node not in self.cut and self._host.plane is not None

    async def request(self, work: Callable[[ControlPlane], Awaitable[T]], *, node: NodeId | None = None) -> T:
        """Have `work` done by the server. Its refusals are raised here; Lost when no answer came."""
        await self._travel()
        if not self.is_reachable(node) or self._happens(self.weather.lost):
            raise await self._silence("the request was lost")
        if self._happens(self.weather.late):
            self._later(work, self.weather.late_seconds_max)
            raise await self._silence("the request is still on its way")
        if self._happens(self.weather.doubled):
            self._later(work, 5.0)
        answer = await self._carry_out(work)
        if not self.is_reachable(node) or self._happens(self.weather.unanswered):
            raise await self._silence("the answer was lost")
        await self._travel()
        return answer

    def post(self, deliver: Callable[[], None], *, node: NodeId) -> None:
        """A message nobody waits for: later ones may overtake it, it may come twice, a cut swallows it."""

        async def carry() -> None:
            await self._travel()
            if self._happens(self.weather.late):
                await anyio.sleep(self._chance.uniform(0, self.weather.late_seconds_max))
            if node not in self.cut:
                deliver()

        for _ in range(2 if self._happens(self.weather.doubled) else 1):
            self._outside.spawn(carry)

    def breaks(self) -> bool:
        """Asked for each message on a standing connection: losing one breaks it."""
        return self._happens(self.weather.lost)

    async def _carry_out(self, work: Callable[[ControlPlane], Awaitable[T]]) -> T:
        process, plane = self._host.process, self._host.plane
        if process is None or plane is None:
            raise await self._silence("nobody is there")
        done: asyncio.Future[T | WindlassError] = asyncio.get_running_loop().create_future()

        async def handle() -> None:
            try:
                answer: T | WindlassError = await work(plane)
            except WindlassError as refusal:
                answer = refusal
            if not done.done():
                done.set_result(answer)

        process.spawn(handle)
        process.when_dead(lambda: None if done.done() else done.set_result(Lost("the server died")))
        with anyio.move_on_after(self.timeout_seconds):
            outcome = await done
            if isinstance(outcome, WindlassError):
                raise outcome
            return outcome
        raise Lost("the server took too long")

    def _later(self, work: Callable[[ControlPlane], Awaitable[T]], seconds_max: float) -> None:
        delay = self._chance.uniform(0, seconds_max)

        async def carry() -> None:
            await anyio.sleep(delay)
            process, plane = self._host.process, self._host.plane
            if process is not None and plane is not None:
                process.spawn(lambda: _quietly(work, plane))

        self._outside.spawn(carry)

    async def _silence(self, why: str) -> Lost:
        await anyio.sleep(self._chance.uniform(0.5, 3.0))
        return Lost(why)

    async def _travel(self) -> None:
        await anyio.sleep(self._chance.uniform(0, self.weather.delay_seconds_max))

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._chance.random() < probability


class FaultyLink:
    """`ports.link.Link` of one agent over the bad line. It reconnects for ever; each connection begins with the newest set."""

    def __init__(self, network: Network, host: Host, node: NodeId, agent: Process) -> None:
        self._network = network
        self._host = host
        self._node = node
        self._agent = agent

    async def join(self, node: Node, *, epoch_seen: int) -> None:
        while True:
            try:
                return await self._network.request(
                    lambda plane: self._end(plane).join(node, epoch_seen=epoch_seen), node=self._node
                )
            except Unavailable:
                await anyio.sleep(1)

    async def hand_over(self, run: RunId, token: Token) -> Handed:
        return await self._network.request(lambda plane: self._end(plane).hand_over(run, token), node=self._node)

    async def report(self, facts: Sequence[Fact]) -> None:
        await self._network.request(lambda plane: self._end(plane).report(facts), node=self._node)

    @asynccontextmanager
    async def assignments(self) -> AsyncIterator[AsyncIterator[Assignments]]:
        send, receive = anyio.create_memory_object_stream[Assignments](1_000_000)
        self._agent.spawn(lambda: self._stay_connected(send.send_nowait))
        yield receive

    async def _stay_connected(self, deliver: Callable[[Assignments], None]) -> None:
        while True:
            if self._network.is_reachable(self._node):
                connection = _Connection(self._network, self._host, self._node, self._agent, deliver)
                await connection.last()
            await anyio.sleep(1)

    def _end(self, plane: ControlPlane) -> NodeLink:
        return NodeLink(plane.brain, plane.dispatch, plane.secrets, self._node)


class _Connection:
    """One standing connection: the server's sets flow until it breaks, the server dies, or its time is over."""

    _SECONDS_MAX = 30.0

    def __init__(
        self, network: Network, host: Host, node: NodeId, agent: Process, deliver: Callable[[Assignments], None]
    ) -> None:
        self._network = network
        self._host = host
        self._node = node
        self._agent = agent
        self._deliver = deliver
        self._is_open = True

    async def last(self) -> None:
        process, plane = self._host.process, self._host.plane
        if process is None or plane is None:
            return
        process.spawn(lambda: self._flow(plane))
        for _ in range(int(self._SECONDS_MAX)):
            await anyio.sleep(1)
            if process.is_dead or not self._is_open or self._node in self._network.cut:
                break
        self._is_open = False

    async def _flow(self, plane: ControlPlane) -> None:
        async with NodeLink(plane.brain, plane.dispatch, plane.secrets, self._node).assignments() as sets:
            async for told in sets:
                if not self._is_open or self._agent.is_dead or self._network.breaks():
                    self._is_open = False
                    return
                self._network.post(lambda told=told: self._receive(told), node=self._node)  # type: ignore[misc]

    def _receive(self, told: Assignments) -> None:
        if not self._agent.is_dead:
            self._deliver(told)


async def _quietly(work: Callable[[ControlPlane], Awaitable[T]], plane: ControlPlane) -> None:
    try:
        await work(plane)
    except WindlassError:
        return  # nobody waits for this answer any more
