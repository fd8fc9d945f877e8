"""The end of a log and a stream that was attached before the log was read: joined, no byte lost and none told twice."""

import pytest

from windlass.adapters.runtime.docker.early import joined


@pytest.mark.parametrize("lines", [0, 1, 2, 9, 10, 11, 30])
@pytest.mark.parametrize("more", [0, 1, 12])
def test_what_both_hold_is_told_once_wherever_the_stream_began(lines: int, more: int) -> None:
    """A log has whole lines, and a stream begins anywhere. No line is like another: there is one place where the two can meet."""
    printed = b"".join(b"<%d>" % number for number in range(lines))
    whole = printed + b"".join(b"<%d>" % number for number in range(lines, lines + more))
    assert [joined(printed, whole[began:]) for began in range(len(printed) + 1)] == [whole] * (len(printed) + 1)


def test_a_stream_that_began_after_the_log_follows_it() -> None:
    assert joined(b"one\r\ntwo\r\n", b"three\r\n") == b"one\r\ntwo\r\nthree\r\n"
    assert joined(b"", b"$ ") == b"$ "
    assert joined(b"one\r\n", b"") == b"one\r\n"
