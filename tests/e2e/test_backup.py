"""A backup of a server that runs, and the way back: all that was acknowledged is there, and nothing of then has authority."""

import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import WindlassServer
from tests.parts.waiting import wait_for
from windlass.cli import exits
from windlass.client.client import Client
from windlass.client.connection import Connection
from windlass.core.errors import Unauthenticated

DEADLINE_SECONDS = 90


@pytest.fixture
def server() -> Iterator[WindlassServer]:
    with WindlassServer() as running:
        yield running


def test_what_was_alive_is_reported_lost_and_never_begun_again(server: WindlassServer, tmp_path: Path) -> None:
    client, marks, saved = server.client(), tmp_path / "marks", tmp_path / "saved.tar"
    _submit(client, "done", "true")
    _submit(client, "alive", "sh", "-c", f"echo x >> {marks}; sleep 3600")
    _submit(client, "held", "sleep", "3600", suspend=True)
    _until(client, "done", "SUCCEEDED")
    _until(client, "alive", "RUNNING")
    wait_for(marks.exists, DEADLINE_SECONDS, "its mark")
    token = client.issue_token("local", role="member", ttl="1h", subject=None)["token"]
    server.cli("backup", str(saved))
    assert saved.stat().st_mode & 0o777 == 0o600
    _submit(client, "unknown-to-it", "true")
    before = _epoch(server)
    server.kill()
    with _restored(server, saved, tmp_path) as again:
        found = again.client()
        wait_for(
            lambda: found.job("alive")["status"]["state"] == "FAILED", DEADLINE_SECONDS, "the end of what was alive"
        )
        states = {job["metadata"]["name"]: job["status"]["state"] for job in found.jobs()}
        assert states == {"done": "SUCCEEDED", "alive": "FAILED", "held": "PENDING"}
        assert found.job("alive")["status"]["reason"] == "Vanished"
        silent = again.cli("logs", "done", check=False)
        assert (silent.code, "no part of a backup" in silent.err) == (exits.NOT_FOUND, True)
        assert marks.read_text() == "x\n"
        assert _epoch(again) > before + 1000
        with pytest.raises(Unauthenticated):
            Client(Connection(url=_url(again), token=token)).jobs().__next__()
        _submit(found, "new", "true")
        _until(found, "new", "SUCCEEDED")


def test_a_backup_under_load_holds_every_job_that_was_acknowledged_before_it(
    server: WindlassServer, tmp_path: Path
) -> None:
    client, saved = server.client(), tmp_path / "saved.tar"
    for number in range(40):
        _submit(client, f"job-{number}", "true", suspend=number % 2 == 0)
    server.cli("backup", str(saved), "--blobs")
    server.kill()
    with _restored(server, saved, tmp_path, "--keep-tokens") as again:
        assert {f"job-{number}" for number in range(40)} <= {job["metadata"]["name"] for job in again.client().jobs()}


def test_refusals_say_what_is_in_the_way_and_leave_nothing(server: WindlassServer, tmp_path: Path) -> None:
    saved = tmp_path / "saved.tar"
    server.cli("backup", str(saved))
    again = server.cli("backup", str(saved), check=False)
    assert (again.code, "is there already" in again.err) == (exits.CONFLICT, True)
    in_use = server.cli("restore", str(saved), check=False)
    assert (in_use.code, "already uses" in in_use.err) == (exits.CONFLICT, True)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").touch()
    refused = server.cli("restore", str(saved), "--data-dir", str(full), check=False)
    assert (refused.code, "is not empty: mine" in refused.err) == (exits.CONFLICT, True)
    whole = saved.read_bytes()
    for number, cut in enumerate((0, 100, 600, 5000, len(whole) // 2)):
        saved.write_bytes(whole[:cut])
        target = tmp_path / f"cut-{number}"
        torn = server.cli("restore", str(saved), "--data-dir", str(target), check=False)
        assert torn.code == exits.GENERAL
        assert "no whole backup" in torn.err
        assert os.listdir(target) == ["lock"]


def test_an_archive_that_would_write_elsewhere_is_no_backup(server: WindlassServer, tmp_path: Path) -> None:
    saved, forged = tmp_path / "saved.tar", tmp_path / "forged.tar"
    server.cli("backup", str(saved))
    for name in ("../outside", "keys/../../outside", "/etc/outside", "node/journal", "keys/data-key-1"):
        with tarfile.open(saved) as whole, tarfile.open(forged, "w") as made:
            for entry in whole:
                made.addfile(entry, whole.extractfile(entry))
            extra = tarfile.TarInfo(name)
            made.addfile(extra)
        done = server.cli("restore", str(forged), "--data-dir", str(tmp_path / "target"), check=False)
        assert done.code == exits.GENERAL, name
        assert "does not belong" in done.err
        assert os.listdir(tmp_path / "target") == ["lock"]


def _restored(server: WindlassServer, saved: Path, tmp_path: Path, *flags: str) -> WindlassServer:
    again = WindlassServer(directory=tmp_path / "again")
    server.cli("restore", str(saved), "--data-dir", str(again.data), *flags)
    return again


def _submit(client: Client, name: str, *command: str, suspend: bool = False) -> None:
    needs = {"cpu": "10m", "memory": "8Mi"}
    spec = {"command": list(command), "suspend": suspend, "resources": needs}
    client.create({"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})


def _until(client: Client, name: str, state: str) -> None:
    wait_for(lambda: client.job(name)["status"]["state"] == state, DEADLINE_SECONDS, f"{name} to be {state}")


def _epoch(server: WindlassServer) -> int:
    notes = (server.data / "node/journal").read_text().splitlines()
    return max(json.loads(note).get("epoch", 0) for note in notes)


def _url(server: WindlassServer) -> str:
    url: str = json.loads((server.data / "client.json").read_text())["url"]
    return url
