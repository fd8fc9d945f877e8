"""A Docker Engine of its own: data, socket, containerd, bridge, address range and cgroup, so that several can run at once.

In the machine's own network it writes no packet filter rules and leaves forwarding alone: starting dockerd with them would
flush the rules of an engine that already runs here. Ports are published by docker-proxy, on loopback as elsewhere; names on
user-defined networks work. With `own_network` it has a network namespace to itself, as on a machine of its own: there it
does write rules, and its ports are reached through `inside`.
"""

import contextlib
import secrets
from dataclasses import replace
from pathlib import Path

from tests.parts import present
from tests.parts.addresses import Slot, take_slot
from tests.parts.containerd import Containerd
from tests.parts.engine_api import EngineApi, EngineRefused
from tests.parts.failures import PartFailed
from tests.parts.namespace import Namespace
from tests.parts.process import ServerProcess
from tests.parts.traces import Traces


class DockerEngine(EngineApi, ServerProcess):
    """dockerd with `live-restore`: containers outlive `kill()` and `stop()`, and `start()` finds them again."""

    name = "dockerd"

    def __init__(
        self,
        directory: Path | None = None,
        *,
        live_restore: bool = True,
        own_network: bool = False,
        arguments: tuple[str, ...] = (),
    ) -> None:
        present.need_root(self.name)
        super().__init__(directory)
        self.socket = self.directory / "docker.sock"
        self.containerd = Containerd(self.directory / "containerd")
        self._live_restore = live_restore
        self._own_network = own_network
        self._arguments = arguments
        # Never the name of an earlier engine: what is found under it is ours.
        self.cgroup = f"wltest-{secrets.token_hex(6)}"
        self._slot: Slot | None = None
        self._namespace: Namespace | None = None

    @property
    def slot(self) -> Slot:
        """Its bridge and addresses; `slot.tenant_range` is free for subnets that a test chooses."""
        if self._slot is None:
            raise PartFailed("dockerd has its addresses from its first start on")
        return self._slot

    def prepare(self) -> None:
        if self._slot is None:
            self._slot = take_slot()
            if self._own_network:
                self._namespace = Namespace("net", script="ip link set lo up")
            else:
                self._slot.use_bridge()
        self.containerd.start()
        # A pidfile whose pid still exists, be it a zombie's or another program's, keeps dockerd from starting.
        (self.directory / "dockerd.pid").unlink(missing_ok=True)
        self.socket.unlink(missing_ok=True)

    def command(self) -> list[str]:
        return self.inside(
            present.program("dockerd"),
            f"--host=unix://{self.socket}",
            f"--data-root={self.directory / 'data'}",
            f"--exec-root={self.directory / 'exec'}",
            f"--pidfile={self.directory / 'dockerd.pid'}",
            f"--containerd={self.containerd.socket}",
            *self._network(),
            f"--default-address-pool=base={self.slot.pool},size=28",
            f"--cgroup-parent=/{self.cgroup}",
            "--exec-opt=native.cgroupdriver=cgroupfs",
            f"--live-restore={str(self._live_restore).lower()}",
            *self._arguments,
        )

    def inside(self, *command: str) -> list[str]:
        """The argument list that runs the command where the engine's ports and bridges are."""
        return self._namespace.inside(*command) if self._namespace else list(command)

    def is_ready(self) -> bool:
        return self.answers()

    def traces(self) -> Traces:
        bridge, claim = (self._slot.bridge, self._slot.claim) if self._slot else ("", "")
        held = [self._namespace.process] if self._namespace else []
        traces = super().traces()
        return replace(
            traces, processes=(*traces.processes, *held), cgroup=self.cgroup, bridge=bridge, bridge_claim=claim
        )

    def close(self) -> None:
        """Its containers and networks go too, by its own hand while it answers: then nothing needs to be hunted down."""
        self.resume()
        if self.is_running and self.answers():
            self._remove_containers()
            self._remove_networks()
        try:
            self.stop()
            self.containerd.close()
        finally:
            super().close()
            self._slot = None
            if self._namespace:
                self._namespace.close()
                self._namespace = None

    def _network(self) -> list[str]:
        if self._own_network:
            return [f"--bip={self.slot.default[1]}/24"]
        return [f"--bridge={self.slot.bridge}", "--iptables=false", "--ip6tables=false", "--ip-forward=false"]

    def _remove_containers(self) -> None:
        for row in self.containers():
            try:
                self.remove_container(row["Id"])
            except EngineRefused:
                continue  # already going; the cgroup is emptied below

    def _remove_networks(self) -> None:
        """Whose bridges would outlive it, and keep their subnets."""
        for row in self.ask("/networks", filters={"type": ["custom"]}):
            with contextlib.suppress(EngineRefused):  # in use by a container that is still going
                self.call("DELETE", f"/networks/{row['Id']}")
