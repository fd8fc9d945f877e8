"""What engines say, read: versions, records, refusals, pulls, GPUs and archives, as tables of real answers."""

import io
import itertools
import tarfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.adapters.runtime.docker.address import parse_address
from windlass.adapters.runtime.docker.engine import Facts, negotiate, read_facts
from windlass.adapters.runtime.docker.finding import usual_places
from windlass.adapters.runtime.docker.images import Progress, unavailable
from windlass.adapters.runtime.docker.machine import gpu_ids, machine
from windlass.adapters.runtime.docker.observing import observed
from windlass.adapters.runtime.docker.refusals import readable_start_error, refusal
from windlass.adapters.runtime.tars import Entry, LastEntry, directories
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable, WindlassError
from windlass.core.model.ids import RunId
from windlass.core.model.run import Token
from windlass.ports.runtime import ImageUnavailable, Phase


@pytest.mark.parametrize(
    ("theirs", "least", "spoken"),
    [("1.41", "1.12", "/v1.41"), ("1.52", "1.44", "/v1.51"), ("1.60", "1.55", "/v1.55"), ("1.24", "1.12", "/v1.24")],
    ids=["docker-20.10", "docker-29", "a-far-future", "ancient"],
)
def test_the_newest_version_that_both_know_is_spoken(theirs: str, least: str, spoken: str) -> None:
    assert negotiate({"ApiVersion": theirs, "MinAPIVersion": least}).prefix == spoken


def test_podman_is_known_by_its_components() -> None:
    version = negotiate({"ApiVersion": "1.41", "Version": "4.3.1", "Components": [{"Name": "Podman Engine"}]})
    assert (version.is_podman, version.before("/libpod/info"), version.before("/info")) == (True, "/v4.3.1", "/v1.41")


def test_facts_come_from_info() -> None:
    version = negotiate({"ApiVersion": "1.50", "Version": "28.2.0", "Components": [{"Name": "Engine"}]})
    info = {
        "NCPU": 4,
        "MemTotal": 1 << 33,
        "Plugins": {"Log": ["local", "json-file"]},
        "Runtimes": {"runc": {}, "nvidia": {}},
        "InitCommit": {"ID": "N/A"},
        "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}, {"Source": "other", "ID": "x"}],
    }
    facts = read_facts(info, version)
    assert facts == Facts(
        is_podman=False,
        version="28.2.0",
        cpus=4,
        memory_bytes=1 << 33,
        log_drivers=frozenset({"local", "json-file"}),
        has_init=False,
        runtimes=frozenset({"runc", "nvidia"}),
        devices=("nvidia.com/gpu=0",),
    )
    assert machine(facts, "").runtime == "docker 28.2.0"


SMI = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
GPU 1: Tesla T4 (UUID: GPU-16a23983-e73e-0945-2095-cdeb50696982)
"""
UUIDS = ("GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77", "GPU-16a23983-e73e-0945-2095-cdeb50696982")


@pytest.mark.parametrize(
    ("runtimes", "devices", "smi", "ids"),
    [
        ({"nvidia", "runc"}, (), SMI, UUIDS),
        ({"runc"}, (), SMI, ()),
        ({"nvidia"}, (), "", ()),
        ({"nvidia"}, (), "NVIDIA-SMI has failed because it couldn't communicate with the driver.", ()),
        (
            set(),
            ("nvidia.com/gpu=0", "nvidia.com/gpu=1", "nvidia.com/gpu=all"),
            "",
            ("nvidia.com/gpu=0", "nvidia.com/gpu=1"),
        ),
        (set(), ("nvidia.com/gpu=0", "nvidia.com/gpu=GPU-1"), "", ("nvidia.com/gpu=GPU-1",)),
        (set(), ("vendor.com/net=eth0",), "", ()),
    ],
    ids=["runtime", "no-runtime", "no-driver", "broken-driver", "cdi", "cdi-by-uuid", "other-devices"],
)
def test_gpus_are_named_by_what_the_engine_can_hand_out(
    runtimes: set[str], devices: tuple[str, ...], smi: str, ids: tuple[str, ...]
) -> None:
    facts = Facts(is_podman=False, version="1", cpus=1, memory_bytes=1, runtimes=frozenset(runtimes), devices=devices)
    assert gpu_ids(facts, smi) == ids
    assert machine(facts, smi).capacity.gpus == len(ids)


def record(**state: Any) -> dict[str, Any]:
    return {"Config": {"Labels": {"windlass.dev/token": "2.9"}}, "State": state}


ZERO = "0001-01-01T00:00:00Z"
BEGAN, ENDED = "2026-11-15T20:58:25.100000001Z", "2026-11-15T20:58:26.600000001Z"


@pytest.mark.parametrize(
    ("state", "phase", "exit_code", "ran_ms"),
    [
        ({"Status": "created", "StartedAt": ZERO, "FinishedAt": ZERO, "ExitCode": 0}, Phase.CREATED, None, 0),
        ({"Status": "configured", "StartedAt": ZERO, "FinishedAt": ZERO}, Phase.CREATED, None, 0),
        ({"Status": "running", "Pid": 7, "StartedAt": BEGAN, "FinishedAt": ZERO}, Phase.RUNNING, None, 0),
        ({"Status": "paused", "Pid": 7, "StartedAt": BEGAN}, Phase.RUNNING, None, 0),
        ({"Status": "exited", "ExitCode": 3, "StartedAt": BEGAN, "FinishedAt": ENDED}, Phase.EXITED, 3, 1500),
        ({"Status": "dead", "ExitCode": 137, "StartedAt": BEGAN, "FinishedAt": ENDED}, Phase.EXITED, 137, 1500),
        ({"Status": "exited", "ExitCode": 0, "StartedAt": ENDED, "FinishedAt": BEGAN}, Phase.EXITED, 0, 0),
        ({"Status": "removing", "ExitCode": 1, "StartedAt": BEGAN, "FinishedAt": ENDED}, Phase.EXITED, 1, 1500),
        ({"Status": "removing", "StartedAt": ZERO}, Phase.ABSENT, None, 0),
        ({"Status": "a word of the future", "StartedAt": BEGAN}, Phase.RUNNING, None, 0),
    ],
)
def test_a_record_becomes_what_is_observed(
    state: dict[str, Any], phase: Phase, exit_code: int | None, ran_ms: int
) -> None:
    seen = observed(RunId("r"), record(**state))
    assert (seen.phase, seen.exit_code, seen.ran_ms, seen.token) == (phase, exit_code, ran_ms, Token(2, 9))
    assert seen.pid == state.get("Pid")


def test_memory_is_named_as_the_cause() -> None:
    seen = observed(
        RunId("r"), record(Status="exited", ExitCode=137, OOMKilled=True, StartedAt=BEGAN, FinishedAt=ENDED)
    )
    assert (seen.is_oom, seen.exit_code) == (True, 137)


RUNC = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            RUNC + 'exec: "nosuch": executable file not found in $PATH: unknown',
            "no such command in the image: nosuch (exit 127)",
        ),
        (
            RUNC + 'exec: "/x": stat /x: no such file or directory: unknown',
            "no such command in the image: /x (exit 127)",
        ),
        (
            RUNC + 'exec: "/etc": permission denied: unknown',
            "the command cannot be executed: /etc: permission denied (exit 126)",
        ),
        (
            "crun: executable file `nosuch` not found in $PATH: No such file",
            "no such command in the image: nosuch (exit 127)",
        ),
        (RUNC + "chdir to cwd (/x) failed", "unable to start container process: chdir to cwd (/x) failed"),
        ('could not select device driver "" with capabilities: [[gpu]]', "the engine has no GPU driver"),
        ("", ""),
    ],
)
def test_a_failed_start_is_told_in_a_sentence(error: str, sentence: str) -> None:
    assert readable_start_error(error) == sentence


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (400, b'{"message":"bad parameter"}', Invalid, "bad parameter"),
        (404, b'{"message":"No such container: x"}', NotFound, "No such container: x"),
        (409, b'{"message":"Conflict."}', Conflict, "Conflict."),
        (500, b'{"message":"the container name \\"x\\" ... that name is already in use"}', Conflict, None),
        (500, b'{"cause":"x","message":"driver failed"}', Unavailable, "driver failed"),
        (503, b"", Unavailable, "the engine answered 503"),
        (500, b"<html>\n proxy </html>", Unavailable, "<html> proxy </html>"),
        (404, b"[]", NotFound, None),
    ],
)
def test_a_refusal_becomes_an_error(status: int, body: bytes, kind: type[WindlassError], message: str | None) -> None:
    error = refusal(status, body)
    assert type(error) is kind
    assert message is None or error.message == message


@pytest.mark.parametrize(
    ("message", "code", "is_transient"),
    [
        ("manifest for 127.0.0.1:5000/a:2 not found: manifest unknown: manifest unknown", "image-not-found", False),
        ("pull access denied for a, repository does not exist or may require 'docker login'", "image-denied", False),
        ("unauthorized: authentication required", "image-denied", False),
        ("invalid reference format", "image-name", False),
        (
            'Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused',
            "registry-unreachable",
            True,
        ),
        ('Get "https://r.example/v2/": dial tcp: lookup r.example: no such host', "registry-unreachable", True),
        ("net/http: TLS handshake timeout", "registry-unreachable", True),
        ("toomanyrequests: You have reached your pull rate limit", "registry-unreachable", True),
        ("no space left on device", "image-unavailable", True),
    ],
)
def test_a_failed_pull_says_why(message: str, code: str, is_transient: bool) -> None:
    error = unavailable("a:2", message)
    assert isinstance(error, ImageUnavailable)
    assert (error.code, error.is_transient) == (code, is_transient)
    assert "a:2" in error.message


def test_progress_is_one_line() -> None:
    progress = Progress("a:1")
    assert progress.line() == "pulling a:1"
    for event in (
        {"status": "Pulling from a", "id": "1"},
        {"status": "Pulling fs layer", "id": "l1"},
        {"status": "Pulling fs layer", "id": "l2"},
        {"status": "Already exists", "id": "l0"},
        {"status": "Downloading", "id": "l1", "progressDetail": {"current": 42_000_000, "total": 100_000_000}},
        {"status": "Downloading", "id": "l2", "progressDetail": {"current": 4_000_000, "total": 10_000_000}},
        {"status": "Download complete", "id": "l2", "progressDetail": {}},
        {"status": "Digest: sha256:x"},
    ):
        progress.feed(event)
    assert progress.line() == "pulling a:1: layer 2/3, 52 MB of 110 MB"


def _tar(*entries: tuple[str, bytes | None], layout: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=layout) as tar:
        for name, data in entries:
            entry = tarfile.TarInfo(name)
            if data is None:
                entry.type = tarfile.DIRTYPE
            else:
                entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data or b""))
    return out.getvalue()


@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("name", ["a", "d/" + "n" * 90 + "/b", "p" * 90 + "/" + "q" * 60, "d/é"])
@given(cuts=st.lists(st.integers(0, 4000), max_size=6))
def test_the_last_entry_is_seen_however_the_bytes_arrive(layout: int, name: str, cuts: list[int]) -> None:
    data = _tar(("first", b"x" * 700), (name, b"y" * 1025), layout=layout)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    watch = LastEntry()
    passed = b"".join(data[start : start + watch.feed(data[start:end])] for start, end in itertools.pairwise(edges))
    assert watch.entry == Entry(name, 1025)
    assert passed == data.rstrip(b"\0") + bytes(-len(data.rstrip(b"\0")) % 512) + bytes(1024)


def test_a_directory_has_no_size_and_an_empty_archive_no_entry() -> None:
    watch = LastEntry()
    watch.feed(directories(("a", "a/b"), mode=0o777))
    assert watch.entry == Entry("a/b/", None)
    empty = LastEntry()
    empty.feed(bytes(10240))
    assert empty.entry is None


@pytest.mark.parametrize("data", [b"not a tar at all".ljust(512, b"!"), b"x" * 124 + b"zzzz" + b"\0" * 384])
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid):
        LastEntry().feed(data)


@pytest.mark.parametrize(
    ("text", "environ", "base", "socket"),
    [
        ("unix:///run/x.sock", {}, "http://engine", "/run/x.sock"),
        ("/run/x.sock", {}, "http://engine", "/run/x.sock"),
        ("tcp://10.0.0.1:2375", {}, "http://10.0.0.1:2375", ""),
        ("tcp://10.0.0.1", {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/c"}, "https://10.0.0.1:2376", ""),
    ],
)
def test_an_address_is_read(text: str, environ: dict[str, str], base: str, socket: str) -> None:
    address = parse_address(text, environ)
    assert (address.base, address.socket) == (base, socket)


@pytest.mark.parametrize(
    "text", ["", "ssh://host", "npipe:////./pipe/docker", "tcp://", "tcp://h:port", "unix://relative"]
)
def test_a_strange_address_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_address(text)
    assert refused.value.code == "docker-host"


def test_the_usual_places_are_tried_in_order() -> None:
    environ = {"DOCKER_HOST": "tcp://h:1", "XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/me"}
    assert usual_places(environ) == (
        "tcp://h:1",
        "unix:///var/run/docker.sock",
        "unix:///run/user/7/docker.sock",
        "unix:///home/me/.docker/run/docker.sock",
        "unix:///run/podman/podman.sock",
        "unix:///run/user/7/podman/podman.sock",
    )
    assert usual_places({}) == ("unix:///var/run/docker.sock", "unix:///run/podman/podman.sock")
