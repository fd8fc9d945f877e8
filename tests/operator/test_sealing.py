"""What is kept of a run's output: all of it when it is little, head and tail when it is much, never more than an object holds."""

import gzip
import random

from windlass.operator.memory import Shelf
from windlass.operator.sealing import PACKED_MAX, last_lines, pack


def test_a_short_log_is_kept_whole() -> None:
    assert gzip.decompress(pack(b"one\ntwo\n", b"", 0)) == b"one\ntwo\n"


def test_what_lies_between_head_and_tail_is_counted() -> None:
    assert gzip.decompress(pack(b"head", b"tail", 12)).decode() == "head\n… 12 bytes left out …\ntail"


def test_noise_that_does_not_compress_still_fits_and_keeps_both_ends() -> None:
    noise = random.Random(1).randbytes(3 << 20)
    for head, tail in ((noise, b""), (noise[: 1 << 20], noise[1 << 20 :])):
        packed = pack(head, tail, 0)
        assert len(packed) <= PACKED_MAX
        kept = gzip.decompress(packed)
        assert kept.startswith(noise[:1000])
        assert kept.endswith(noise[-1000:])


def test_the_last_lines_are_twenty_and_five_hundred_characters_at_most() -> None:
    text = b"".join(b"line %d\n" % n for n in range(100))
    assert last_lines(text).split("\n") == [f"line {n}" for n in range(80, 100)]
    assert len(last_lines(b"x" * 10_000)) == 500


def test_memory_keeps_the_newest_and_the_dead_stay_dead() -> None:
    def document(version: int, uid: str = "u") -> dict[str, object]:
        return {"metadata": {"namespace": "n", "name": "x", "uid": uid, "resourceVersion": str(version)}}

    shelf = Shelf()
    shelf.put(document(5))
    shelf.put(document(3))
    assert shelf.get(("n", "x")) == document(5)
    shelf.heard("DELETED", document(6))
    shelf.put(document(5))  # the answer to an own write, late
    assert shelf.get(("n", "x")) is None
    shelf.put(document(9, uid="another"))
    assert shelf.get(("n", "x")) is not None
