"""What may enter a commit, and the form in which a durable one reaches the watchers. Shared by every store."""

from collections.abc import Sequence

from msgspec import Struct

from windlass.ports.store import Change, Expect, Limits, Put, Refused, Write


class Committed(Struct, frozen=True):
    """One durable commit, as watchers get it."""

    revision: int
    changes: tuple[Change, ...]
    size: int
    """Bytes of keys and values: what it costs to keep this waiting for a slow watcher."""


def check_commit(writes: Sequence[Write], expect: Sequence[Expect], limits: Limits) -> int:
    """Refuse what no store could take, before anything is written; answers the bytes it carries.

    Malformed commits are Refused as well: the leader undoes the decision and lives on, instead of dying of one bad key.
    """
    if len(writes) > limits.operations or len(expect) > limits.operations:
        raise Refused(
            f"a commit carries at most {limits.operations} writes and as many expectations, "
            f"this one {len(writes)} and {len(expect)}",
            code="store-over-limits",
        )
    size = _written_bytes(writes)
    if size > limits.bytes:
        raise Refused(
            f"a commit carries at most {limits.bytes} bytes, this one {size}",
            code="store-over-limits",
        )
    for expectation in expect:
        if (expectation.created is None) == (expectation.modified is None):
            raise _malformed(f"the expectation of {expectation.key!r} must name exactly one revision")
        encode_key(expectation.key)
    return size


def encode_key(key: str) -> bytes:
    """The key as stores order it."""
    if not key:
        raise _malformed("a key is not empty")
    return _encode(key)


def range_bounds(prefix: str, start: str) -> tuple[bytes, bool, bytes | None]:
    """Where a range begins, whether its first key itself is left out, and the first key past its end (None: no end)."""
    first = _encode(prefix)
    # UTF-8 has no byte 0xFF, so the last byte can always grow.
    end = first[:-1] + bytes((first[-1] + 1,)) if first else None
    after = _encode(start)
    if start and after >= first:
        return after, True, end
    return first, False, end


def expectation_failed(expectation: Expect, created: int, modified: int) -> bool:
    """Whether a decision relied on something that is no longer so; 0 stands for a key that is absent."""
    if expectation.created is not None:
        return expectation.created != created
    return expectation.modified != modified


def _written_bytes(writes: Sequence[Write]) -> int:
    if len(writes) > 1 and len({write.key for write in writes}) != len(writes):
        raise _malformed("a key may be written once per commit")
    size = 0
    for write in writes:
        key = write.key
        # This runs for every write there is: a look at the flag is cheaper than encoding twice.
        size += len(key) if key and key.isascii() else len(encode_key(key))
        if type(write) is Put:
            size += len(write.value)
    return size


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as exc:
        raise _malformed(f"{text!r} is not valid Unicode") from exc


def _malformed(message: str) -> Refused:
    return Refused(message, code="store-malformed")
