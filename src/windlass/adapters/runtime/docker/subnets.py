"""Which addresses a tenant's network gets: the first subnet of the range that nobody on this machine has.

Pure, but for reading the machine's routes. An engine's own pools end at the 31st network, so every subnet is chosen here.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from msgspec import Struct

ROUTES: Final = Path("/proc/self/net/route")


class Addresses(Struct, frozen=True):
    """What tenants' networks are cut from, and how large each is."""

    range: str = "10.208.0.0/12"
    """In none of the pools that Docker, Podman and Kubernetes take theirs from by themselves."""
    size: int = 22
    """As a prefix. A bridge of the kernel has 1,023 ports: a larger subnet could never be filled."""

    def first_free(self, taken: Iterable[IPv4Network]) -> IPv4Network | None:
        """None: the range is used up."""
        whole, step = IPv4Network(self.range), 1 << (32 - self.size)
        at = int(whole.network_address)
        for low, high in sorted((int(one.network_address), int(one.broadcast_address)) for one in taken):
            if low >= at + step:
                break
            if high >= at:
                at = -(-(high + 1) // step) * step
        return IPv4Network((at, self.size)) if at + step - 1 <= int(whole.broadcast_address) else None

    def routed(self, routes: Iterable[IPv4Network]) -> list[IPv4Network]:
        """Those that are somebody's. One to all of the range and more (the default, a VPN's) is a way out, not a network."""
        whole = IPv4Network(self.range)
        return [route for route in routes if route.overlaps(whole) and not whole.subnet_of(route)]


def routes(file: Path = ROUTES) -> list[IPv4Network]:
    """Of the network this process is in; empty where they cannot be seen."""
    try:
        rows = [line.split() for line in file.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [IPv4Network((_number(row[1]), _number(row[7]).bit_count())) for row in rows if len(row) > 7]


def _number(text: str) -> int:
    """The kernel writes addresses as its own machine's words."""
    return int.from_bytes(bytes.fromhex(text)[::-1], "big")
