"""An exit code in words. One above 128 is a shell's way to say which signal ended it; people know those by their names."""

from typing import Final

_NAMES: Final = (
    "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ"
    " VTALRM PROF WINCH IO PWR SYS"
)
_SIGNALS: Final = tuple(_NAMES.split())
"""Linux's, from 1 on: runs are there, whatever machine reads about them."""
_SIGNALLED: Final = 128


def with_signal(code: int) -> str:
    """`137 (SIGKILL)`; `3`."""
    number = code - _SIGNALLED
    return f"{code} (SIG{_SIGNALS[number - 1]})" if 0 < number <= len(_SIGNALS) else str(code)
