"""A test run that is killed leaves nothing either."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.waiting import wait_for
from tests.parts.warden import ROOT

DOCKER_RUN = """
from tests.parts.dockerd import DockerEngine
part = DockerEngine().start()
part.import_busybox()
container = part.create("sleep", "1000")
part.start_container(container)
print(part.directory, part.inspect(container)["State"]["Pid"], part.slot.bridge, flush=True)
input()
"""

PODMAN_RUN = (
    DOCKER_RUN.replace("dockerd", "podman")
    .replace("DockerEngine", "PodmanService")
    .replace("part.slot.bridge", "'none'")
)


@pytest.mark.docker
@pytest.mark.podman
@pytest.mark.parametrize("program", [DOCKER_RUN, PODMAN_RUN], ids=["docker", "podman"])
def test_the_parts_of_a_killed_run_are_removed(program: str) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdin is not None
    assert run.stdout is not None
    directory, pid, bridge = run.stdout.readline().split()
    link = _index(bridge)
    assert Path(directory).is_dir()
    wait_for(lambda: _is_alive(pid), 120, "the container to have become its command")
    run.send_signal(signal.SIGKILL)
    run.communicate()
    wait_for(lambda: not Path(directory).exists(), 120, "the directory of the killed run to go")
    assert not _is_alive(pid)
    assert directory not in Path("/proc/mounts").read_text()
    assert not link or _index(bridge) != link


def _index(link: str) -> str:
    """The kernel never gives it twice, so a link with the same name made by someone else is told apart."""
    try:
        return Path("/sys/class/net", link, "ifindex").read_text()
    except OSError:
        return ""


def _is_alive(pid: str) -> bool:
    """Zombies have no command line."""
    try:
        return Path("/proc", pid, "cmdline").read_bytes().startswith(b"sleep\0")
    except OSError:
        return False
