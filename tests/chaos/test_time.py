"""TTLs delete when they should, also over a server that was down, and a jumping wall clock deletes nothing."""

import time
from datetime import datetime
from pathlib import Path

from tests.chaos.clock_shim import ClockShim
from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for
from tests.parts.web import FileServer

EIGHT_DAYS = 8 * 86_400
UNCLAIMED_SECONDS = 10
SOON_UNCLAIMED = {
    "WINDLASS_UNCLAIMED_VOLUME_SECONDS": str(UNCLAIMED_SECONDS),
    "WINDLASS_FETCH_NETWORKS": "127.0.0.0/8",
}
CLOCKS_APART = 0.5
"""Seconds between service time and the engine's clock, at most."""


def finished(server: WindlassServer, name: str, *, ttl: int, volume_ttl: int) -> str:
    """A job that is over, by its uid."""
    server.cli("run", "--name", name, "--ttl", str(ttl), "--volume-ttl", str(volume_ttl), IMAGE, "--", "true")
    return str(server.cli("get", "job", name, "-o", "json").json()["metadata"]["uid"])


def copied(server: WindlassServer, name: str, directory: Path) -> str:
    """A file for a job that never comes; the uid of its volume."""
    (directory / "picture").write_bytes(b"a picture")
    with FileServer(directory) as files:
        made = server.client().copy_file(name, f"{files.url}/picture", "/artifacts/input.jpg")
    return volumes(server)[str(made["volume"])]


def volumes(server: WindlassServer) -> dict[str, str]:
    """Uids by name."""
    return {one["name"]: one["uid"] for one in server.client().volumes()}


def leaves_nothing_on(engine: DockerEngine, volume: str) -> bool:
    return not has_volume(engine, volume) and not engine.containers(label=["windlass.dev/helper"])


def go_through_every_loop(server: WindlassServer, engine: DockerEngine, name: str) -> None:
    """A job whose parts go at once: when they are gone, whatever else was due is gone too."""
    uid = finished(server, name, ttl=0, volume_ttl=0)
    wait_for(lambda: not has_volume(engine, uid), 120, "the short one's volume to go")
    server.cli("delete", name)


def has_container(engine: DockerEngine, uid: str) -> bool:
    return any(uid in str(one["Names"]) for one in engine.containers())


def has_volume(engine: DockerEngine, uid: str) -> bool:
    return uid in str(engine.ask("/volumes"))


def removed_at(engine: DockerEngine, since: float, kind: str, uid: str) -> float:
    """By the engine's own record: what we see of it may be late by as much as the machine is busy."""
    events = engine.events(since, type=[kind], event=["destroy"])
    (at,) = [event["timeNano"] / 1e9 for event in events if uid in str(event["Actor"])]
    return float(at)


def test_run_and_volume_go_each_at_its_own_time(docker_engine: DockerEngine, tmp_path: Path) -> None:
    since = time.time()
    with WindlassServer(docker_host=docker_engine.host, environ=SOON_UNCLAIMED) as server:
        unclaimed, copied_at = copied(server, "nobody", tmp_path), time.monotonic()
        at_once = finished(server, "at-once", ttl=0, volume_ttl=3600)
        kept = finished(server, "kept", ttl=4, volume_ttl=8)
        ended = server.cli("get", "job", "kept", "-o", "json").json()["status"]["finishedAt"]
        over = datetime.fromisoformat(ended).timestamp()
        wait_for(lambda: not has_container(docker_engine, at_once), 120, "the run with TTL 0 to go")
        wait_for(lambda: not has_container(docker_engine, kept), 120, "the kept run to go")
        wait_for(lambda: not has_volume(docker_engine, kept), 120, "its volume to go")
        assert removed_at(docker_engine, since, "container", kept) - over >= 4 - CLOCKS_APART, "never early"
        assert removed_at(docker_engine, since, "volume", kept) - over >= 8 - CLOCKS_APART
        assert has_volume(docker_engine, at_once)
        assert server.cli("logs", "kept", check=False).code == 0
        wait_for(lambda: "artifacts-nobody" not in volumes(server), 120, "what no job came for to go")
        assert time.monotonic() - copied_at >= UNCLAIMED_SECONDS - CLOCKS_APART, "never early"
        assert leaves_nothing_on(docker_engine, unclaimed)


def test_ttls_that_ran_out_while_the_server_was_down_are_served_when_it_is_back(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    with WindlassServer(docker_host=docker_engine.host, environ=SOON_UNCLAIMED) as server:
        later = finished(server, "later", ttl=3600, volume_ttl=3600)
        flags = ("--detach", "--name", "meanwhile", "--ttl", "10", "--volume-ttl", "10")
        server.cli("run", *flags, IMAGE, "--", "true")
        # Seen by a client in this process: a command line could take its ten seconds to start.
        client = server.client()
        uid = client.job("meanwhile")["metadata"]["uid"]
        wait_for(lambda: client.job(uid)["status"].get("finishedAt"), 120, "the job to end")
        unclaimed = copied(server, "nobody", tmp_path)
        server.kill()
        over = time.monotonic()
        wait_for(lambda: time.monotonic() - over > 11, 120, "the TTL to run out")
        assert has_container(docker_engine, uid)
        assert has_volume(docker_engine, uid)
        server.start()
        wait_for(lambda: not has_container(docker_engine, uid), 120, "the run to go")
        wait_for(lambda: not has_volume(docker_engine, uid), 120, "the volume to go")
        wait_for(lambda: "artifacts-nobody" not in volumes(server), 120, "what no job came for to go")
        assert leaves_nothing_on(docker_engine, unclaimed)
        assert has_container(docker_engine, later)
        assert has_volume(docker_engine, later)


def test_a_clock_that_jumps_eight_days_deletes_nothing(docker_engine: DockerEngine, tmp_path: Path) -> None:
    shim = ClockShim(tmp_path)
    with WindlassServer(docker_host=docker_engine.host, environ=shim.environment()) as server:
        uid = finished(server, "precious", ttl=3600, volume_ttl=3600)
        shim.shift(EIGHT_DAYS)
        go_through_every_loop(server, docker_engine, "forward")
        assert has_container(docker_engine, uid)
        assert has_volume(docker_engine, uid)
        for jump in (EIGHT_DAYS, -10_800, EIGHT_DAYS):
            shim.shift(jump)
            server.kill()
            server.start()  # with a token that holds by the clock as it is now
            go_through_every_loop(server, docker_engine, "restarted")
            assert has_container(docker_engine, uid)
            assert has_volume(docker_engine, uid)
        server.cli("cleanup")
        assert has_volume(docker_engine, uid)
        assert server.cli("get", "volumes", "-o", "json").json()["items"]
