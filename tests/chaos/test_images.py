"""The files of a server as a cut finds them, copied while clients submit: each copy is a server with all that was acknowledged.

That the store loses nothing with what the disk had not synced is shown in `tests/store/test_power_cut.py`; here the rest is
put on top of it: the server, its doors and its brain.
"""

import os
import shutil
import signal
from pathlib import Path

from tests.chaos.clients import Submitters
from tests.chaos.test_scribe import scribe_of
from tests.e2e.server import WindlassServer
from tests.parts.waiting import wait_for

CUTS = 3
CLIENTS = 16
JOBS_PER_CUT = 150
DEADLINE_SECONDS = 120
MANIFEST = {
    "apiVersion": "windlass.dev/v1",
    "kind": "Job",
    "metadata": {},
    "spec": {"command": ["true"], "suspend": True, "resources": {"cpu": "10m", "memory": "8Mi"}},
}


def test_a_copy_of_the_files_taken_while_clients_submit_is_a_server_with_every_acknowledged_job(tmp_path: Path) -> None:
    taken: list[tuple[Path, set[str]]] = []
    with WindlassServer() as server, Submitters(server, MANIFEST, count=CLIENTS) as clients:
        for number in range(CUTS):
            before = len(clients.acknowledged)
            clients.allow(2 * JOBS_PER_CUT)  # more than are waited for: some are on their way when it is cut
            wait_for(
                lambda wanted=before + JOBS_PER_CUT: len(clients.acknowledged) >= wanted, DEADLINE_SECONDS, "the jobs"
            )
            acknowledged = clients.uids  # first this, then the copy: the other way round would accuse the innocent
            taken.append((_copy(server, tmp_path / f"cut-{number}"), acknowledged))
        assert clients.failures == []
    for directory, acknowledged in taken:
        with WindlassServer(directory=directory) as found:
            held = {job["metadata"]["uid"] for job in found.client().jobs()}
            assert len(acknowledged) >= JOBS_PER_CUT
            assert acknowledged <= held, f"{len(acknowledged - held)} acknowledged jobs are not in {directory.name}"
            assert found.client().create(MANIFEST)["metadata"]["uid"] not in held


def _copy(server: WindlassServer, directory: Path) -> Path:
    """Of one moment: nothing of the server moves while it is copied, and whatever it was writing is half written."""
    scribe = scribe_of(server)
    server.pause()
    os.kill(scribe, signal.SIGSTOP)
    try:
        wait_for(lambda: _state_of(scribe) == "T", DEADLINE_SECONDS, "its scribe to stand still")
        shutil.copytree(server.data, directory / "data", ignore=_sockets)
    finally:
        os.kill(scribe, signal.SIGCONT)
        server.resume()
    return directory


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _sockets(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(directory) / name).is_socket()]
