"""A Docker Engine of its own: data, socket, containerd, bridge, address range and cgroup, so that several can run at once.

In the machine's own network it writes no packet filter rules and leaves forwarding alone: starting dockerd with them would
flush the rules of an engine that already runs here. Ports are published by docker-proxy, on loopback as elsewhere; names on
user-defined networks work.
"""

import ipaddress
import secrets
import subprocess
from pathlib import Path

from tests.parts import present, remains
from tests.parts.containerd import Containerd
from tests.parts.engine_api import EngineApi, EngineRefused
from tests.parts.process import PartFailed, ServerProcess

# Reserved for benchmarks between networks (RFC 2544): no real network of the machine is hidden by it.
ADDRESSES = ipaddress.IPv4Network("198.18.0.0/15")
SLOT_PREFIX = 21  # 64 engines at once, 2,048 addresses each


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
        self._bridge = ""
        self.addresses = ADDRESSES

    @property
    def tenant_range(self) -> ipaddress.IPv4Network:
        """Addresses that no network of this engine or another takes by itself: for subnets that a test chooses."""
        return list(self.addresses.subnets(prefixlen_diff=1))[1]

    def prepare(self) -> None:
        if not self._bridge:
            self._bridge, self.addresses = _take_bridge()
        self.containerd.start()
        # A pidfile whose pid still exists, be it a zombie's or another program's, keeps dockerd from starting.
        (self.directory / "dockerd.pid").unlink(missing_ok=True)
        self.socket.unlink(missing_ok=True)

    def command(self) -> list[str]:
        pool = list(self.addresses.subnets(new_prefix=24))[1]
        return [
            present.program("dockerd"),
            f"--host=unix://{self.socket}",
            f"--data-root={self.directory / 'data'}",
            f"--exec-root={self.directory / 'exec'}",
            f"--pidfile={self.directory / 'dockerd.pid'}",
            f"--containerd={self.containerd.socket}",
            f"--bridge={self._bridge}",
            f"--default-address-pool=base={pool},size=28",
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

    def clean_up(self) -> None:
        remains.kill_cgroup(self.cgroup)
        self.containerd.close()
        remains.unmount_below(self.directory)
        if self._bridge:
            remains.remove_bridges(self.addresses)

    def close(self) -> None:
        """Its containers go too, by its own hand while it answers: then nothing needs to be hunted down."""
        self.resume()
        if self.is_running and self.answers():
            self._remove_containers()
        super().close()

    def _remove_containers(self) -> None:
        for row in self.containers():
            try:
                self.remove_container(row["Id"])
            except EngineRefused:
                continue  # already going; the cgroup is emptied below


def _take_bridge() -> tuple[str, ipaddress.IPv4Network]:
    """Making the bridge claims the slot: the kernel refuses the name to all but one."""
    ip = present.program("ip")
    for slot, addresses in enumerate(ADDRESSES.subnets(new_prefix=SLOT_PREFIX)):
        bridge = f"wltest{slot}"
        made = subprocess.run(
            [ip, "link", "add", bridge, "type", "bridge"], capture_output=True, text=True, check=False
        )
        if made.returncode == 0:
            first = next(addresses.subnets(new_prefix=24))
            subprocess.run([ip, "addr", "add", f"{first[1]}/24", "dev", bridge], capture_output=True, check=True)
            subprocess.run([ip, "link", "set", bridge, "up"], capture_output=True, check=True)
            return bridge, addresses
        if "exists" not in made.stderr:
            raise PartFailed(f"no bridge for dockerd: {made.stderr.strip()}")
    raise PartFailed("all bridges wltest0… are taken; left behind? `ip link show type bridge`")
