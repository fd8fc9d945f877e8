"""`tools/parts`: silent where everything is there, one line per missing part where nothing may be installed."""

import subprocess

import pytest

from tests.parts import present
from tests.parts.dockerd import DockerEngine
from tests.parts.warden import ROOT

TOOL = ROOT / "tools" / "parts"


@pytest.mark.skipif(not present.must_be_complete(), reason="only root on Debian has every part")
def test_it_is_silent_when_everything_is_there() -> None:
    done = subprocess.run([TOOL], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.docker
def test_where_it_may_not_install_it_says_what_is_left_out(docker_engine: DockerEngine) -> None:
    # The test image is a machine with busybox, and nothing else, that is not Debian.
    ended = docker_engine.run("sh", "/tools/parts", HostConfig={"Binds": [f"{TOOL.parent}:/tools:ro"]})
    lines = ended.output.splitlines()
    assert ended.exit_code == 0
    assert "· no dockerd (docker.io): tests on a Docker Engine are left out" in lines
    assert "· no etcd (etcd-server): tests on etcd are left out" in lines
    assert not any("busybox" in line for line in lines)
    assert all(line.startswith("· no ") for line in lines)
