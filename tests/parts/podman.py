"""A Podman service of its own, which speaks the Docker Engine API: storage, networks, locks and events in its directory.

Podman keeps more in fixed places than its options can move (addresses in use, name servers, a cache), so it runs in a mount
namespace where these places are empty: nothing of a Podman that the machine uses is seen or changed, and mounts end with
the namespace. Packet filter rules it writes as it does anywhere; the chains go with the last of its containers.
"""

import json
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.parts import present
from tests.parts.addresses import Slot, take_slot
from tests.parts.engine_api import EngineApi
from tests.parts.failures import PartFailed
from tests.parts.namespace import Namespace
from tests.parts.process import ServerProcess
from tests.parts.traces import Traces

_CONFIG = """\
[containers]
# Podman's own defaults are higher than root may go where it lacks CAP_SYS_RESOURCE.
default_ulimits = ["nofile={nofile}:{nofile}", "nproc={nproc}:{nproc}"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "{runtime}"
[network]
network_backend = "netavark"
network_config_dir = "{directory}/networks"
default_subnet_pools = [{{base = "{pool}", size = 28}}]
"""

_EMPTY_PLACES = """
for place in /run/containers /var/lib/containers; do mkdir -p $place; mount -t tmpfs tmpfs $place; done
"""


class PodmanService(EngineApi, ServerProcess):
    """`podman system service`. Containers have no parent in it: they outlive `kill()` and `start()` finds them again."""

    name = "podman"

    def __init__(self, directory: Path | None = None) -> None:
        present.need_root(self.name)
        super().__init__(directory)
        self.socket = self.directory / "podman.sock"
        self._slot: Slot | None = None
        # Held while the part lives: a service that was killed comes back to its own mounts.
        self._namespace: Namespace | None = None

    @property
    def slot(self) -> Slot:
        """Its bridge and addresses; `slot.tenant_range` is free for subnets that a test chooses."""
        if self._slot is None:
            raise PartFailed("podman has its addresses from its first start on")
        return self._slot

    def prepare(self) -> None:
        self._slot = self._slot or take_slot()
        self._namespace = self._namespace or Namespace("mount", script=_EMPTY_PLACES)
        (self.directory / "networks").mkdir(exist_ok=True)
        # The default network is called `podman` on every service; on disk it may have a bridge of our choice.
        (self.directory / "networks" / "podman.json").write_text(json.dumps(_default_network(self.slot)))
        (self.directory / "containers.conf").write_text(
            _CONFIG.format(
                directory=self.directory,
                pool=self.slot.pool,
                runtime=_runtime(),
                nofile=_limit(resource.RLIMIT_NOFILE, 1_048_576),
                # The service lowers its own limit to this, and no container may have more than the service.
                nproc=_limit(resource.RLIMIT_NPROC, int(Path("/proc/sys/kernel/pid_max").read_text())),
            )
        )
        self.socket.unlink(missing_ok=True)

    def command(self) -> list[str]:
        return self._podman("system", "service", "--time=0", f"unix://{self.socket}")

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self._settings()}

    def is_ready(self) -> bool:
        return self.answers()

    def traces(self) -> Traces:
        """Its containers and networks go by Podman's own hand, which needs no service, only the namespace."""
        traces = super().traces()
        if self._namespace is None or self._slot is None:
            return traces
        settings = [present.program("env"), *(f"{name}={value}" for name, value in self._settings().items())]
        tidy = (["rm", "--all", "--force", "--time=0"], ["network", "prune", "--force"])
        return replace(
            traces,
            processes=(*traces.processes, self._namespace.process),
            farewells=tuple((*settings, *self._podman(*words)) for words in tidy),
            bridge=self._slot.bridge,
            writes_podman_rules=True,
        )

    def close(self) -> None:
        super().close()
        if self._namespace is not None:
            self._namespace.close()
            self._namespace = None
        self._slot = None

    def events(self, since: float, until: float | None = None, **filters: list[str]) -> list[dict[str, Any]]:
        """As on Docker; here an `until` in the past would end the answer at its first line, so it is applied by us."""
        query = {"since": f"{since:.9f}", "stream": "false", "filters": filters}
        rows = [json.loads(line) for line in self.call("GET", "/events", query=query).splitlines() if line.strip()]
        return [row for row in rows if until is None or row["timeNano"] <= until * 1e9]

    def _settings(self) -> dict[str, str]:
        return {"CONTAINERS_CONF": str(self.directory / "containers.conf"), "TMPDIR": str(self.directory)}

    def _podman(self, *words: str) -> list[str]:
        assert self._namespace is not None
        places = [f"--{option}={self.directory / option}" for option in ("root", "runroot", "tmpdir")]
        return self._namespace.inside(present.program("podman"), *places, *words)


def _runtime() -> str:
    """crun refuses the hybrid of cgroup versions 1 and 2; runc takes it."""
    return "crun" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "runc"


def _limit(which: int, wanted: int) -> int:
    hard = resource.getrlimit(which)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)


def _default_network(slot: Slot) -> dict[str, Any]:
    return {
        "name": "podman",
        "id": "2f259bab93aaaaa2542ba43ef33eb990d0999ee1b9924b557b7be53c0b7a1bb9",  # fixed, as in Podman itself
        "driver": "bridge",
        # Not the slot's own bridge: Podman deletes a bridge with its last container, and that would give up the slot.
        "network_interface": f"{slot.bridge}p",
        "created": "2024-01-01T00:00:00Z",
        "subnets": [{"subnet": str(slot.default), "gateway": str(slot.default[1])}],
        "ipv6_enabled": False,
        "internal": False,
        "dns_enabled": False,
        "ipam_options": {"driver": "host-local"},
    }
