"""Secrets on real runtimes: handed to the run that needs them, found nowhere else, and there again after a kill.

Each value is a canary: a random text that is looked for in everything the installation and the engine have written and said.
"""

import base64
import http.client
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for
from windlass.client.client import Client
from windlass.core.errors import WindlassError

DEADLINE = 240
LOOK = 'sha256sum "$WINDLASS_SECRETS/f"; printf %s "$TOKEN" | sha256sum; stat -c "%a %u" "$WINDLASS_SECRETS/f"'


@pytest.fixture(scope="module", params=["docker", "process"])
def server(request: pytest.FixtureRequest) -> Iterator[WindlassServer]:
    host = request.getfixturevalue("docker_engine").host if request.param == "docker" else None
    with WindlassServer(docker_host=host, flags=("--log-level", "debug")) as running:
        yield running


def test_a_secret_is_nowhere_in_the_clear_but_where_it_was_handed(
    server: WindlassServer, request: pytest.FixtureRequest
) -> None:
    in_file, in_variable, password = (f"canary-{secrets.token_hex(16)}" for _ in range(3))
    client = server.client()
    set_secret(server, "in-file", in_file)
    set_secret(server, "in-variable", in_variable)
    server.cli("registries", "login", "127.0.0.1:1", "-u", "ci", input=password)
    words = image_of(server)
    flags = ("--secret", "TOKEN=in-variable", "--secret-file", "f=in-file", "--ttl", "1h", "--name", "holder")
    said = server.cli("run", *flags, *words, "--", "sh", "-c", LOOK)
    digest_of_file, digest_of_variable, owner = said.out.splitlines()
    assert digest_of_file.startswith(sha256(in_file.encode()).hexdigest())
    assert digest_of_variable.startswith(sha256(in_variable.encode()).hexdigest())
    assert owner == "400 0"
    canaries = (in_file, in_variable, password)
    answers = everything_said(server, client, canaries)
    assert not [canary for canary in canaries if canary in answers or encoded(canary) in answers]
    for canary in canaries:
        assert written_below(server.directory, canary) == []
    if words:
        engine = request.getfixturevalue("docker_engine")
        record = engine.inspect(f"{client.job('holder')['metadata']['uid']}-1")
        check_engine(engine, record, in_file=in_file, in_variable=in_variable)
    assert files_in_memory(server) == []


def test_a_killed_server_hands_over_again_what_it_had_not_started(
    server: WindlassServer, request: pytest.FixtureRequest
) -> None:
    """Killed between the container and its start, and its files in memory gone, as after a reboot: whoever starts it asks anew."""
    value = f"canary-{secrets.token_hex(16)}"
    set_secret(server, "again", value)
    restart(server, {"WINDLASS_FAILPOINTS": "agent.after_create_before_start=kill@1"})
    try:
        flags = ("--detach", "--secret", "TOKEN=again", "--secret-file", "f=again", "--name", "orphan")
        server.cli("run", *flags, *image_of(server), "--", "sh", "-c", LOOK, check=False)
        wait_for(lambda: not server.is_running, DEADLINE, "the server to die")
        for left in files_in_memory(server):
            left.chmod(0o600)
            left.unlink()
    finally:
        server.extra = {}
        server.start()
    wait_for(lambda: state(server, "orphan") == "SUCCEEDED", DEADLINE, "the job to end")
    digest = sha256(value.encode()).hexdigest()
    assert [line.split()[0] for line in server.cli("logs", "orphan").out.splitlines()[:2]] == [digest, digest]
    assert written_below(server.directory, value) == []


def test_a_secret_removed_before_the_start_fails_the_run_once_and_says_why(server: WindlassServer) -> None:
    set_secret(server, "fleeting", "x")
    manifest = {
        "apiVersion": "windlass.dev/v1",
        "kind": "Job",
        "metadata": {"name": "too-late"},
        "spec": {"command": ["true"], "suspend": True, "retries": 5, "env": {"X": {"secret": "fleeting"}}},
    }
    if words := image_of(server):
        manifest["spec"]["image"] = words[0]  # type: ignore[index]
    server.client().create(manifest)
    assert "still referred to by too-late" in server.cli("secrets", "rm", "fleeting").out
    server.cli("release", "too-late")
    ended = wait_for(lambda: over(server, "too-late"), DEADLINE, "the job to end")
    assert (ended["status"]["state"], ended["status"]["reason"]) == ("FAILED", "SecretMissing")
    assert "'fleeting'" in ended["status"]["message"]
    assert ended["status"]["attempt"] == 1


def test_a_rotation_that_is_killed_on_the_way_is_finished_by_the_next_server() -> None:
    with WindlassServer(environ={"WINDLASS_FAILPOINTS": "secrets.after_reseal=kill@1"}) as server:
        client = server.client()
        for n in range(40):
            client.set_secret(f"secret-{n}", {"value": b"value %d" % n})
        keys = server.data / "keys"
        assert sorted(keys.glob("data-key-*")) == [keys / "data-key-1"]
        with pytest.raises(ConnectionResetError):
            ask_once(server, "POST", "/api/v1/secrets/rotate-key")
        wait_for(lambda: not server.is_running, DEADLINE, "the server to die")
        assert sorted(keys.glob("data-key-*")) == [keys / "data-key-1", keys / "data-key-2"]
        server.extra = {}
        server.start()
        wait_for(lambda: sorted(keys.glob("data-key-*")) == [keys / "data-key-2"], DEADLINE, "the old key to go")
        flags = [word for n in (0, 20, 39) for word in ("--secret", f"V{n}=secret-{n}")]
        said = server.cli("run", *flags, "--", "sh", "-c", 'echo "$V0, $V20, $V39"')
        assert said.out == "value 0, value 20, value 39\n"
        assert (keys / "data-key-2").stat().st_mode & 0o777 == 0o600


def test_a_secret_file_belongs_to_the_user_that_the_image_names(docker_engine: DockerEngine) -> None:
    """By its name, which only the image's own list of users explains."""
    image = "windlass-test/nobody:1"
    made = docker_engine.create("true")
    try:
        query = {"container": made, "repo": "windlass-test/nobody", "tag": "1", "changes": "USER nobody"}
        docker_engine.call("POST", "/commit", query=query)
    finally:
        docker_engine.remove_container(made)
    with WindlassServer(docker_host=docker_engine.host) as server:
        set_secret(server, "mine", "for nobody else")
        look = "id -u; stat -c '%a %u' /run/secrets/f; cat /run/secrets/f; echo; touch /run/secrets/g 2>&1 || echo no"
        said = server.cli("run", "--secret-file", "f=mine", image, "--", "sh", "-c", look)
        assert said.out.splitlines()[:3] == ["65534", "400 65534", "for nobody else"]
        assert said.out.splitlines()[-1] == "no"
        assert files_in_memory(server) == []
    docker_engine.remove_image(image)


def set_secret(server: WindlassServer, name: str, value: str) -> None:
    server.cli("secrets", "set", name, input=value)


def ask_once(server: WindlassServer, method: str, path: str) -> None:
    """Our own client would go on asking for half a minute."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=DEADLINE)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {server.token}"})
        connection.getresponse()
    finally:
        connection.close()


def image_of(server: WindlassServer) -> tuple[str, ...]:
    return (IMAGE,) if "--docker-host" in server.runtime else ()


def restart(server: WindlassServer, environ: dict[str, str]) -> None:
    server.stop()
    server.extra = environ
    server.start()


def state(server: WindlassServer, job: str) -> str:
    return str(server.client().job(job)["status"]["state"])


def over(server: WindlassServer, job: str) -> dict:  # type: ignore[type-arg]
    manifest = server.client().job(job)
    return dict(manifest) if manifest["status"].get("finishedAt") else {}


def everything_said(server: WindlassServer, client: Client, canaries: tuple[str, ...]) -> str:
    """Every way of looking at it, and refusals of requests that carry the values."""
    said = [json.dumps([client.secrets(), client.logins(), client.job("holder"), client.happenings("holder")])]
    for words in (("describe", "holder"), ("get", "jobs", "-o", "yaml"), ("secrets", "list"), ("registries", "list")):
        shown = server.cli(*words)
        said += [shown.out, shown.err]
    for canary in canaries:
        for refused in (
            lambda canary=canary: client.set_secret("UPPER", {"value": canary.encode()}),
            lambda canary=canary: client.set_secret("big", {"value": canary.encode() * 10_000}),
            lambda canary=canary: client.log_in("127.0.0.1:1", "ci", f"{canary}\n"),
            lambda canary=canary: client._put("/api/v1/secrets/x", {"data": {"value": canary}}),
            lambda canary=canary: client._put("/api/v1/secrets/x", {"data": canary}),
            lambda canary=canary: client._put("/api/v1/registries/x:1", {"username": "a:b", "password": canary}),
        ):
            with pytest.raises(WindlassError) as refusal:
                refused()
            said.append(f"{refusal.value.message} {refusal.value.hint} {refusal.value.faults}")
    return "\n".join(said)


def written_below(directory: Path, canary: str) -> list[str]:
    """Files that hold it, as it is or in base64: the store with its WAL, history, journals, logs."""
    needles = (canary.encode(), encoded(canary).encode())
    found = []
    for place, _, names in os.walk(directory):
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):  # its owner is at work, and may have removed it meanwhile
                if path.is_file() and not path.is_symlink() and any(one in path.read_bytes() for one in needles):
                    found.append(str(path))
    return found


def encoded(canary: str) -> str:
    """Its part that is the same whatever follows."""
    return base64.b64encode(canary.encode()).decode()[:-4]


def check_engine(engine: DockerEngine, record: dict, *, in_file: str, in_variable: str) -> None:  # type: ignore[type-arg]
    """A variable is in the engine's record, as the guide says, but not in a label; a file's content is in nothing of it."""
    assert in_file not in json.dumps(record)
    assert f"TOKEN={in_variable}" in record["Config"]["Env"]
    assert in_variable not in json.dumps(record["Config"]["Labels"])
    assert written_below(engine.directory / "data", in_file) == []


def files_in_memory(server: WindlassServer) -> list[Path]:
    identity = json.loads((server.data / "installation.json").read_text())
    name = f"windlass-{identity['installation']}-{identity['node']}"
    return [path for root in (Path("/run"), Path("/dev/shm")) for path in (root / name).rglob("*") if path.is_file()]
