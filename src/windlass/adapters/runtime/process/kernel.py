"""The few Linux calls the standard library lacks. Used by the executor's side: standard library only."""

import ctypes
import os

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """From now on orphans among our descendants become our children, so that a daemon cannot slip away from its run."""
    _prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))


def set_process_name(name: str) -> None:
    """What `ps` and `top` show; at most 15 bytes."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]))


def boot_id() -> str:
    """Pids and start times mean something only within one boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _prctl(option: int, value: ctypes.c_ulong | ctypes.c_char_p) -> None:
    if _libc.prctl(ctypes.c_int(option), value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
