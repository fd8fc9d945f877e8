"""The Podman part really runs containers behind the Docker Engine API, and leaves nothing."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.parts import busybox, present
from tests.parts.dockerd import DockerEngine
from tests.parts.podman import PodmanService
from tests.parts.registry import Registry
from tests.parts.waiting import wait_for

pytestmark = pytest.mark.podman


def test_a_container_runs_and_tells_its_exit_code(podman_service: PodmanService) -> None:
    ended = podman_service.run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert ended.exit_code == 7
    assert sorted(ended.output.split()) == ["err", "out"]


def test_the_image_is_the_same_as_on_docker_under_a_longer_name(podman_service: PodmanService) -> None:
    assert podman_service.images()[f"localhost/{busybox.IMAGE}"] == busybox.image_id()


def test_what_happened_is_in_the_events(podman_service: PodmanService) -> None:
    before = time.time()
    ended = podman_service.run("sh", "-c", "exit 3")
    happened = [event for event in podman_service.events(before) if event["Actor"]["ID"] == ended.id]
    assert [event["Action"] for event in happened] == ["create", "init", "start", "die", "cleanup", "remove"]
    assert happened[3]["Actor"]["Attributes"]["containerExitCode"] == "3"


def test_a_limit_reaches_the_container(podman_service: PodmanService) -> None:
    seen = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
    ended = podman_service.run("sh", "-c", seen, HostConfig={"Memory": 32 << 20})
    assert ended.output.split() == [str(32 << 20)]


def test_containers_on_a_network_find_each_other_and_publish_ports(podman_service: PodmanService) -> None:
    podman_service.call("POST", "/networks/create", body={"Name": "apart"})
    web = podman_service.create(
        "httpd", "-f", "-p", "8000", "-h", "/etc",
        name="web",
        ExposedPorts={"8000/tcp": {}},
        HostConfig={"NetworkMode": "apart", "PortBindings": {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "0"}]}},
    )  # fmt: skip
    podman_service.start_container(web)
    port = int(podman_service.inspect(web)["NetworkSettings"]["Ports"]["8000/tcp"][0]["HostPort"])
    assert wait_for(lambda: _page(podman_service, port), 120, "the published port to answer").startswith("root:")
    found = podman_service.run("nslookup", "web", HostConfig={"NetworkMode": "apart"})
    assert podman_service.inspect(web)["NetworkSettings"]["Networks"]["apart"]["IPAddress"] in found.output
    podman_service.remove_container(web)


def test_it_pulls_from_a_registry_on_loopback(
    podman_service: PodmanService, docker_engine: DockerEngine, registry: Registry
) -> None:
    name = f"{registry.address}/team/busybox:1"
    docker_engine.tag(busybox.IMAGE, name)
    docker_engine.push(name)
    podman_service.pull(name)
    assert podman_service.images()[name] == busybox.image_id()
    podman_service.remove_image(name)
    docker_engine.remove_image(name)


def test_the_machine_keeps_its_own_rules(podman_service: PodmanService) -> None:
    podman_service.run("true")
    held = subprocess.run(
        podman_service.inside(present.program("iptables"), "-S"), capture_output=True, text=True, check=True
    )
    assert "NETAVARK" in held.stdout
    assert os.readlink("/proc/self/ns/net") == os.readlink(f"/proc/{podman_service.pid}/ns/net")


def test_containers_outlive_the_service_and_nothing_outlives_the_part() -> None:
    with PodmanService() as podman:
        podman.import_busybox()
        container = podman.create("sleep", "1000")
        podman.start_container(container)
        pid = podman.inspect(container)["State"]["Pid"]
        _execute_in_background(podman, container)
        assert _mentioning(podman.directory)
        podman.kill()
        assert not podman.answers()
        podman.start()
        assert podman.inspect(container)["State"]["Running"]
        podman.kill()
    assert not Path(f"/proc/{pid}/exe").exists() or "busybox" not in str(Path(f"/proc/{pid}/exe").readlink())
    assert not podman.directory.exists()
    assert _mentioning(podman.directory) == []
    assert not list(Path("/sys/fs/cgroup").glob(f"*/libpod_parent/libpod-{container}"))


def _page(podman: PodmanService, port: int) -> str:
    fetch = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/passwd', timeout=5).read().decode())"
    return subprocess.run(
        podman.inside(sys.executable, "-c", fetch), capture_output=True, text=True, check=False
    ).stdout


def _execute_in_background(podman: PodmanService, container: str) -> None:
    answer = podman.call("POST", f"/containers/{container}/exec", body={"Cmd": ["sleep", "1000"], "AttachStdout": True})
    podman.call("POST", f"/exec/{json.loads(answer)['Id']}/start", body={"Detach": True})


def _mentioning(directory: Path) -> list[str]:
    """The command lines of the living processes that name the directory."""
    told = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            told.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in told if str(directory) in line]
