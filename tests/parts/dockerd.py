"""A Docker Engine of its own: data, socket, containerd, bridge, address range and cgroup, so that several can run at once.

In the machine's own network it writes no packet filter rules and leaves forwarding alone: starting dockerd with them would
flush the rules of an engine that already runs here. Ports are published by docker-proxy, on loopback as elsewhere; names on
user-defined networks work.
"""

import secrets
from dataclasses import replace
from pathlib import Path

from tests.parts import present
from tests.parts.addresses import Slot, take_slot
from tests.parts.containerd import Containerd
from tests.parts.engine_api import EngineApi, EngineRefused
from tests.parts.failures import PartFailed
from tests.parts.process import ServerProcess
from tests.parts.traces import Traces


class DockerEngine(EngineApi, ServerProcess):
    """dockerd with `live-restore`: containers outlive `kill()` and `stop()`, and `start()` finds them again."""

    name = "dockerd"

    def __init__(
        self, directory: Path | None = None, *, live_restore: bool = True, arguments: tuple[str, ...] = ()
    ) -> None:
        present.need_root(self.name)
        super().__init__(directory)
        self.socket = self.directory / "docker.sock"
        self.containerd = Containerd(self.directory / "containerd")
        self._live_restore = live_restore
        self._arguments = arguments
        # Never the name of an earlier engine: what is found under it is ours.
        self.cgroup = f"windlass-{secrets.token_hex(6)}"
        self._slot: Slot | None = None

    @property
    def slot(self) -> Slot:
        """Its bridge and addresses; `slot.tenant_range` is free for subnets that a test chooses."""
        if self._slot is None:
            raise PartFailed("dockerd has its addresses from its first start on")
        return self._slot

    def prepare(self) -> None:
        if self._slot is None:
            self._slot = take_slot()
            self._slot.use_bridge()
        self.containerd.start()
        # A pidfile whose pid still exists, be it a zombie's or another program's, keeps dockerd from starting.
        (self.directory / "dockerd.pid").unlink(missing_ok=True)
        self.socket.unlink(missing_ok=True)

    def command(self) -> list[str]:
        return [
            present.program("dockerd"),
            f"--host=unix://{self.socket}",
            f"--data-root={self.directory / 'data'}",
            f"--exec-root={self.directory / 'exec'}",
            f"--pidfile={self.directory / 'dockerd.pid'}",
            f"--containerd={self.containerd.socket}",
            f"--bridge={self.slot.bridge}",
            f"--default-address-pool=base={self.slot.pool},size=28",
            f"--cgroup-parent=/{self.cgroup}",
            "--exec-opt=native.cgroupdriver=cgroupfs",
            "--iptables=false",
            "--ip6tables=false",
            "--ip-forward=false",
            f"--live-restore={str(self._live_restore).lower()}",
            *self._arguments,
        ]

    def is_ready(self) -> bool:
        return self.answers()

    def traces(self) -> Traces:
        bridge = self._slot.bridge if self._slot else ""
        return replace(super().traces(), cgroup=self.cgroup, bridge=bridge)

    def close(self) -> None:
        """Its containers go too, by its own hand while it answers: then nothing needs to be hunted down."""
        self.resume()
        if self.is_running and self.answers():
            self._remove_containers()
        try:
            self.stop()
            self.containerd.close()
        finally:
            super().close()
            self._slot = None

    def _remove_containers(self) -> None:
        for row in self.containers():
            try:
                self.remove_container(row["Id"])
            except EngineRefused:
                continue  # already going; the cgroup is emptied below
