"""Unix sockets in our own directories. Standard library only."""

import contextlib
import os
import socket
import sys

EXECUTOR = "socket"
"""The executor's, in its node directory."""
TERMINAL = "terminal"
"""That of a run's pseudo-terminal, or of its pipes, in its directory."""


def listen(directory: str, name: str) -> socket.socket:
    """A unix socket in `directory`, reached by a descriptor: its path may be longer than the 107 bytes an address holds."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{directory}/{name}")
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{fd}/{name}")
    finally:
        os.close(fd)
    listener.listen(64)
    return listener


def is_own_user(peer: socket.socket) -> bool:
    """The directory is closed to others already; the kernel's word on who is calling is the second lock."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder) == os.geteuid()
