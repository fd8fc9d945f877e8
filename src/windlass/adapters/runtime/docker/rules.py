"""Packet filter rules around the tenants' bridges: what leaves one reaches neither the node nor link-local; nothing gets in.

In the mangle table, because its chains are walked before those of the filter table whatever engines and firewalls insert
there, and a drop is final. Two chains of our own hold everything, known by the owner's key; bridges are matched by the
beginning of their names, which says whose they are. All verbs block for a moment: call them from a thread.

A name server is the exception: port 53 of those that the machine itself asks stays open, be it the node or link-local (as on
clouds whose resolver shares an address with the metadata).
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Sequence
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Final

from windlass.adapters.runtime.docker.address import Address
from windlass.adapters.runtime.docker.engine import Facts
from windlass.core.errors import Unavailable

LINK_LOCAL: Final = "169.254.0.0/16"
RESOLVERS: Final = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
IPV6: Final = Path("/proc/self/net/if_inet6")
_LOCK_SECONDS: Final = "10"
"""For the lock that all users of iptables share."""
_SECONDS: Final = 30
_ANSWERS: Final = "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN"


class Rules:
    def __init__(self, key: str, prefix: str) -> None:
        """`prefix` begins the names of all bridges they are for."""
        self._prefix = prefix
        self._out, self._in = f"WINDLASS-{key}-OUT", f"WINDLASS-{key}-IN"
        self._jumps = (
            ("PREROUTING", "-i", f"{prefix}+", "-j", self._out),
            ("FORWARD", "-o", f"{prefix}+", "-j", self._in),
        )

    def hold(self, bridges: Iterable[str]) -> None:
        """Put them in place, or in place again. Unavailable when the kernel says no: nothing may start then."""
        for family in _families():
            lines = self._version_4(bridges) if family == "iptables" else self._version_6()
            _run([f"{family}-restore", "--noflush", "--wait", _LOCK_SECONDS], "\n".join(lines))
            for jump in self._jumps:
                if not _holds([family, *_MANGLE, "-C", *jump]):
                    _run([family, *_MANGLE, "-I", *jump])

    def rehearse(self) -> None:
        """Made and taken away in one stroke: nothing ever passes through them. Unavailable when the kernel says no."""
        for family in _families():
            *lines, commit = self._version_4(()) if family == "iptables" else self._version_6()
            away = [f"-{verb} {chain}" for verb in "FX" for chain in (self._out, self._in)]
            _run([f"{family}-restore", "--noflush", "--wait", _LOCK_SECONDS], "\n".join([*lines, *away, commit]))

    def drop(self) -> None:
        """Nothing of them is left. None there is fine."""
        for family in _families():
            for jump in self._jumps:
                while _holds([family, *_MANGLE, "-D", *jump]):
                    pass
            for chain in (self._out, self._in):
                if _holds([family, *_MANGLE, "-F", chain]):
                    _run([family, *_MANGLE, "-X", chain])

    def _version_4(self, bridges: Iterable[str]) -> list[str]:
        asked = [
            f"-A {self._out} -d {server}/32 -p {protocol} --dport 53 -j RETURN"
            for server in name_servers()
            for protocol in ("udp", "tcp")
        ]
        # Where bridged packets are shown to the filter (br_netfilter), neighbours on one bridge pass here too.
        neighbours = [f"-A {self._in} -i {bridge} -o {bridge} -j RETURN" for bridge in sorted(bridges)]
        return [
            *self._head(),
            f"-A {self._out} {_ANSWERS}",
            *asked,
            f"-A {self._out} -m addrtype ! --dst-type UNICAST -j DROP",  # the node's own addresses, and what it hears
            f"-A {self._out} -d {LINK_LOCAL} -j DROP",
            f"-A {self._in} {_ANSWERS}",
            *neighbours,
            f"-A {self._in} -j DROP",
            "COMMIT\n",
        ]

    def _version_6(self) -> list[str]:
        """The networks have none; what the kernel gives every interface by itself leads to the node."""
        return [*self._head(), f"-A {self._out} -j DROP", f"-A {self._in} -j DROP", "COMMIT\n"]

    def _head(self) -> list[str]:
        """Naming a chain empties it: what follows is all there is in it, from one moment to the next."""
        return ["*mangle", f":{self._out} - [0:0]", f":{self._in} - [0:0]"]


def why_not(address: Address, facts: Facts) -> str:
    """Why there can be no rules here; empty where there can. Only what was tried is promised."""
    if not address.is_local:
        return "the engine is not on this machine"
    if facts.is_rootless:
        return "the engine runs without root, in a network of its own"
    if facts.kernel != os.uname().release:
        return "the engine's containers run on a kernel of their own"
    missing = [name for family in _families() for name in (family, f"{family}-restore") if not shutil.which(name)]
    if missing:
        return f"there is no {missing[0]} here"
    try:
        Rules(f"TRY-{os.getpid()}", "wdl").rehearse()
    except Unavailable as error:
        return error.message
    return ""


def is_here(bridge: str) -> bool:
    """Whether the bridge is in the network this process is in: elsewhere our rules see none of its packets."""
    try:
        return socket.if_nametoindex(bridge) > 0
    except OSError:
        return False


def name_servers(files: Sequence[Path] = RESOLVERS) -> list[str]:
    """Those the machine asks, as far as containers may have to ask them over their bridge."""
    found: dict[str, None] = {}
    for file in files:
        words = [line.split() for line in _read(file).splitlines()]
        for address in (row[1] for row in words if len(row) > 1 and row[0] == "nameserver"):
            try:
                if not IPv4Address(address).is_loopback:
                    found[address] = None
            except AddressValueError:  # version 6, which the networks have none of
                continue
    return list(found)


_MANGLE: Final = ("--wait", _LOCK_SECONDS, "--table", "mangle")


def _families() -> tuple[str, ...]:
    return ("iptables", "ip6tables") if IPV6.exists() else ("iptables",)


def _holds(command: list[str]) -> bool:
    return _call(command, "").returncode == 0


def _run(command: list[str], text: str = "") -> None:
    done = _call(command, text)
    if done.returncode:
        said = " ".join(done.stderr.split())[:300]
        raise Unavailable(f"the packet filter says no: {command[0]}: {said}", code="network-rules")


def _call(command: list[str], text: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"the packet filter does not answer: {error}", code="network-rules") from error


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
