"""What a container of ours looks like: the create call as a pure function, and what never reaches an engine."""

from typing import Any

import pytest

from windlass.adapters.runtime.docker.engine import Facts
from windlass.adapters.runtime.docker.hardening import debug_container, environment, helper_container, run_container
from windlass.adapters.runtime.docker.labels import Owner, read_token
from windlass.core.errors import Invalid
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import JobId, RunId, TenantId, VolumeId
from windlass.core.model.job import JobSpec
from windlass.core.model.resources import Resources
from windlass.core.model.run import Intent, Token

OWNER = Owner(installation="inst", node="n1")
DOCKER = Facts(
    is_podman=False, version="28.1", cpus=2, memory_bytes=1 << 34, log_drivers=frozenset({"local", "json-file"})
)
PODMAN = Facts(is_podman=True, version="4.3", cpus=2, memory_bytes=1 << 34, log_drivers=frozenset({"k8s-file", "none"}))


def an_assignment(**changes: Any) -> Assignment:
    own = {key: changes.pop(key) for key in tuple(changes) if key in Assignment.__struct_fields__}
    spec: dict[str, Any] = {"image": "busybox:1", "needs": Resources(cpu_millis=1500, memory_bytes=256 << 20)}
    fields: dict[str, Any] = {
        "run": RunId("job-2"),
        "job": JobId("job"),
        "tenant": TenantId("acme"),
        "name": "train",
        "token": Token(5, 77),
        "intent": Intent.RUN,
        "volume": VolumeId("job"),
        "attempt": 2,
        "spec": JobSpec(**(spec | changes)),
    }
    return Assignment(**(fields | own))


def config(facts: Facts = DOCKER, **changes: Any) -> dict[str, Any]:
    return run_container(an_assignment(**changes), owner=OWNER, facts=facts)


def test_every_container_is_hardened() -> None:
    host = config()["HostConfig"]
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["PidsLimit"] == 4096
    assert host["Memory"] == host["MemorySwap"] == 256 << 20
    assert host["NanoCpus"] == 1_500_000_000
    assert host["RestartPolicy"] == {"Name": "no"}
    assert host["Init"] is True
    assert "Binds" not in host
    assert "CapAdd" not in host
    assert [mount["Type"] for mount in host["Mounts"]] == ["volume"]


def test_a_debug_shell_is_hardened_as_a_run_is() -> None:
    body = debug_container(
        VolumeId("v"), image="busybox:1", command=("sh",), labels={"x": "y"}, owner=OWNER, facts=DOCKER
    )
    same = ("Privileged", "CapDrop", "SecurityOpt", "RestartPolicy", "Init", "LogConfig")
    assert {key: body["HostConfig"][key] for key in same} == {key: config()["HostConfig"][key] for key in same}
    assert body["HostConfig"]["Memory"] > 0
    assert body["HostConfig"]["PidsLimit"] > 0
    assert body["HostConfig"]["Mounts"][0]["Target"] == "/mnt"
    assert body["Labels"] == {"x": "y"} | OWNER.labels


def test_a_callers_label_cannot_pass_for_another_owner() -> None:
    labels = {"windlass.dev/installation": "theirs"}
    body = debug_container(VolumeId("v"), image="busybox:1", command=(), labels=labels, owner=OWNER, facts=DOCKER)
    assert OWNER.owns(body["Labels"])


def test_a_helper_has_no_network_and_its_volume_in_a_label() -> None:
    body = helper_container(VolumeId("v"), image="scratch", owner=OWNER)
    assert body["HostConfig"]["NetworkMode"] == "none"
    assert body["Labels"] == OWNER.labels | {"windlass.dev/helper": "windlass-v"}


def test_all_labels_are_there() -> None:
    assert config()["Labels"] == {
        "windlass.dev/installation": "inst",
        "windlass.dev/node": "n1",
        "windlass.dev/run": "job-2",
        "windlass.dev/job": "job",
        "windlass.dev/tenant": "acme",
        "windlass.dev/token": "5.77",
        "windlass.dev/name": "train",
        "windlass.dev/attempt": "2",
    }


@pytest.mark.parametrize(
    ("labels", "is_ours"),
    [
        (OWNER.labels, True),
        (OWNER.labels | {"more": "x"}, True),
        ({"windlass.dev/installation": "inst"}, False),
        ({"windlass.dev/node": "n1"}, False),
        ({"windlass.dev/installation": "inst", "windlass.dev/node": "n2"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_both_labels_make_it_ours(labels: dict[str, str] | None, is_ours: bool) -> None:
    assert OWNER.owns(labels) is is_ours


@pytest.mark.parametrize(
    ("text", "token"), [("5.77", Token(5, 77)), ("5", None), ("", None), ("a.b", None), ("-1.2", None)]
)
def test_a_token_is_read_back_from_its_label(text: str, token: Token | None) -> None:
    assert read_token({"windlass.dev/token": text}) == token


def test_the_command_stands_for_entrypoint_and_command() -> None:
    given = config(command=("python", "-c", "print(1)"))
    assert (given["Entrypoint"], given["Cmd"]) == (["python"], ["-c", "print(1)"])
    left = config()
    assert "Entrypoint" not in left
    assert "Cmd" not in left


def test_no_network_is_none() -> None:
    assert config(wants_network=False)["HostConfig"]["NetworkMode"] == "none"
    assert config()["HostConfig"]["NetworkMode"] == "default"


def test_a_terminal_has_input() -> None:
    assert (config()["Tty"], config()["OpenStdin"]) == (False, False)
    assert (config(wants_terminal=True)["Tty"], config(wants_terminal=True)["OpenStdin"]) == (True, True)


def test_a_hundredth_of_a_core_is_the_least() -> None:
    assert config(needs=Resources(cpu_millis=1, memory_bytes=8 << 20))["HostConfig"]["NanoCpus"] == 10_000_000


@pytest.mark.parametrize(
    ("facts", "driver"),
    [
        (DOCKER, "local"),
        (PODMAN, "k8s-file"),
        (Facts(is_podman=False, version="", cpus=1, memory_bytes=1), "json-file"),
    ],
)
def test_the_engines_own_log_is_bounded(facts: Facts, driver: str) -> None:
    log = config(facts)["HostConfig"]["LogConfig"]
    assert log["Type"] == driver
    assert log["Config"]["max-size"] == "100m"


@pytest.mark.parametrize(
    ("ids", "request_"),
    [
        (("GPU-1", "GPU-2"), {"Driver": "", "DeviceIDs": ["GPU-1", "GPU-2"], "Capabilities": [["gpu"]]}),
        (("nvidia.com/gpu=0",), {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}),
    ],
)
def test_gpus_are_asked_for_by_id(ids: tuple[str, ...], request_: dict[str, Any]) -> None:
    assert config(gpu_ids=ids)["HostConfig"]["DeviceRequests"] == [request_]


def test_a_run_learns_who_it_is_and_cannot_say_otherwise() -> None:
    told = environment(an_assignment(env=(("A", "1\n2"), ("WINDLASS_JOB", "forged")), index=3, count=4))
    assert told == {
        "A": "1\n2",
        "WINDLASS_JOB": "job",
        "WINDLASS_RUN": "job-2",
        "WINDLASS_ATTEMPT": "2",
        "WINDLASS_INDEX": "3",
        "WINDLASS_COUNT": "4",
        "WINDLASS_ARTIFACTS": "/artifacts",
    }


def test_a_model_is_told_what_to_read_and_write() -> None:
    needs = Resources(cpu_millis=100, memory_bytes=8 << 20, gpus=2)
    told = environment(
        an_assignment(model="resnet50", input_path="/artifacts/i", output_path="/artifacts/o", needs=needs)
    )
    assert told["WINDLASS_MODEL"] == "resnet50"
    assert told["WINDLASS_INPUT"] == "/artifacts/i"
    assert told["WINDLASS_OUTPUT"] == "/artifacts/o"
    assert told["WINDLASS_GPU"] == "2"
    assert "WINDLASS_INPUT" not in environment(an_assignment(model="resnet50"))


def _needs(**changes: int) -> dict[str, Any]:
    return {"needs": Resources(**({"cpu_millis": 100, "memory_bytes": 64 << 20} | changes))}


@pytest.mark.parametrize(
    "changes",
    [
        {"pids_max": -5},
        {"pids_max": 0},
        {"pids_max": 2**63 - 1},
        _needs(memory_bytes=0),
        _needs(memory_bytes=-1),
        _needs(memory_bytes=1 << 20),
        _needs(memory_bytes=2**63 - 1),
        _needs(cpu_millis=-1),
        _needs(cpu_millis=10**12),
        {"env": (("A", "\0"),)},
        {"env": (("A=B", "x"),)},
        {"env": (("A\nB", "x"),)},
        {"env": (("", "x"),)},
        {"env": (("A", "x" * 200_000),)},
        {"env": (("A", "\ud800"),)},
        {"command": ("a", "b\0")},
        {"command": ("", "b")},
        {"command": ("a\udc80",)},
        {"workdir": "relative"},
        {"workdir": "/proc/self/fd/8"},
        {"workdir": "/a/../proc"},
        {"workdir": "/a\0"},
        {"image": ""},
        {"image": "UPPER"},
        {"image": "a b"},
        {"image": "x\n"},
        {"image": "a//b"},
        {"image": "../etc"},
        {"image": "x@sha256:abc"},
        {"image": "x" * 600},
        {"run": RunId("../x")},
        {"run": RunId("a/b")},
        {"run": RunId("")},
        {"run": RunId("x?force=1")},
        {"volume": VolumeId("/etc")},
        {"gpu_ids": ("all of them",)},
    ],
    ids=lambda changes: next(iter(changes.items())).__repr__()[:40].encode("ascii", "replace").decode(),
)
def test_what_an_engine_would_take_in_silence_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        config(**changes)
    assert refused.value.faults


@pytest.mark.parametrize(
    "image",
    [
        "busybox",
        "busybox:1",
        "library/busybox",
        "registry.example.com:5000/team/app_x/y-z:v1.2.3",
        "127.0.0.1:41234/a:b",
        "[::1]:5000/a",
        "a@sha256:" + "0" * 64,
        "a:1@sha256:" + "0" * 64,
        "Registry.Example.com/a",
    ],
)
def test_ordinary_image_names_pass(image: str) -> None:
    assert config(image=image)["Image"] == image
