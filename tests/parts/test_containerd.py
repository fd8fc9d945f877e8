"""The containerd part takes images and runs containers."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts import busybox
from tests.parts.containerd import Containerd, CtrFailed


@pytest.fixture(scope="module")
def containerd() -> Iterator[Containerd]:
    with Containerd() as server:
        server.import_busybox()
        yield server


def test_an_imported_image_is_listed_under_its_full_name(containerd: Containerd) -> None:
    assert f"docker.io/{busybox.IMAGE}" in containerd.images()


def test_a_container_runs_and_tells_its_exit_code(containerd: Containerd) -> None:
    image = f"docker.io/{busybox.IMAGE}"
    assert containerd.ctr("run", "--rm", image, f"one-{secrets.token_hex(4)}", "echo", "hello") == "hello\n"
    with pytest.raises(CtrFailed) as failed:
        containerd.ctr("run", "--rm", image, f"two-{secrets.token_hex(4)}", "sh", "-c", "exit 7")
    assert failed.value.exit_code == 7


@pytest.mark.parametrize("dead", [False, True])
def test_containers_do_not_outlive_the_part(dead: bool) -> None:
    task = f"stays-{secrets.token_hex(4)}"
    with Containerd() as containerd:
        containerd.import_busybox()
        containerd.ctr("run", "--detach", f"docker.io/{busybox.IMAGE}", task, "sleep", "1000")
        pid = int(containerd.ctr("tasks", "list").splitlines()[1].split()[1])
        note = next((containerd.directory / "state").glob("io.containerd.runtime.v2.task/*/*/address"))
        socket = Path(note.read_text().strip().removeprefix("unix://"))
        assert socket.exists()
        if dead:
            containerd.kill()
    assert not socket.exists()
    assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()
    assert not containerd.directory.exists()
    assert not [path for path in Path("/sys/fs/cgroup").glob(f"*/default/{task}") if path.is_dir()]


def test_the_kubernetes_runtime_service_is_there_when_asked_for() -> None:
    with Containerd(cri=True) as containerd:
        plugins = containerd.ctr("plugins", "list").splitlines()
        assert any(
            line.split()[:2] == ["io.containerd.grpc.v1", "cri"] and line.split()[-1] == "ok" for line in plugins
        )
