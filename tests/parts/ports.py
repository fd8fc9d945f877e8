"""Free loopback ports for the servers under test."""

import random
import socket

# Below the kernel's ephemeral range, so that no outgoing connection takes the port between our look and the server's bind.
FIRST, LAST = 20_000, 32_000

_given: set[int] = set()
# A system source: two test runs at once must not walk the same ports.
_chance = random.SystemRandom()


def free_port(address: str = "127.0.0.1") -> int:
    """A port that nobody listens on and that this process has not given out before."""
    for _ in range(1_000):
        port = _chance.randrange(FIRST, LAST)
        if port not in _given and _is_free(address, port):
            _given.add(port)
            return port
    raise OSError(f"no free port between {FIRST} and {LAST} on {address}")


def answers(port: int, address: str = "127.0.0.1") -> bool:
    """Whether somebody accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
