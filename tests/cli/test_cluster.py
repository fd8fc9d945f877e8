"""`egpu` and `windlass` spoken to a cluster: what a person reads when it is interrupted, refused or alone there."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.cluster import CORE, JOBS, Cluster, Shell, a_cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with a_cluster() as found:
        yield found


@pytest.fixture
def shell(cluster: Cluster, tmp_path: Path) -> Shell:
    return Shell(cluster, tmp_path)


def large(directory: Path) -> Path:
    directory.mkdir()
    (directory / "file").write_bytes(b"A" * (20 << 20))
    return directory


def test_an_interrupted_upload_ends_in_one_line_and_takes_the_job_back(
    cluster: Cluster, shell: Shell, tmp_path: Path
) -> None:
    cluster.stuck = "tee"
    process = shell.start("egpu", "create", "it", "--project-dir", str(large(tmp_path / "code")))
    assert cluster.has_begun.wait(30)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip()) == (130, "the upload did not finish; taking it back")
    assert (cluster.names(JOBS), cluster.names(f"{CORE}/pods")) == ([], [])


def test_an_interrupted_command_beside_a_job_ends_without_a_word(cluster: Cluster, shell: Shell) -> None:
    cluster.stuck = "sleep"
    cluster.put(f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "artifacts-it"}})
    process = shell.start("egpu", "debug", "it", "--exec", "sleep 100")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip(), cluster.names(f"{CORE}/pods")) == (130, "", [])
