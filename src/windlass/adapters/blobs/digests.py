"""Digests: the only names blobs have. Checked strictly, because a digest from outside becomes part of a path or key.

Also the answers that every kind of blobs gives alike.
"""

import re

from windlass.core.errors import Invalid, NotFound, Unavailable

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)


def hex_of(digest: str) -> str:
    """The 64 hexadecimal digits of a well-formed digest."""
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise Invalid(
            f"{digest[:80]!r} is not a digest, expected sha256: and 64 digits 0-9a-f", code="digest-malformed"
        )
    return match[1]


def digest_of(hexadecimal: str) -> str:
    return f"sha256:{hexadecimal}"


def check_expected(digest: str, expected: str | None) -> None:
    if expected is not None and digest != digest_of(hex_of(expected)):
        raise Invalid(f"the bytes have digest {digest}, expected {expected}", code="digest-mismatch")


def absent(digest: str) -> NotFound:
    return NotFound(f"there is no blob {digest}", code="blob-not-found")


def check_whole(is_whole: bool) -> None:
    """A writer that failed once must not be sealed: its bytes are not those that were handed to it."""
    if not is_whole:
        raise Unavailable("an earlier write of this blob failed", code="blobs-failed")
