"""The Docker Engine part really runs containers, survives what tests do to it, and leaves nothing."""

import http.client
import subprocess
import time
from pathlib import Path

import pytest

from tests.parts import busybox, present
from tests.parts.dockerd import DockerEngine
from tests.parts.engine_api import EngineRefused
from tests.parts.waiting import wait_for

pytestmark = pytest.mark.docker


def test_a_container_runs_and_tells_its_exit_code(docker_engine: DockerEngine) -> None:
    ended = docker_engine.run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert ended.exit_code == 7
    assert sorted(ended.output.split()) == ["err", "out"]


def test_the_image_has_the_id_that_is_computed_without_an_engine(docker_engine: DockerEngine) -> None:
    assert docker_engine.images()[busybox.IMAGE] == busybox.image_id()


def test_extra_files_make_another_image(docker_engine: DockerEngine) -> None:
    other = docker_engine.import_busybox("windlass-test/other:1", files={"etc/motd": b"hello\n"})
    assert other == busybox.image_id(files={"etc/motd": b"hello\n"}) != busybox.image_id()
    assert docker_engine.run("cat", "/etc/motd", image="windlass-test/other:1").output == "hello\n"


def test_the_applets_that_tests_use_are_there(docker_engine: DockerEngine) -> None:
    wanted = "sh cat sleep echo ls seq head yes dd sha256sum env id"
    ended = docker_engine.run("sh", "-c", f"for a in {wanted}; do command -v $a || echo no $a; done; /usr/bin/env true")
    assert (ended.exit_code, "no " in ended.output) == (0, False)


def test_what_happened_is_in_the_events(docker_engine: DockerEngine) -> None:
    before = time.time()
    ended = docker_engine.run("sh", "-c", "exit 3")
    happened = docker_engine.events(before, type=["container"], container=[ended.id])
    assert [event["Action"] for event in happened] == ["create", "start", "die", "destroy"]
    assert happened[2]["Actor"]["Attributes"]["exitCode"] == "3"


def test_who_takes_more_memory_than_its_limit_is_killed(docker_engine: DockerEngine) -> None:
    limits = {"Memory": 32 << 20, "MemorySwap": 32 << 20, "PidsLimit": 20}
    # tail keeps the last line, and there is only one: it grows until the limit.
    container = docker_engine.create("sh", "-c", "cat /dev/zero | tail -n 1", HostConfig=limits)
    docker_engine.start_container(container)
    assert docker_engine.wait(container) == 137
    # The engine hears of the end and of its reason by two events.
    wait_for(lambda: docker_engine.inspect(container)["State"]["OOMKilled"], 120, "the engine to know the reason")
    docker_engine.remove_container(container)


def test_a_published_port_is_reached_on_loopback(docker_engine: DockerEngine) -> None:
    container = docker_engine.create(
        "httpd", "-f", "-p", "8000", "-h", "/etc",
        ExposedPorts={"8000/tcp": {}},
        HostConfig={"PortBindings": {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "0"}]}},
    )  # fmt: skip
    docker_engine.start_container(container)
    port = int(docker_engine.inspect(container)["NetworkSettings"]["Ports"]["8000/tcp"][0]["HostPort"])

    def page() -> bytes:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/passwd")
            return connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return b""

    assert wait_for(page, 120, "the published port to answer").startswith(b"root:")
    docker_engine.remove_container(container)


def test_an_image_that_is_not_there_is_refused(docker_engine: DockerEngine) -> None:
    with pytest.raises(EngineRefused) as refused:
        docker_engine.create("true", image="windlass-test/none:1")
    assert refused.value.status == 404


def test_containers_outlive_a_killed_engine_and_are_found_again() -> None:
    with DockerEngine() as engine:
        engine.import_busybox()
        container = engine.create("sleep", "1000")
        engine.start_container(container)
        pid = engine.inspect(container)["State"]["Pid"]
        engine.kill()
        assert not engine.answers()
        assert Path(f"/proc/{pid}/cmdline").read_text().startswith("sleep")
        engine.start()
        assert engine.inspect(container)["State"]["Pid"] == pid


def test_a_paused_engine_answers_nothing_until_it_is_resumed() -> None:
    with DockerEngine() as engine:
        engine.pause()
        assert not engine.answers(timeout=0.3)
        engine.resume()
        assert engine.answers()


def test_an_engine_with_a_network_of_its_own_keeps_tenants_apart() -> None:
    with DockerEngine(own_network=True) as engine:
        engine.import_busybox()
        for name in ("one", "two"):
            engine.call("POST", "/networks/create", body={"Name": name})
        web = engine.create("httpd", "-f", "-p", "80", "-h", "/etc", HostConfig={"NetworkMode": "one"})
        engine.start_container(web)
        address = engine.inspect(web)["NetworkSettings"]["Networks"]["one"]["IPAddress"]
        knock = f"nc -w 2 {address} 80 </dev/null >/dev/null 2>&1 && echo open || echo shut"
        told = [engine.run("sh", "-c", knock, HostConfig={"NetworkMode": name}).output for name in ("one", "two")]
        rules = subprocess.run(
            engine.inside(present.program("iptables"), "-S"), capture_output=True, text=True, check=True
        )
    assert told == ["open\n", "shut\n"]
    assert "DOCKER-ISOLATION-STAGE-2" in rules.stdout


@pytest.mark.parametrize("dead", [False, True])
def test_nothing_is_left_behind(dead: bool) -> None:
    with DockerEngine() as first, DockerEngine() as second:
        for engine in (first, second):
            engine.import_busybox()
            engine.call("POST", "/networks/create", body={"Name": "apart"})
            engine.start_container(engine.create("sleep", "1000", HostConfig={"NetworkMode": "apart"}))
        links = {_index(bridge) for bridge in first.slot.bridges()}
        assert len(links) == 2
        if dead:
            first.kill()
    assert not links & {_index(path.name) for path in Path("/sys/class/net").iterdir()}
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if str(first.directory) in line]
    assert not first.directory.exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{first.cgroup}"))


def _index(link: str) -> str:
    """The kernel never gives it twice, so a link with the same name made by someone else is told apart."""
    return Path("/sys/class/net", link, "ifindex").read_text()
