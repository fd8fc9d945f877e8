"""Runs as containers of a Docker Engine or of Podman's compatible service.

`finding` picks the engine, `engine` speaks to it, `hardening` says what a container looks like, `observing` reads what became
of it; `images`, `volumes`, `slices`, `networks`, `logs` and `terminals` are one subject each, and `runtime` puts them behind
the port.
"""

from windlass.adapters.runtime.docker.finding import Found, Tried, find_engine
from windlass.adapters.runtime.docker.networks import networks_lack
from windlass.adapters.runtime.docker.runtime import DockerRuntime
from windlass.adapters.runtime.docker.slices import slices_lack
from windlass.adapters.runtime.docker.subnets import Addresses

__all__ = ["Addresses", "DockerRuntime", "Found", "Tried", "find_engine", "networks_lack", "slices_lack"]
