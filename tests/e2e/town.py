"""A node with neighbours, as a part: an engine in a network of its own, a server in the same network, a host beyond it.

The node is at 203.0.113.1, the host at 203.0.113.2; by way of that host it also reaches 169.254.169.254, as a cloud's metadata.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.e2e.server import _BIN, Said, WindlassServer
from tests.parts import present
from tests.parts.dockerd import DockerEngine
from tests.parts.namespace import Namespace
from tests.parts.podman import PodmanService
from tests.parts.waiting import wait_for

NODE, BEYOND, METADATA = "203.0.113.1", "203.0.113.2", "169.254.169.254"
PORT = 7000
_LISTENER = """
import socket, sys
with socket.create_server(("", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True) as server:
    while True:
        with server.accept()[0] as peer:
            peer.settimeout(10)
            try:
                peer.sendall(sys.argv[2].encode() + b"\\n")
                while peer.recv(4096):
                    pass
            except OSError:
                pass
"""


class ServerInside(WindlassServer):
    """Where the engine's bridges are; so is its command line, because loopback is another one there."""

    def __init__(self, engine: DockerEngine | PodmanService, **options: Any) -> None:
        super().__init__(docker_host=engine.host, flags=("--host", "0.0.0.0"), **options)
        self._engine = engine

    def command(self) -> list[str]:
        return self._engine.inside(*super().command())

    def cli(self, *arguments: str, program: str = "windlass", check: bool = True, **options: Any) -> Said:
        done = subprocess.run(
            self._engine.inside(str(_BIN / program), *arguments),
            capture_output=True,
            text=True,
            timeout=options.pop("timeout", 120),
            env={**os.environ, **self.variables(), "NO_COLOR": "1", **options.pop("environ", {})},
            check=False,
        )
        said = Said(done.returncode, done.stdout, done.stderr)
        assert not check or said.code == 0, said
        return said

    def _purge(self) -> None:
        """Rules of the packet filter are the namespace's."""
        self.cli("down", "--purge", "--yes")

    def as_tenant(self, tenant: str) -> dict[str, str]:
        """What a command line needs to speak for it."""
        return {"WINDLASS_TOKEN": self.cli("tenants", "token", tenant).out.strip()}


class Town:
    def __init__(self, engine: DockerEngine | PodmanService, server: ServerInside) -> None:
        self.engine = engine
        self.server = server

    def on_node(self, *command: str) -> str:
        done = subprocess.run(self.engine.inside(*command), capture_output=True, text=True, check=False)
        return done.stdout

    def chains(self) -> list[str]:
        """All of ours in the packet filter."""
        said = [self.on_node(family, "-t", "mangle", "-S") for family in ("iptables", "ip6tables")]
        return [line for line in "\n".join(said).splitlines() if "WINDLASS" in line]

    def networks(self) -> list[dict[str, Any]]:
        return [one for one in self.engine.ask("/networks") if "windlass.dev/tenant" in (one.get("Labels") or {})]


@contextmanager
def town(engine: DockerEngine | PodmanService, **options: Any) -> Iterator[Town]:
    """`options` go to the server."""
    with ExitStack() as stack:
        beyond = Namespace("net", script="ip link set lo up")
        stack.callback(beyond.close)
        _link(engine, beyond)
        stack.callback(_words, *engine.inside("ip", "link", "delete", "up0"))
        for command, word in ((beyond.inside, "beyond"), (engine.inside, "node")):
            stack.enter_context(_listening(command(*_listener(word)), command))
        server = stack.enter_context(ServerInside(engine, **options))
        yield Town(engine, server)


def _link(engine: DockerEngine | PodmanService, beyond: Namespace) -> None:
    peer = ("peer", "name", "eth0", "netns", str(beyond.process.pid))
    _words(*engine.inside("ip", "link", "add", "up0", "type", "veth", *peer))
    _words(*engine.inside("ip", "addr", "add", f"{NODE}/24", "dev", "up0"))
    _words(*engine.inside("ip", "link", "set", "up0", "up"))
    for address in (f"{BEYOND}/24", f"{METADATA}/32"):
        _words(*beyond.inside("ip", "addr", "add", address, "dev", "eth0"))
    _words(*beyond.inside("ip", "link", "set", "eth0", "up"))
    _words(*engine.inside("ip", "route", "add", f"{METADATA}/32", "via", BEYOND))


def _listener(word: str) -> list[str]:
    """On all addresses of both versions."""
    return [sys.executable, "-c", _LISTENER, str(PORT), word]


@contextmanager
def _listening(command: list[str], inside: Any) -> Iterator[None]:
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            probe = inside(present.program("busybox"), "nc", "-w", "2", "127.0.0.1", str(PORT))
            wait_for(lambda: _said(probe) != "", 60, "the listener to answer")
            yield
        finally:
            process.kill()


def _said(command: list[str]) -> str:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout


def _words(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
