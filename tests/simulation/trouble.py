"""What goes wrong in a simulation by itself: kills, cuts, hands that remove things, engines and registries that fail."""

from typing import Any

import anyio
import anyio.lowlevel

from windlass.core.errors import Unavailable
from windlass.core.model.ids import NodeId
from windlass.ports.runtime import ImageUnavailable, Phase
from windlass.testing.cluster import AgentHost, Cluster
from windlass.testing.network import Weather
from windlass.testing.store import Mishap

_VERBS = ("create", "start", "remove", "remove_volume", "ensure_volume", "observe", "observe_all", "stop")


class Trouble:
    """What goes wrong by itself. A seed picks its kinds, so that some are seen alone and some together."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._chance = cluster.chance_of("trouble")
        kinds = {
            self._kill_server: 3,
            self._kill_server_for_long: 1,
            self._kill_agent: 3,
            self._cut: 3,
            self._remove_by_hand: 2,
            self._engine_down: 2,
            self._verb_fails: 3,
            self._registry: 3,
        }
        self._kinds = {kind: weight for kind, weight in kinds.items() if self._chance.random() < 0.7}
        self._every_seconds = self._chance.choice((2, 5, 10, 20))

    def begin(self) -> None:
        chance, cluster = self._chance, self._cluster
        if chance.random() < 0.7:
            much = chance.choice((0.01, 0.03, 0.08))
            mishaps = [one for one in Mishap if one is not Mishap.NONE and chance.random() < 0.7]
            cluster.trouble_the_store(
                dict.fromkeys(mishaps, much / 2), delayed=0.3, delay_seconds_max=chance.choice((0.02, 0.2, 3.0))
            )
        if chance.random() < 0.7:
            cluster.network.weather = Weather(
                lost=chance.choice((0, 0.01, 0.05)),
                unanswered=chance.choice((0, 0.01, 0.05)),
                doubled=chance.choice((0, 0.02, 0.1)),
                late=chance.choice((0, 0.01, 0.05)),
                delay_seconds_max=chance.choice((0.002, 0.05, 0.5)),
            )
        if chance.random() < 0.5:
            cluster.failpoints.probability = chance.choice((0.002, 0.01))

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await anyio.sleep(self._chance.expovariate(1 / self._every_seconds))
            for _ in range(self._chance.randint(0, 30)):
                await (
                    anyio.lowlevel.checkpoint()
                )  # many things happen within one moment: strike between any two of them
            if self._kinds:
                self._chance.choices(list(self._kinds), list(self._kinds.values()))[0]()

    def _kill_server(self) -> None:
        if self._cluster.server.process is not None:
            self._note("server killed")
            self._cluster.server.process.kill()

    def _kill_server_for_long(self) -> None:
        """Longer than the TTLs of much that waits for it."""
        if self._cluster.server.process is not None:
            self._cluster.server.restart_after_seconds = self._chance.uniform(20, 150)
            self._note("server killed for long")
            self._cluster.server.process.kill()

    def _kill_agent(self) -> None:
        agent = self._an_agent()
        if agent.process is not None:
            agent.restart_after_seconds = self._chance.choice((0.01, 1, 10, 40))
            self._note("agent killed", node=agent.node.id)
            agent.process.kill()

    def _cut(self) -> None:
        node = self._an_agent().node.id
        self._cluster.network.cut.add(node)
        self._note("cut", node=node)
        self._cluster.after(self._chance.uniform(0.5, 60), lambda: self._mend(node))

    def _mend(self, node: NodeId) -> None:
        self._cluster.network.cut.discard(node)
        self._note("mended", node=node)

    def _remove_by_hand(self) -> None:
        machine = self._an_agent().machine
        machine.settle()
        alive = [run for run, container in machine.containers.items() if container.phase is not Phase.EXITED]
        if alive:
            machine.remove_by_hand(self._chance.choice(alive))

    def _engine_down(self) -> None:
        machine = self._an_agent().machine
        machine.is_down = True
        self._note("engine down")
        self._cluster.after(self._chance.uniform(0.1, 30), lambda: setattr(machine, "is_down", False))

    def _verb_fails(self) -> None:
        machine, verb = self._an_agent().machine, self._chance.choice(_VERBS)
        is_after = self._chance.random() < 0.5
        self._note("verb fails", verb=verb, is_after=is_after)
        machine.fail(verb, Unavailable("by plan"), times=self._chance.randint(1, 3), is_after=is_after)

    def _registry(self) -> None:
        """The flaky image comes and goes; nobody has it for long."""
        machine = self._an_agent().machine
        gone = ImageUnavailable("registry unreachable", is_transient=True, code="registry-unreachable")
        self._note("registry changed")
        machine.registry["flaky"] = self._chance.choice((gone, 500, 3000))
        if machine.images is not None:
            machine.images.discard("flaky")

    def _an_agent(self) -> AgentHost:
        return self._chance.choice(list(self._cluster.agents.values()))

    def _note(self, what: str, **fields: Any) -> None:
        self._cluster.history.note("fault", what=what, **fields)
