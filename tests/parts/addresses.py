"""A range of addresses and a bridge for each Docker Engine, so that several run side by side in the machine's network."""

import ipaddress
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.parts import present
from tests.parts.failures import PartFailed

# Reserved for benchmarks between networks (RFC 2544): no real network of the machine is hidden by it.
ADDRESSES = ipaddress.IPv4Network("198.18.0.0/15")
SLOT_PREFIX = 21  # 64 engines at once, 2,048 addresses each


class Slot:
    """A bridge, which holds the slot while it exists, and the parts of its range."""

    def __init__(self, bridge: str, addresses: ipaddress.IPv4Network) -> None:
        self.bridge = bridge
        self.addresses = addresses
        self.claim = ""
        # The engine's default network; networks to which it gives subnets itself; subnets that a test chooses.
        self.default, self.pool = list(addresses.subnets(new_prefix=24))[:2]
        self.tenant_range = list(addresses.subnets(prefixlen_diff=1))[1]

    def use_bridge(self) -> None:
        """Make the bridge that of the default network."""
        _ip("addr", "add", f"{self.default[1]}/24", "dev", self.bridge).check_returncode()
        _ip("link", "set", self.bridge, "up").check_returncode()

    def release(self) -> None:
        """Delete the bridges that have an address in the range, and the one that holds it; unless it is another's by now."""
        if _claim(self.bridge) != self.claim:
            return
        for bridge in self.bridges():
            if bridge != self.bridge:
                _ip("link", "delete", bridge)
        _ip("link", "delete", self.bridge)  # last: from now on the range may be another's

    def bridges(self) -> list[str]:
        """The bridges with an address in the range."""
        links = json.loads(_ip("-json", "-4", "addr", "show", "type", "bridge").stdout or "[]")
        return [link["ifname"] for link in links if any(self._has(row) for row in link.get("addr_info", []))]

    def _has(self, row: dict[str, str]) -> bool:
        return ipaddress.ip_address(row["local"]) in self.addresses


def take_slot() -> Slot:
    """Making the bridge claims the slot: the kernel refuses the name to all but one."""
    for slot in _slots():
        made = _ip("link", "add", slot.bridge, "type", "bridge")
        if made.returncode == 0:
            slot.claim = _claim(slot.bridge)
            return slot
        if "exists" not in made.stderr:
            raise PartFailed(f"no bridge for the engine: {made.stderr.strip()}")
    raise PartFailed("all bridges wltest0 … are taken; left behind? see `ip link show type bridge`")


def taken_slot(bridge: str, claim: str) -> Slot:
    """The slot that somebody took, known by what was noted then."""
    slot = next(slot for slot in _slots() if slot.bridge == bridge)
    slot.claim = claim
    return slot


def _slots() -> Iterator[Slot]:
    for number, addresses in enumerate(ADDRESSES.subnets(new_prefix=SLOT_PREFIX)):
        yield Slot(f"wltest{number}", addresses)


def _claim(bridge: str) -> str:
    """The kernel's number of the link, which it never gives twice; nothing when there is none."""
    try:
        return Path("/sys/class/net", bridge, "ifindex").read_text().strip()
    except OSError:
        return ""


def _ip(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([present.program("ip"), *arguments], capture_output=True, text=True, check=False)
