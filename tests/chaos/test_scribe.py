"""The read model's writer beside the server: lost, it is replaced by the server itself; with the server, it ends."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import WindlassServer
from tests.parts.waiting import wait_for
from windlass.client.client import Client

DEADLINE_SECONDS = 60


@pytest.fixture
def server() -> Iterator[WindlassServer]:
    with WindlassServer() as running:
        yield running


def test_a_lost_scribe_costs_speed_and_nothing_else(server: WindlassServer) -> None:
    client = server.client()
    before = [_submit(client, number) for number in range(20)]
    _end(scribe_of(server))
    after = [_submit(client, number) for number in range(20, 40)]
    _stands_whole(client, before + after)
    assert "readmodel.scribe-lost" in server.log.read_text()


def test_a_scribe_that_stands_still_delays_no_answer_but_what_is_new(server: WindlassServer) -> None:
    client = server.client()
    before = [_submit(client, number) for number in range(5)]
    _stands_whole(client, before)
    scribe = scribe_of(server)
    os.kill(scribe, signal.SIGSTOP)
    try:
        after = [_submit(client, number) for number in range(5, 8)]
        assert set(_listed(client)) >= set(before)
    finally:
        os.kill(scribe, signal.SIGCONT)
    _stands_whole(client, before + after)


def test_a_scribe_killed_while_jobs_pour_in_leaves_each_of_them_once(server: WindlassServer) -> None:
    client = server.client()
    jobs = []
    for number in range(60):
        if number == 30:
            os.kill(scribe_of(server), signal.SIGKILL)  # and on without waiting: it may hold a commit half taken in
        jobs.append(_submit(client, number))
    _stands_whole(client, jobs)


def test_the_scribe_ends_with_a_killed_server_and_the_next_one_goes_on(server: WindlassServer) -> None:
    before = [_submit(server.client(), number) for number in range(5)]
    scribe = scribe_of(server)
    server.kill()
    wait_for(lambda: not _is_there(scribe), DEADLINE_SECONDS, "the scribe to follow its server")
    server.start()
    after = [_submit(server.client(), number) for number in range(5, 10)]
    _stands_whole(server.client(), before + after)


def test_a_stopped_scribe_of_a_killed_server_does_not_hold_up_the_next_one(server: WindlassServer) -> None:
    before = [_submit(server.client(), number) for number in range(5)]
    old = scribe_of(server)
    os.kill(old, signal.SIGSTOP)
    server.kill()
    server.start()
    after = [_submit(server.client(), number) for number in range(5, 10)]
    _stands_whole(server.client(), before + after)
    wait_for(lambda: not _is_there(old), DEADLINE_SECONDS, "the old scribe to be gone")
    assert _is_there(scribe_of(server))
    assert "readmodel.scribe-lost" not in server.log.read_text()


def test_the_scribe_ends_with_a_server_that_stops(server: WindlassServer) -> None:
    scribe = scribe_of(server)
    server.stop()
    wait_for(lambda: not _is_there(scribe), DEADLINE_SECONDS, "the scribe to follow its server")


def _submit(client: Client, number: int) -> str:
    spec = {"command": ["true"], "suspend": True, "resources": {"cpu": "10m", "memory": "8Mi"}}
    document = {"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {"name": f"kept-{number}"}, "spec": spec}
    return client.create(document)["metadata"]["uid"]


def _stands_whole(client: Client, jobs: list[str]) -> None:
    """Each job once in the list, and each one's acceptance once in the record."""
    listed = wait_for(lambda: (found := _listed(client)) and len(found) >= len(jobs) and found, DEADLINE_SECONDS, "all")
    assert Counter(listed) == Counter(jobs)
    accepted = Counter(event["job"] for event in client.recorded(last=1000)["items"] if "job" in event)
    assert accepted == Counter(jobs)


def _listed(client: Client) -> list[str]:
    return [job["metadata"]["uid"] for job in client.jobs()]


def scribe_of(server: WindlassServer) -> int:
    """Named by itself, a moment after it was made."""
    [found] = wait_for(lambda: _scribes_of(server.pid), DEADLINE_SECONDS, "a scribe with its own name")
    return found


def _scribes_of(server: int) -> list[int]:
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return [int(pid) for pid in children if _name_of(pid) == "windlass-scribe"]


def _name_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # another child, that went while we looked
        return ""


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not _is_there(pid), DEADLINE_SECONDS, "the scribe to be gone")


def _is_there(pid: int) -> bool:
    """One that ended and was not waited for is gone all the same."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
