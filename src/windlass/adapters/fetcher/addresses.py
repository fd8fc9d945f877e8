"""Which addresses may be reached: those that are globally routable by an explicit list, an embedded IPv4 address judged too.

The standard library's `is_global` and `is_private` disagree with the registries in ways that matter (100.64/10, NAT64, 6to4,
multicast), and differ between Python versions; so the list is ours.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NOT_GLOBAL_4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, and every cloud's metadata service
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarking
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_GLOBAL_6: Final = IPv6Network("2000::/3")
"""All that has been given out; the rest is local, special or not yet anything."""
_NOT_GLOBAL_6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarking
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
_EMBEDDING: Final = tuple(
    map(IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"))
)
"""IPv4 in the low 32 bits: compatible, mapped, translated, NAT64."""
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)


def is_reachable(address: Address, *, allowed: Sequence[Network] = ()) -> bool:
    """Globally routable, or in a network the administrator allows. An IPv6 form of an IPv4 address is no way to reach one:
    it passes only where the administrator allows what it stands for."""
    if any(address in network for network in allowed if network.version == address.version):
        return True
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_GLOBAL_4)
    embedded = tuple(_embedded(address))
    if embedded:
        return all(any(one in network for network in allowed if network.version == 4) for one in embedded)
    return address in _GLOBAL_6 and not any(address in network for network in _NOT_GLOBAL_6)


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    number = int(address)
    if any(address in network for network in _EMBEDDING) or (number >> 32) & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        yield IPv4Address((number >> 80) & 0xFFFFFFFF)
