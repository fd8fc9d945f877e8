"""attach, exec and debug against a small WebSocket server that speaks the frames of the API."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner
from tests.cli.stub import Stub, a_job, ended
from tests.parts.waiting import wait_for
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

from windlass.cli import exits
from windlass.cli.app import build
from windlass.cli.commands.terminals import whereabouts
from windlass.cli.terminal import attach_when_running
from windlass.client.client import Client
from windlass.client.connection import Connection
from windlass.client.terminal import Terminal
from windlass.core.errors import Conflict, Unavailable

Script = Callable[[ServerConnection], None]


class Far:
    """The other side: what it was asked, and what it does."""

    def __init__(self) -> None:
        self.path = ""
        self.query: dict[str, list[str]] = {}
        self.token = ""
        self.frames: list[Any] = []
        self.script: Script = lambda socket: None
        self.refusal: tuple[int, dict[str, Any]] | None = None
        self.url = ""

    def serve(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        parts = urlsplit(socket.request.path)
        self.path, self.query = parts.path, parse_qs(parts.query)
        self.token = socket.request.headers.get("Authorization", "")
        self.script(socket)

    def check(self, socket: ServerConnection, request: Request) -> Response | None:
        if self.refusal is None:
            return None
        status, document = self.refusal
        return socket.respond(status, json.dumps(document))

    def read(self, socket: ServerConnection, until: Callable[[Any], bool]) -> None:
        for frame in socket:
            self.frames.append(frame)
            if until(frame):
                return


class Seat:
    """A client's, before the other side; the terminal it got."""

    def __init__(self, far: Far) -> None:
        self._client = Client(Connection(url=far.url))
        self.terminal: Terminal | None = None

    @contextmanager
    def attach(self, ref: str) -> Iterator[Terminal]:
        with self._client.attach(ref) as self.terminal:
            yield self.terminal


@pytest.fixture
def far() -> Iterator[Far]:
    far = Far()
    server: Server = serve(far.serve, "127.0.0.1", 0, process_request=far.check, compression=None)
    far.url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield far
    server.shutdown()
    thread.join()


def windlass(far: Far, *words: str, stdin: bytes | None = None) -> Any:
    return CliRunner().invoke(
        build({}), list(words), env={"WINDLASS_URL": far.url, "WINDLASS_TOKEN": "t0ken"}, input=stdin
    )


def test_exec_passes_words_streams_and_exit_code(far: Far) -> None:
    def script(socket: ServerConnection) -> None:
        far.read(socket, lambda frame: isinstance(frame, str))
        socket.send(b"\x01out\n")
        socket.send(b"\x02err\n")
        socket.send('{"exit": 7}')

    far.script = script
    result = windlass(far, "exec", "a", "--", "ls", "-l", "two words")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 7)
    assert far.path == "/api/v1/jobs/a/exec"
    assert far.query == {"command": ["ls", "-l", "two words"]}
    assert far.token == "Bearer t0ken"
    assert [json.loads(frame) for frame in far.frames] == [{"eof": True}], "without -i nothing of ours is read"


def test_what_is_typed_arrives_and_so_does_its_end(far: Far) -> None:
    def script(socket: ServerConnection) -> None:
        far.read(socket, lambda frame: frame == '{"eof":true}')
        socket.send(b"\x01" + b"".join(f for f in far.frames if isinstance(f, bytes)).upper())
        socket.send('{"exit": 0}')

    far.script = script
    with Client(Connection(url=far.url)).execute("a", ["cat"], tty=False) as terminal:
        terminal.send(b"hello ")
        terminal.send(b"there")
        terminal.resize(24, 80)
        terminal.end_input()
        assert b"".join(piece.data for piece in terminal.output()) == b"HELLO THERE"
    assert terminal.exit_code == 0
    assert '{"resize":[24,80]}' in far.frames


def test_debug_says_image_name_and_keep(far: Far) -> None:
    far.script = lambda socket: socket.send('{"exit": 0}')
    result = windlass(far, "debug", "a", "--image", "busybox", "--name", "look", "--keep", "--exec", "ls '/mnt/my dir'")
    assert result.exit_code == 0, result.output
    assert far.query == {"image": ["busybox"], "name": ["look"], "keep": ["1"], "command": ["ls", "/mnt/my dir"]}


def test_a_refusal_in_the_session_is_the_error_it_stands_for(far: Far) -> None:
    problem = {"status": 409, "code": "not-running", "detail": "job a is not running", "hint": "it is PENDING"}
    far.script = lambda socket: socket.send(json.dumps({"error": problem}))
    result = windlass(far, "exec", "a", "--", "true")
    assert result.exit_code == 5
    assert result.stderr == "error: job a is not running\nhint: it is PENDING\n"


def test_a_refusal_before_the_session_is_too(far: Far) -> None:
    far.refusal = (409, {"status": 409, "code": "busy", "detail": "somebody else is there"})
    with pytest.raises(Conflict, match="somebody else"):
        Client(Connection(url=far.url)).attach("a").__enter__()


def test_a_job_that_ends_before_we_are_attached_is_shown_by_its_log(far: Far, stub: Stub) -> None:
    problem = {"status": 409, "code": "not-running", "detail": "job quick is not running", "hint": "it is FAILED"}
    far.script = lambda socket: socket.send(json.dumps({"error": problem}))
    stub.jobs["quick"] = a_job("quick", status__state="RUNNING", spec__terminal=True)
    stub.lines["quick"], stub.exit_codes["quick"] = [("stdout", "hi")], 4
    client = Client(Connection(url=stub.url))
    client.attach = Client(Connection(url=far.url)).attach  # type: ignore[method-assign]
    with CliRunner().isolation() as (out, err, _):
        code = attach_when_running(client, client.job("quick"))
        assert (out.getvalue(), code) == (b"hi\n", 4), err.getvalue()


def test_a_job_that_ends_while_we_are_attached_is_not_shown_twice(far: Far, stub: Stub) -> None:
    def script(socket: ServerConnection) -> None:
        socket.send(b"\x01hi\n")
        ended(stub.jobs["quick"], 4)
        socket.send(json.dumps({"error": {"status": 409, "code": "conflict", "detail": "the run is over"}}))

    far.script = script
    stub.jobs["quick"] = a_job("quick", status__state="RUNNING", spec__terminal=True)
    stub.lines["quick"], stub.exit_codes["quick"] = [("stdout", "hi")], 4
    client = Client(Connection(url=stub.url))
    client.attach = Client(Connection(url=far.url)).attach  # type: ignore[method-assign]
    with CliRunner().isolation() as (out, err, _):
        code = attach_when_running(client, client.job("quick"))
        assert (out.getvalue(), code) == (b"hi\n", 4), err.getvalue()


def test_a_terminal_that_stays_silent_after_the_jobs_end_is_left_for_its_log(far: Far, stub: Stub) -> None:
    def script(socket: ServerConnection) -> None:
        ended(stub.jobs["quick"], 4)
        over.set()
        far.read(socket, lambda frame: False)

    over = threading.Event()
    far.script = script
    stub.jobs["quick"] = a_job("quick", status__state="RUNNING", spec__terminal=True)
    stub.lines["quick"], stub.exit_codes["quick"] = [("stdout", "hi")], 4
    client = Client(Connection(url=stub.url))
    client.attach = Client(Connection(url=far.url)).attach  # type: ignore[method-assign]
    stub.eventful["quick"] = over
    with CliRunner().isolation() as (out, err, _):
        code = attach_when_running(client, client.job("quick"))
        assert (out.getvalue(), code) == (b"hi\n", 4), err.getvalue()


@pytest.mark.parametrize(
    ("state", "status", "told", "code"),
    [
        ("SUCCEEDED", {"exitCode": 0, "reason": "Completed"}, "", 0),
        ("FAILED", {"exitCode": 7, "reason": "ExitCode"}, "", 7),
        ("FAILED", {"exitCode": 137, "reason": "OOMKilled"}, "sh FAILED: OOMKilled", 137),
        ("CANCELLED", {"reason": "Cancelled"}, "sh CANCELLED", exits.INTERRUPTED),
        ("TIMED_OUT", {"reason": "DeadlineExceeded"}, "sh TIMED_OUT", exits.TIMED_OUT),
    ],
)
def test_a_terminal_whose_job_did_not_end_by_itself_says_how(
    far: Far, stub: Stub, state: str, status: dict[str, Any], told: str, code: int
) -> None:
    """What its command ended with is then beside the point."""

    def script(socket: ServerConnection) -> None:
        socket.send(b"\x01hi\n")
        wait_for(lambda: seat.terminal is not None and seat.terminal.has_spoken, 60, "it to be shown")
        stub.jobs["sh"]["status"] |= {"state": state, **status}
        over.set()
        socket.send(json.dumps({"exit": status.get("exitCode", 0)}))

    over = stub.eventful["sh"] = threading.Event()
    far.script = script
    stub.jobs["sh"] = a_job("sh", status__state="RUNNING", spec__terminal=True)
    client, seat = Client(Connection(url=stub.url)), Seat(far)
    client.attach = seat.attach  # type: ignore[method-assign]
    with CliRunner().isolation() as (out, err, _):
        assert attach_when_running(client, client.job("sh")) == code
        assert out.getvalue() == b"hi\n"
        assert err.getvalue().decode().strip().startswith(told)
        assert bool(err.getvalue()) == bool(told)


@pytest.mark.parametrize("kind", ["terminal", "stdin"])
def test_who_is_told_that_it_was_taken_down_asks_a_server_that_is_gone_nothing_more(
    far: Far, stub: Stub, kind: str
) -> None:
    def script(socket: ServerConnection) -> None:
        socket.send(b"\x01hi\n")
        wait_for(lambda: seat.terminal is not None and seat.terminal.has_spoken, 60, "it to be shown")
        wait_for(lambda: "sh" in stub.listened_for, 60, "its end to be listened for")
        del stub.jobs["sh"]
        over.set()
        socket.send(json.dumps({"exit": 0}))

    words = "ended because the installation was taken down"
    stub.happened["sh"] = [{"revision": 9, "at": "", "kind": "JobCancelled", "reason": "TakenDown", "message": words}]
    over = stub.eventful["sh"] = threading.Event()
    far.script = script
    stub.jobs["sh"] = a_job("sh", status__state="RUNNING", **{f"spec__{kind}": True})
    client, seat = Client(Connection(url=stub.url)), Seat(far)
    client.attach = seat.attach  # type: ignore[method-assign]
    with CliRunner().isolation() as (out, err, _):
        assert attach_when_running(client, client.job("sh")) == exits.INTERRUPTED
        assert out.getvalue() == b"hi\n"
        assert "sh CANCELLED" in err.getvalue().decode()
        assert words in err.getvalue().decode()


def test_a_connection_that_a_job_takes_along_as_it_ends_is_its_end_and_no_error(far: Far, stub: Stub) -> None:
    def script(socket: ServerConnection) -> None:
        socket.send(b"\x01hi\n")
        wait_for(lambda: seat.terminal is not None and seat.terminal.has_spoken, 60, "it to be shown")
        ended(stub.jobs["head"], 2)
        over.set()
        socket.close(1011)

    over = stub.eventful["head"] = threading.Event()
    far.script = script
    stub.jobs["head"] = a_job("head", status__state="RUNNING", spec__stdin=True)
    client, seat = Client(Connection(url=stub.url)), Seat(far)
    client.attach = seat.attach  # type: ignore[method-assign]
    with CliRunner().isolation() as (out, err, _):
        assert attach_when_running(client, client.job("head")) == 2
        assert out.getvalue() == b"hi\n"
        assert "its log has all that it printed" in err.getvalue().decode()
        assert "head FAILED after 3.2s: exit code 2" in err.getvalue().decode()


def test_where_it_took_all_of_its_output_along_the_log_is_shown(far: Far, stub: Stub) -> None:
    def script(socket: ServerConnection) -> None:
        ended(stub.jobs["head"], 2)
        over.set()
        socket.close(1011)

    over = stub.eventful["head"] = threading.Event()
    far.script = script
    stub.jobs["head"] = a_job("head", status__state="RUNNING", spec__stdin=True)
    stub.lines["head"], stub.exit_codes["head"] = [("stdout", "hi")], 2
    client, seat = Client(Connection(url=stub.url)), Seat(far)
    client.attach = seat.attach  # type: ignore[method-assign]
    with CliRunner().isolation() as (out, err, _):
        assert attach_when_running(client, client.job("head")) == 2, err.getvalue()
        assert out.getvalue() == b"hi\n"


def test_debug_says_where_the_volume_is_also_beside_a_plain_process() -> None:
    assert whereabouts(a_job("sh")) == "the volume of sh is at /mnt; `exit` leaves"  # type: ignore[arg-type]
    plain = whereabouts(a_job("sh", spec__image=None))  # type: ignore[arg-type]
    assert plain == "the volume of sh is this directory: the job is a plain process; `exit` leaves"


def test_a_session_that_breaks_off_is_no_success(far: Far) -> None:
    far.script = lambda socket: socket.close(1011)
    with pytest.raises(Unavailable), Client(Connection(url=far.url)).attach("a") as terminal:
        list(terminal.output())


def test_no_server_is_said_so(free_port: Callable[[], int]) -> None:
    with pytest.raises(Unavailable) as caught:
        Client(Connection(url=f"http://127.0.0.1:{free_port()}")).attach("a").__enter__()
    assert caught.value.code == "unreachable"
