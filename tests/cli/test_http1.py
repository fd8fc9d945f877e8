"""HTTP/1.1 on the wire: every way an answer may be framed, and every way it may be wrong."""

import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from windlass.client.http1 import Answer, Broken, Link

Talk = Callable[[socket.socket], None]


@contextmanager
def speaking(talk: Talk) -> Iterator[Link]:
    """A link to a server that reads a request's head and then does as it is told."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                seen = b""
                while b"\r\n\r\n" not in seen and (more := connection.recv(1)):
                    seen += more
                talk(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        link = Link("127.0.0.1", listener.getsockname()[1], is_tls=False, connect_seconds=120, read_seconds=120)
        try:
            yield link
        finally:
            link.close()
            thread.join()


def answer_of(raw: bytes) -> Answer:
    with speaking(lambda connection: connection.sendall(raw)) as link:
        answer = link.exchange("GET", "/", {}, None)
        answer.body = answer.read_all()  # type: ignore[attr-defined]
        return answer


@pytest.mark.parametrize(
    ("raw", "body", "is_last"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", False),
        (b"HTTP/1.1 200\r\ncontent-length: 2\r\nCONNECTION: Close\r\n\r\nhi", b"hi", True),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi", False),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, world...\r\n0\r\n\r\n",
            b"hello, world...",
            False,
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n", b"", False),
    ],
)
def test_every_framing_gives_its_body(raw: bytes, body: bytes, is_last: bool) -> None:
    answer = answer_of(raw)
    assert answer.body == body  # type: ignore[attr-defined]
    assert answer.is_last is is_last


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nHalf: a head",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!!\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfive\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n",
    ],
)
def test_what_is_wrong_or_cut_off_is_an_error_and_never_a_short_answer(raw: bytes) -> None:
    with pytest.raises(Broken):
        answer_of(raw)


def test_a_line_end_cannot_be_smuggled_into_the_head() -> None:
    with speaking(lambda connection: None) as link:
        for target, value in (("/a\r\nX: y", "ok"), ("/", "a\r\nX: y"), ("/ü", "ok"), ("/", "a\tb")):
            with pytest.raises(ValueError, match="cannot be sent"):
                link.exchange("GET", target, {"Name": value}, None)
        link.shut()


def test_a_refusal_before_the_end_of_an_upload_is_heard() -> None:
    class Endless:
        length = 1 << 40

        def chunks(self) -> Iterator[bytes]:
            while True:
                yield bytes(1 << 16)

    def refuse(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!")
        connection.shutdown(socket.SHUT_WR)
        for _ in range(100):  # as a server does: it drains a little, then goes
            connection.recv(1 << 16)

    with speaking(refuse) as link:
        answer = link.exchange("PUT", "/", {"Content-Length": str(1 << 40)}, Endless())
        assert (answer.status, answer.read_all()) == (413, b"no!")


def test_a_blocked_read_is_ended_from_another_thread() -> None:
    released = threading.Event()

    def hold(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
        released.wait(240)

    with speaking(hold) as link:
        answer = link.exchange("GET", "/", {}, None)
        assert answer.read() == b"hi"
        threading.Timer(0.05, link.shut).start()
        with pytest.raises(Broken):
            answer.read()
        released.set()


def test_bytes_come_as_they_arrive_whatever_the_chunks() -> None:
    raw = b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
    answer = Answer(200, {"transfer-encoding": "chunked"}, io.BytesIO(raw), is_last=False)
    assert [answer.read(2) for _ in range(4)] == [b"ab", b"c", b"d", b""]
    assert answer.read() == b""
