"""The end of a log and a stream that was attached before the log was read: joined, no byte lost and none told twice."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.adapters.runtime.docker.early import joined


@given(st.integers(0, 60), st.data())
def test_what_both_hold_is_told_once_wherever_the_stream_began(lines: int, data: st.DataObject) -> None:
    """No line is like another, so that there is one place where the two can meet."""
    whole = b"".join(b"<%d>" % number for number in range(lines))
    began = data.draw(st.integers(0, len(whole)))
    read = data.draw(st.integers(began, len(whole)))
    assert joined(whole[:read], whole[began:]) == whole


def test_a_stream_that_began_after_the_log_follows_it() -> None:
    assert joined(b"one\r\ntwo\r\n", b"three\r\n") == b"one\r\ntwo\r\nthree\r\n"
    assert joined(b"", b"$ ") == b"$ "
    assert joined(b"one\r\n", b"") == b"one\r\n"
