"""The client against a server that misbehaves: what is retried, what is kept, what is never lost or doubled."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.stub import Stub, a_job, problem

from windlass.client.client import BEGINNING, Client
from windlass.client.connection import Connection, find
from windlass.client.pack import Project, SingleFile
from windlass.client.problems import UNREACHABLE, request_id
from windlass.client.retry import Backoff, Patience
from windlass.client.transport import Transport
from windlass.core.errors import (
    Conflict,
    Denied,
    Fault,
    Invalid,
    NotFound,
    OverLimit,
    TooLarge,
    Unauthenticated,
    Unavailable,
    WindlassError,
)


def impatient(stub: Stub, waits: list[float]) -> Client:
    """Its waits take no time and are written down; a minute of budget is used up by waiting alone."""

    def backoff(patience: Patience, *, is_known: bool) -> Backoff:
        return Backoff(
            patience, is_known=is_known, monotonic=lambda: sum(waits), sleep=waits.append, chance=lambda: 1.0
        )

    connection = Connection(url=stub.url, token="t0ken")
    patience = Patience(stranger_seconds=60, known_seconds=60)
    return Client(connection, transport=Transport(connection, patience=patience, backoff=backoff))


def test_a_create_is_repeated_with_the_same_key_until_the_server_is_back(stub: Stub) -> None:
    unavailable = (*problem(503, "unavailable", "the store is away"), {"Retry-After": "2"})
    stub.script("POST /api/v1/jobs", unavailable, (0, None), unavailable)
    waits: list[float] = []
    job = impatient(stub, waits).create({"kind": "Job", "metadata": {"name": "a"}, "spec": {}})
    assert job["metadata"]["name"] == "a"
    keys = [asked.headers["Idempotency-Key"] for asked in stub.requests("POST")]
    assert len(keys) == 4
    assert len(set(keys)) == 1
    assert waits[0] == 2.0, "Retry-After is respected"


def test_what_may_not_be_repeated_is_not_when_its_answer_is_lost(stub: Stub) -> None:
    client = impatient(stub, [])
    client.page()  # the connection is kept
    stub.script("POST /api/v1/pools/p/scale", (0, None))
    with pytest.raises(Unavailable):
        client.scale_pool("p", 2)
    assert len(stub.requests("POST")) == 1


def test_a_server_that_stays_unavailable_is_given_up_with_its_own_words(stub: Stub) -> None:
    stub.script("GET", *[(*problem(503, "unavailable", "the disk is full"), {"Retry-After": "9"})] * 50)
    with pytest.raises(Unavailable, match="the disk is full"):
        impatient(stub, []).job("a")
    assert 2 <= len(stub.asked) <= 10


def test_a_list_that_is_behind_is_asked_for_again_and_taken_as_it_is_in_the_end(stub: Stub) -> None:
    stale = {"Windlass-Stale": "true"}
    stub.script("GET", (200, {"items": [], "next": None}, stale), (200, {"items": [a_job("a")], "next": None}))
    waits: list[float] = []
    assert [job["metadata"]["name"] for job in impatient(stub, waits).jobs()] == ["a"]
    stub.script("GET", *[(200, {"items": [], "next": None}, stale)] * 50)
    assert list(impatient(stub, waits).jobs()) == []
    assert 5 <= sum(waits) <= 12


def test_a_server_that_is_busy_is_no_stranger_from_its_first_answer_on(stub: Stub) -> None:
    behind = (*problem(503, "read-model-behind", "the read model is behind"), {"Retry-After": "1"})
    stub.script("GET", behind)
    stub.script("POST", behind)
    stub.jobs["a"] = a_job("a")
    connection, waits = Connection(url=stub.url, token="t0ken"), list[float]()

    def backoff(patience: Patience, *, is_known: bool) -> Backoff:
        return Backoff(patience, is_known=is_known, monotonic=lambda: sum(waits), sleep=waits.append)

    client = Client(connection, transport=Transport(connection, backoff=backoff))
    assert client.job("a")["metadata"]["name"] == "a"
    assert client.cancel("a")["status"]["state"] == "CANCELLED", "it had not come to cancel it"


def test_a_quota_refusal_is_not_repeated(stub: Stub, client: Client) -> None:
    stub.script("POST", (*problem(429, "quota-jobs", "10 of 10 jobs are in use"), {"Retry-After": "30"}))
    with pytest.raises(OverLimit) as caught:
        client.create({"kind": "Job", "metadata": {}, "spec": {}})
    assert caught.value.retry_after_seconds == 30
    assert len(stub.asked) == 1


def test_an_address_where_nothing_listens_is_told_apart(free_port: Callable[[], int]) -> None:
    with pytest.raises(Unavailable) as caught:
        Client(Connection(url=f"http://127.0.0.1:{free_port()}")).job("a")
    assert caught.value.code == UNREACHABLE
    assert "nothing listens there" in caught.value.message
    assert "windlass up" in (caught.value.hint or "")


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8080", "http://", "http://h:port", "http://h/?q=1"])
def test_what_is_no_address_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(Invalid, match="is not the address of a server"):
        Client(Connection(url=url))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (401, Unauthenticated),
        (403, Denied),
        (404, NotFound),
        (409, Conflict),
        (413, TooLarge),
        (429, OverLimit),
        (500, WindlassError),
    ],
)
def test_a_refusal_becomes_the_error_it_was_made_from(stub: Stub, client: Client, status: int, kind: type) -> None:
    more = {"hint": "do this", "faults": [{"field": "spec.image", "message": "expected a text"}]}
    stub.script("GET", problem(status, "some-code", "no, because", **more))
    with pytest.raises(WindlassError) as caught:
        client.job("a")
    error = caught.value
    assert type(error) is kind
    assert (error.message, error.code, error.hint) == ("no, because", "some-code", "do this")
    assert error.faults == (Fault("spec.image", "expected a text"),)
    assert request_id(error) == "r-1"


def test_an_answer_that_is_no_problem_document_is_still_an_error(stub: Stub, client: Client) -> None:
    stub.script("GET", (418, b"<html>teapot</html>"))
    with pytest.raises(WindlassError, match="HTTP 418"):
        client.job("a")


def test_an_answer_that_is_not_json_says_that_this_is_no_windlass(stub: Stub, client: Client) -> None:
    stub.script("GET", (200, b"<html>welcome</html>"))
    with pytest.raises(WindlassError, match="is this address a Windlass server"):
        client.job("a")


def test_the_highest_revision_seen_is_sent_back(stub: Stub, client: Client) -> None:
    stub.jobs["a"] = a_job("a")
    stub.revision = 41
    client.job("a")
    stub.revision = 12
    client.job("a")
    client.job("a")
    assert [asked.headers.get("Windlass-Revision") for asked in stub.asked] == [None, "41", "41"]


def test_names_cannot_reach_another_route(stub: Stub, client: Client) -> None:
    with pytest.raises(NotFound):
        client.job("../volumes?x=1#y")
    assert stub.asked[0].path == "/api/v1/jobs/../volumes?x=1#y", "it arrives as one quoted segment"
    assert stub.asked[0].query == {}


@pytest.mark.parametrize("cuts", [[0], [1], [3], [0, 0, 2, 1], [99]])
@pytest.mark.parametrize("repeated", [0, 2])
def test_a_broken_log_stream_resumes_without_loss_or_doubling(stub: Stub, cuts: list[int], repeated: int) -> None:
    stub.jobs["a"] = a_job("a")
    stub.lines["a"] = [("stdout", f"line {i}") for i in range(10)]
    stub.cut_logs_after, stub.repeats_after_resume = list(cuts), repeated
    followed = impatient(stub, []).logs("a", follow=True, after=BEGINNING)
    assert [line["text"] for line in followed] == [f"line {i}" for i in range(10)]
    assert followed.end == {"state": "SUCCEEDED", "exitCode": 0}
    assert followed.events.breaks == sum(cut < 10 for cut in cuts)


def test_a_resumed_tail_does_not_count_from_the_end_again(stub: Stub) -> None:
    stub.jobs["a"] = a_job("a")
    stub.lines["a"] = [("stdout", f"line {i}") for i in range(10)]
    stub.cut_logs_after = [2]
    followed = impatient(stub, []).logs("a", follow=True, tail=5)
    assert [line["text"] for line in followed] == [f"line {i}" for i in range(5, 10)]
    assert "tail" not in stub.requests("GET")[1].query


def test_a_stream_that_is_sent_away_for_now_comes_back(stub: Stub) -> None:
    stub.jobs["a"] = a_job("a")
    stub.lines["a"] = [("stdout", f"line {i}") for i in range(5)]
    stub.log_errors = [{"status": 503, "code": "follower-behind", "detail": "this follower fell behind"}] * 2
    followed = impatient(stub, []).logs("a", follow=True, after=BEGINNING)
    assert [line["text"] for line in followed] == [f"line {i}" for i in range(5)]
    assert followed.events.breaks == 2


def test_an_error_within_a_stream_is_the_error_it_stands_for(stub: Stub, client: Client) -> None:
    stub.jobs["a"] = a_job("a")
    stub.lines["a"] = [("stdout", "x"), ("stdout", "y")]
    stub.log_errors = [{"status": 404, "code": "not-found", "detail": "no job a"}]
    with pytest.raises(NotFound, match="no job a"):
        list(client.logs("a", follow=True))


def test_a_connection_that_held_has_its_whole_patience_however_long_it_was_silent() -> None:
    now = [0.0]
    backoff = Backoff(
        Patience(known_seconds=30, first_delay_seconds=1, delay_seconds_max=1),
        is_known=True,
        monotonic=lambda: now[0],
        sleep=lambda seconds: now.__setitem__(0, now[0] + seconds),
        chance=lambda: 1.0,
    )
    for _ in range(3):  # a job that says nothing for ten minutes, and a server that restarts every time
        backoff.connected()
        now[0] += 600
        assert sum(backoff.again() for _ in range(30)) == 30
        assert not backoff.again()
    for _ in range(100):  # one that lets in and sends away at once is not one that held
        backoff.connected()
        assert not backoff.again()


def test_a_stream_that_never_lives_is_given_up(stub: Stub) -> None:
    stub.jobs["a"] = a_job("a")
    stub.lines["a"] = [("stdout", "never seen")]
    stub.cut_logs_after = [0] * 1000
    with pytest.raises(Unavailable, match="breaks off again and again"):
        list(impatient(stub, []).logs("a", follow=True))


def test_an_upload_is_the_directory_and_its_digest(stub: Stub, client: Client, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "data.bin").write_bytes(bytes(range(256)) * 5000)
    stub.jobs["a"] = a_job("a", spec__suspend=True)
    told: list[int] = []
    project = Project(tmp_path, on_sent=told.append)
    stored = client.upload("a", project, digest=project.digest())
    assert len(stub.uploads[""]) == project.length == sum(told)
    assert hashlib.sha256(stub.uploads[""]).hexdigest() == project.digest()
    assert stored["entries"] == 2


def test_an_upload_that_broke_off_is_sent_again_from_the_start(stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 100_000)
    stub.jobs["a"] = a_job("a", spec__suspend=True)
    stub.script("PUT", (0, None))
    file = SingleFile(tmp_path / "f")
    impatient(stub, []).upload("a", file, path="f", digest=file.digest())
    assert stub.uploads["f"] == b"x" * 100_000


def test_a_server_that_stored_something_else_is_not_believed(stub: Stub, client: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    stub.jobs["a"] = a_job("a", spec__suspend=True)
    stub.script("PUT", (200, {"digest": "sha256:00", "size": 1, "entries": 1}))
    file = SingleFile(tmp_path / "f")
    with pytest.raises(Conflict) as caught:
        client.upload("a", file, path="f", digest=file.digest())
    assert caught.value.code == "digest-mismatch"


def test_a_server_that_dropped_an_entry_is_not_believed(stub: Stub, client: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    stub.jobs["a"] = a_job("a", spec__suspend=True)
    stub.script("PUT", (200, {"digest": "sha256:00", "size": 1, "entries": 0}))
    project = Project(tmp_path)
    with pytest.raises(Conflict):
        client.upload("a", project, digest=project.digest())


def test_a_download_that_breaks_off_is_an_error_and_no_short_file(stub: Stub, client: Client, tmp_path: Path) -> None:
    from windlass.client.unpack import save

    stub.jobs["a"] = a_job("a")
    stub.script("GET /api/v1/jobs/a/artifacts", (200, b"half", {"Content-Length": "8"}))
    with pytest.raises(Unavailable, match="broke off"), client.download("a", "f", form="file") as stream:
        save(stream, tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("empty", ["", " ", "\n"])
def test_an_empty_token_is_refused_and_not_replaced_by_the_admins(empty: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("admins")
    (tmp_path / "client.json").write_text(
        json.dumps({"url": "http://127.0.0.1:1", "token_file": str(tmp_path / "token")})
    )
    assert find({}, data_dir=str(tmp_path)).token == "admins"
    with pytest.raises(Invalid, match="--token is empty"):
        find({}, token=empty, data_dir=str(tmp_path))
