"""Every way this program says no. Each kind has an exit code of its own, so that a job's status names the cause by itself.

Codes are a promise to whoever reads them in a job's status: one may be added, none is ever given another meaning.
0 is success, 1 is left to Python (an error nobody foresaw, with its traceback) and 2 to settings, as argparse has it.
"""

from enum import IntEnum


class Exit(IntEnum):
    """What the process's exit code means."""

    SETTINGS = 2
    DEPENDENCY_MISSING = 3
    INPUT_MISSING = 10
    INPUT_NOT_A_PICTURE = 11
    INPUT_TOO_LARGE = 12
    WEIGHTS_MISSING = 20
    DIGEST_MISSING = 21
    DIGEST_MISMATCH = 22
    WEIGHTS_UNLOADABLE = 23
    WEIGHTS_WRONG_SHAPE = 24
    LABELS_UNUSABLE = 25
    GPU_MISSING = 30
    INFERENCE_FAILED = 31
    OUTPUT_UNWRITABLE = 40


class Failure(Exception):
    """One clear end: what was wrong, what was expected, what to do about it."""

    def __init__(self, code: Exit, *, wrong: str, expected: str, remedy: str) -> None:
        self.code = code
        # A library's own words may span lines; the promise to the log is a single one.
        self.line = " ".join(f"{wrong}; expected {expected}; {remedy}".split())
        super().__init__(self.line)
