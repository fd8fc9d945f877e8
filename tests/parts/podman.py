"""A Podman service of its own, which speaks the Docker Engine API: storage, locks, events and networks are its alone.

Podman keeps more in fixed places than its options can move (addresses in use, name servers, a cache), so it runs in a mount
namespace where these places are empty. Its bridges and packet filter rules have fixed names too, and two services at once
would share them: netavark, which makes them, runs in a network namespace. So nothing of a Podman that the machine uses is
seen or changed, and all of it ends with the namespaces. The service itself is in the machine's network and pulls from a
registry on loopback; ports that its containers publish are reached through `inside`.
"""

import json
import resource
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.parts import present
from tests.parts.engine_api import EngineApi
from tests.parts.failures import MissingPart, PartFailed
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
helper_binaries_dir = ["{directory}/helpers", "{helpers}"]
lock_type = "file"
runtime = "{runtime}"
[network]
network_backend = "netavark"
network_config_dir = "{directory}/networks"
"""

# As Docker and containerd do by themselves: loopback needs no TLS.
_REGISTRIES = """\
[[registry]]
location = "127.0.0.1"
insecure = true
"""

_NAMESPACE = """
for place in /run/containers /var/lib/containers; do mkdir -p $place; mount -t tmpfs tmpfs $place; done
ip link set lo up
"""


class PodmanService(EngineApi, ServerProcess):
    """`podman system service`. Containers have no parent in it: they outlive `kill()` and `start()` finds them again."""

    name = "podman"

    def __init__(self, directory: Path | None = None) -> None:
        present.need_root(self.name)
        super().__init__(directory)
        self.socket = self.directory / "podman.sock"
        # Held while the part lives: a service that was killed comes back to its own mounts and networks.
        self._namespace: Namespace | None = None

    def prepare(self) -> None:
        netavark = _netavark()
        self._namespace = self._namespace or Namespace("mount", "net", script=_NAMESPACE)
        for name in ("helpers", "networks"):
            (self.directory / name).mkdir(exist_ok=True)
        wrapper = self.directory / "helpers" / "netavark"
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(self.inside(str(netavark)))} "$@"\n')
        wrapper.chmod(0o755)
        (self.directory / "registries.conf").write_text(_REGISTRIES)
        (self.directory / "containers.conf").write_text(
            _CONFIG.format(
                directory=self.directory,
                helpers=netavark.parent,
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

    def inside(self, *command: str) -> list[str]:
        """The argument list that runs the command where the containers' ports and bridges are."""
        return self._held().inside(*command, kinds=["net"])

    def traces(self) -> Traces:
        """Its containers go by Podman's own hand, which needs no service, only the namespaces."""
        traces = super().traces()
        if self._namespace is None:
            return traces
        settings = [present.program("env"), *(f"{name}={value}" for name, value in self._settings().items())]
        return replace(
            traces,
            processes=(*traces.processes, self._namespace.process),
            farewells=((*settings, *self._podman("rm", "--all", "--force", "--time=0")),),
            is_podman=True,
        )

    def close(self) -> None:
        super().close()
        if self._namespace is not None:
            self._namespace.close()
            self._namespace = None

    def events(self, since: float, until: float | None = None, **filters: list[str]) -> list[dict[str, Any]]:
        """As on Docker; here an `until` in the past would end the answer at its first line, so it is applied by us."""
        query = {"since": f"{since:.9f}", "stream": "false", "filters": filters}
        rows = [json.loads(line) for line in self.call("GET", "/events", query=query).splitlines() if line.strip()]
        return [row for row in rows if until is None or row["timeNano"] <= until * 1e9]

    def _settings(self) -> dict[str, str]:
        return {
            "CONTAINERS_CONF": str(self.directory / "containers.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self.directory / "registries.conf"),
            "TMPDIR": str(self.directory),
        }

    def _podman(self, *words: str) -> list[str]:
        places = [f"--{option}={self.directory / option}" for option in ("root", "runroot", "tmpdir")]
        return self._held().inside(present.program("podman"), *places, *words, kinds=["mount"])

    def _held(self) -> Namespace:
        if self._namespace is None:
            raise PartFailed("podman has its namespaces from its first start on")
        return self._namespace


def _netavark() -> Path:
    for directory in (Path("/usr/lib/podman"), Path("/usr/libexec/podman")):
        if (directory / "netavark").exists():
            return directory / "netavark"
    raise MissingPart("netavark is not on this machine (tools/parts installs it as root on Debian)")


def _runtime() -> str:
    """crun refuses the hybrid of cgroup versions 1 and 2; runc takes it."""
    return "crun" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "runc"


def _limit(which: int, wanted: int) -> int:
    hard = resource.getrlimit(which)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
