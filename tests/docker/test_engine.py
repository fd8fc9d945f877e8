"""What only a real Docker Engine can show: limits that hold, engines that die and hang, registries, foreign things."""

import io
import tarfile
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import anyio
import msgspec
import pytest

from tests.contracts.runtime_suite import RealClock
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.engine_api import EngineApi
from tests.parts.podman import PodmanService
from tests.parts.registry import Registry
from tests.parts.waiting import wait_until
from windlass.adapters.runtime.docker import DockerRuntime, find_engine, finding
from windlass.adapters.runtime.docker.engine import Engine
from windlass.adapters.runtime.docker.runtime import SETTLE
from windlass.core.errors import Conflict, Invalid, Unavailable
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import JobId, Millis, RunId, TenantId, VolumeId
from windlass.core.model.job import JobSpec
from windlass.core.model.resources import Resources
from windlass.core.model.run import Intent, Token
from windlass.ports.runtime import ImageUnavailable, LogPosition, Observed, Phase, StartFailed

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

DEADLINE_SECONDS = 180
LONG = "x" * 64


def an_assignment(name: str, script: str, **changes: Any) -> Assignment:
    spec = {"image": IMAGE, "command": ("sh", "-c", script), "needs": Resources(cpu_millis=500, memory_bytes=64 << 20)}
    return Assignment(
        run=RunId(f"{name}-1"),
        job=JobId(name),
        tenant=TenantId("acme"),
        name=name,
        token=Token(1, 1),
        intent=Intent.RUN,
        volume=VolumeId(name),
        attempt=1,
        spec=JobSpec(**(spec | changes)),
    )


def opened(engine: EngineApi) -> AbstractAsyncContextManager[DockerRuntime]:
    return DockerRuntime.open(engine.host, installation="engine-tests", node="n1", clock=RealClock())


@pytest.fixture
async def runtime(docker_engine: DockerEngine) -> AsyncIterator[DockerRuntime]:
    async with opened(docker_engine) as runtime:
        try:
            yield runtime
        finally:
            await runtime.remove_all()


async def _run(runtime: DockerRuntime, assignment: Assignment) -> tuple[Observed, list[bytes]]:
    await runtime.ensure_volume(assignment.volume, labels={})
    await runtime.create(assignment)
    await runtime.start(assignment.run)
    with anyio.fail_after(DEADLINE_SECONDS):
        lines = [line.text async for line in runtime.logs(assignment.run, after=LogPosition())]
        return await runtime.wait(assignment.run), lines


async def test_an_engine_that_was_stopped_is_no_longer_said_to_be_there(docker_engine: DockerEngine) -> None:
    async with opened(docker_engine) as runtime:
        known = await runtime.machine()
        docker_engine.stop()
        try:
            with pytest.raises(Unavailable, match="does not answer"):
                await runtime.machine()
        finally:
            docker_engine.start()
        assert await runtime.machine() == known


async def test_a_run_has_no_privileges_inside(runtime: DockerRuntime) -> None:
    script = "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; cat /proc/1/comm; id -u"
    seen, lines = await _run(runtime, an_assignment("caps", script))
    told = dict(line.split(b":\t") for line in lines[:4])
    assert seen.exit_code == 0
    assert told == {b"CapEff": b"0" * 16, b"CapBnd": b"0" * 16, b"NoNewPrivs": b"1", b"Seccomp": b"2"}
    assert lines[4] == b"docker-init"


async def test_too_much_memory_is_named(runtime: DockerRuntime) -> None:
    """A variable that grows: the shell itself, not a child, takes more than it may."""
    script = "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done"
    seen, _ = await _run(runtime, an_assignment("oom", script, needs=Resources(cpu_millis=500, memory_bytes=16 << 20)))
    assert (seen.phase, seen.is_oom, seen.exit_code) == (Phase.EXITED, True, 137)


async def test_what_a_container_uses_can_be_seen_while_it_runs_and_not_after(runtime: DockerRuntime) -> None:
    assignment = an_assignment("busy", "while :; do :; done")
    await runtime.ensure_volume(assignment.volume, labels={})
    await runtime.create(assignment)
    assert await runtime.usage(assignment.run) is None
    await runtime.start(assignment.run)
    with anyio.fail_after(DEADLINE_SECONDS):
        while (used := await runtime.usage(assignment.run)) is None or used.cpu_used_ms < 50:
            await anyio.sleep(0.05)  # the fact awaited is the processor time it has used
    assert 0 < used.memory_peak_bytes <= 64 << 20
    await runtime.stop(assignment.run, grace_ms=Millis(0))
    assert await runtime.usage(assignment.run) is None
    assert await runtime.usage(RunId("nobody-1")) is None


async def test_a_fork_bomb_meets_its_limit(runtime: DockerRuntime) -> None:
    script = "for i in $(seq 30); do sleep 60 & done; echo made it"
    seen, lines = await _run(runtime, an_assignment("forks", script, pids_max=10))
    assert seen.exit_code != 0
    assert b"made it" not in lines


async def test_a_terminal_that_nobody_comes_to_holds_nothing_up(runtime: DockerRuntime) -> None:
    """It is attached to before its start and kept for whoever comes; an engine waits for a stream that nobody reads."""
    script = f"seq 1 40000 | sed s/$/{LONG}/; exit 6"  # almost three megabytes: more than any buffer on the way
    seen, lines = await _run(runtime, an_assignment("alone", script, wants_terminal=True))
    assert seen.exit_code == 6
    assert [line.rstrip(b"\r") for line in lines] == [f"{number}{LONG}".encode() for number in range(1, 40_001)]


async def test_without_a_network_there_is_only_loopback(runtime: DockerRuntime) -> None:
    seen, lines = await _run(runtime, an_assignment("offline", "ls /sys/class/net", wants_network=False))
    assert (seen.exit_code, lines) == (0, [b"lo"])


async def test_the_engine_never_starts_it_again(runtime: DockerRuntime, docker_engine: DockerEngine) -> None:
    seen, _ = await _run(runtime, an_assignment("once", "exit 1"))
    record = docker_engine.inspect("once-1")
    assert seen.exit_code == 1
    assert record["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert record["HostConfig"]["PidsLimit"] == 4096
    assert record["HostConfig"]["Memory"] == record["HostConfig"]["MemorySwap"] == 64 << 20
    assert record["Config"]["Labels"]["windlass.dev/run"] == "once-1"


async def test_the_images_own_entrypoint_gives_way_to_the_command(
    runtime: DockerRuntime, docker_engine: DockerEngine
) -> None:
    _derive(docker_engine, "windlass-test/entry:1", 'ENTRYPOINT ["echo", "entry"]\nCMD ["image"]')
    _, own = await _run(runtime, an_assignment("own", "", image="windlass-test/entry:1", command=()))
    _, given = await _run(
        runtime, an_assignment("given", "", image="windlass-test/entry:1", command=("echo", "a  b", "$HOME"))
    )
    assert (own, given) == ([b"entry image"], [b"a  b $HOME"])


@pytest.mark.parametrize("kind", ["docker_engine", "podman_service"])
async def test_an_image_that_runs_as_somebody_else_can_write_its_artifacts(
    kind: str, request: pytest.FixtureRequest
) -> None:
    engine: EngineApi = request.getfixturevalue(kind)
    _derive(engine, "windlass-test/nobody:1", "USER 65534:65534")
    async with opened(engine) as runtime:
        try:
            await _writes_as_nobody(runtime)
        finally:
            await runtime.remove_all()


async def _writes_as_nobody(runtime: DockerRuntime) -> None:
    await _run(runtime, an_assignment("shared", "echo root > $WINDLASS_ARTIFACTS/first"))
    other = an_assignment("other", "id -u; cat /artifacts/first; echo x > /artifacts/y", image="windlass-test/nobody:1")
    seen, lines = await _run(runtime, msgspec.structs.replace(other, volume=VolumeId("shared")))
    assert (seen.exit_code, lines) == (0, [b"65534", b"root"])


async def test_a_container_that_cannot_start_says_why_and_is_not_tried_again(
    runtime: DockerRuntime, docker_engine: DockerEngine
) -> None:
    began = time.time()
    assignment = msgspec.structs.replace(an_assignment("nogpu", "true"), gpu_ids=("GPU-0",))
    await runtime.ensure_volume(assignment.volume, labels={})
    await runtime.create(assignment)
    for attempt in range(3):
        with pytest.raises(StartFailed) as failed:
            await runtime.start(assignment.run)
        assert "GPU" in failed.value.message, attempt
    seen = await runtime.observe(assignment.run)
    assert (seen.phase, seen.pid) == (Phase.CREATED, None)
    assert "GPU" in seen.error
    assert not [e for e in docker_engine.events(began, container=["nogpu-1"]) if e["Action"] == "start"]
    async with opened(docker_engine) as successor:
        with pytest.raises(StartFailed):
            await successor.start(assignment.run)
    assert [line async for line in runtime.logs(assignment.run, after=LogPosition())] == []


async def test_a_working_directory_that_cannot_be_is_not_tried_again(runtime: DockerRuntime) -> None:
    assignment = an_assignment("cwd", "true", workdir="/etc/passwd")
    await runtime.ensure_volume(assignment.volume, labels={})
    with pytest.raises(Invalid):
        await runtime.create(assignment)
    assert (await runtime.observe(assignment.run)).phase is Phase.ABSENT


async def test_a_foreign_container_of_that_name_is_left_alone(
    runtime: DockerRuntime, docker_engine: DockerEngine
) -> None:
    foreign = docker_engine.create("sleep", "3600", name="taken-1")
    assignment = an_assignment("taken", "true")
    try:
        await runtime.ensure_volume(assignment.volume, labels={})
        with pytest.raises(Conflict):
            await runtime.create(assignment)
        await runtime.stop(assignment.run, grace_ms=Millis(0))
        await runtime.remove(assignment.run)
        assert (await runtime.observe(assignment.run)).phase is Phase.ABSENT
        await runtime.remove_all()
        assert docker_engine.inspect(foreign)["State"]["Status"] == "created"
    finally:
        docker_engine.remove_container(foreign)


async def test_a_foreign_volume_of_that_name_is_left_alone(runtime: DockerRuntime, docker_engine: DockerEngine) -> None:
    docker_engine.call("POST", "/volumes/create", body={"Name": "windlass-claimed"})
    try:
        with pytest.raises(Conflict):
            await runtime.ensure_volume(VolumeId("claimed"), labels={})
        await runtime.remove_volume(VolumeId("claimed"))
        await runtime.remove_all()
        assert docker_engine.ask("/volumes/windlass-claimed")["Name"] == "windlass-claimed"
    finally:
        docker_engine.call("DELETE", "/volumes/windlass-claimed")


async def test_a_helper_that_a_crash_left_behind_does_not_hold_its_volume(
    runtime: DockerRuntime, docker_engine: DockerEngine
) -> None:
    volume = VolumeId("haunted")
    await runtime.ensure_volume(volume, labels={})
    async with runtime._volumes._helper(volume):
        before = len(docker_engine.containers())
        await runtime.remove_volume(volume)
        assert len(docker_engine.containers()) == before - 1
    assert await runtime.volumes() == ()


async def test_files_leave_no_helper_behind(runtime: DockerRuntime, docker_engine: DockerEngine) -> None:
    volume, before = VolumeId("tidy"), len(docker_engine.containers())
    await runtime.ensure_volume(volume, labels={})

    async def broken() -> AsyncIterator[bytes]:
        yield _tar("a", b"x" * 5000)[:2000]
        raise ValueError("the upload broke off")

    with pytest.raises(ValueError, match="broke off"):
        await runtime.put_archive(volume, "in", broken())
    async with aclosing(runtime.get_archive(volume, "")) as archive:
        assert await anext(archive)
    assert len(docker_engine.containers()) == before


async def test_removing_all_takes_the_empty_image_along(runtime: DockerRuntime, docker_engine: DockerEngine) -> None:
    volume = VolumeId("scratchy")
    await runtime.ensure_volume(volume, labels={})

    async def whole() -> AsyncIterator[bytes]:
        yield _tar("a", b"1")

    await runtime.put_archive(volume, "", whole())
    assert any("windlass.dev/scratch" in tag for tag in docker_engine.images())
    await runtime.remove_all()
    assert not any("windlass.dev/scratch" in tag for tag in docker_engine.images())


async def test_an_image_is_pulled_once(runtime: DockerRuntime, docker_engine: DockerEngine, registry: Registry) -> None:
    image = f"{registry.address}/team/app:1"
    docker_engine.tag(IMAGE, image)
    docker_engine.push(image)
    docker_engine.remove_image(image)
    lines = [line async for line in runtime.ensure_image(image)]
    assert lines[0] == f"pulling {image}"
    assert image in docker_engine.images()
    registry.stop()
    assert [line async for line in runtime.ensure_image(image)] == []
    docker_engine.remove_image(image)


async def test_an_image_that_cannot_be_had_says_why(runtime: DockerRuntime, registry: Registry) -> None:
    cases = [
        (f"{registry.address}/no/such:1", "image-not-found", False),
        ("127.0.0.1:1/a:1", "registry-unreachable", True),
        ("not an image", "image-name", False),
    ]
    for image, code, is_transient in cases:
        with pytest.raises(ImageUnavailable) as failed:
            _ = [line async for line in runtime.ensure_image(image)]
        assert (failed.value.code, failed.value.is_transient) == (code, is_transient), image


async def test_a_create_without_its_image_says_so(runtime: DockerRuntime) -> None:
    with pytest.raises(ImageUnavailable) as failed:
        await runtime.create(an_assignment("bare", "true", image="no/such:1"))
    assert failed.value.code == "image-not-found"


@pytest.mark.parametrize("kind", [DockerEngine, PodmanService])
async def test_waits_and_logs_go_on_over_a_killed_engine(kind: type[DockerEngine | PodmanService]) -> None:
    """Its own engine: others would suffer. Containers live on (live-restore), and their ends are seen afterwards."""
    with kind() as engine:
        engine.import_busybox()
        script = "echo before; until [ -e /artifacts/go ]; do sleep 0.05; done; echo after; exit 6"
        assignment = an_assignment("survivor", script)
        ends: list[Observed] = []
        lines: list[bytes] = []
        async with opened(engine) as runtime:
            await runtime.ensure_volume(assignment.volume, labels={})
            await runtime.create(assignment)
            await runtime.start(assignment.run)
            pid = (await runtime.observe(assignment.run)).pid

            async def wait() -> None:
                ends.append(await runtime.wait(assignment.run))

            async def read() -> None:
                async for line in runtime.logs(assignment.run, after=LogPosition()):
                    lines.append(line.text)  # noqa: PERF401 - the other task looks on

            with anyio.fail_after(DEADLINE_SECONDS):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(wait)
                    tasks.start_soon(read)
                    await wait_until(lambda: lines == [b"before"], DEADLINE_SECONDS, "the first line")
                    engine.kill()
                    with pytest.raises(Unavailable):
                        await runtime.observe(assignment.run)
                    with pytest.raises(Unavailable):
                        await runtime.observe_all()
                    assert ends == []
                    await anyio.to_thread.run_sync(engine.start)
                    seen = await runtime.observe(assignment.run)
                    assert (seen.phase, seen.pid) == (Phase.RUNNING, pid)

                    async def go() -> AsyncIterator[bytes]:
                        yield _tar("go", b"")

                    await runtime.put_archive(assignment.volume, "", go())
        assert [(end.phase, end.exit_code) for end in ends] == [(Phase.EXITED, 6)]
        assert lines == [b"before", b"after"]


@pytest.mark.parametrize("kind", [DockerEngine, PodmanService])
async def test_an_end_while_the_engine_was_down_is_seen_afterwards(kind: type[DockerEngine | PodmanService]) -> None:
    """What it wrote after the engine's death is lost with the pipe that nobody held: Docker's own limit, not asserted."""
    with kind() as engine:
        engine.import_busybox()
        assignment = an_assignment("unseen", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done")
        async with opened(engine) as runtime:
            await runtime.ensure_volume(assignment.volume, labels={})
            await runtime.create(assignment)
            await runtime.start(assignment.run)
            stream = runtime.logs(assignment.run, after=LogPosition())
            lines = [(await anext(stream)).text]
            pid = (await runtime.observe(assignment.run)).pid
            engine.kill()
            await anyio.run_process(["kill", "-TERM", str(pid)])
            await wait_until(lambda: not _is_alive(pid), DEADLINE_SECONDS, "the run to end")
            await anyio.to_thread.run_sync(engine.start)
            with anyio.fail_after(DEADLINE_SECONDS):
                seen = await runtime.wait(assignment.run)
                lines += [line.text async for line in stream]
        assert (seen.phase, seen.exit_code) == (Phase.EXITED, 9)
        assert lines == [b"ready"]


async def test_an_engine_that_hangs_is_not_an_end(docker_engine: DockerEngine, runtime: DockerRuntime) -> None:
    assignment = an_assignment("hang", "exit 3")
    await runtime.ensure_volume(assignment.volume, labels={})
    await runtime.create(assignment)
    ends: list[Observed] = []

    async def wait() -> None:
        ends.append(await runtime.wait(assignment.run))

    with anyio.fail_after(DEADLINE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            docker_engine.pause()
            try:
                with pytest.raises(TimeoutError), anyio.fail_after(0.5):
                    await runtime.observe(assignment.run)
                assert ends == []
            finally:
                docker_engine.resume()
            await runtime.start(assignment.run)
    assert [end.exit_code for end in ends] == [3]


async def test_a_run_is_started_once_however_many_successors_try(
    runtime: DockerRuntime, docker_engine: DockerEngine
) -> None:
    began = time.time()
    assignment = an_assignment("race", "true")
    await runtime.ensure_volume(assignment.volume, labels={})
    await runtime.create(assignment)
    async with opened(docker_engine) as second, opened(docker_engine) as third:
        async with anyio.create_task_group() as tasks:
            for each in (runtime, second, third):
                tasks.start_soon(each.start, assignment.run)
    await runtime.wait(assignment.run)
    starts = [event for event in docker_engine.events(began, container=["race-1"]) if event["Action"] == "start"]
    assert len(starts) == 1


async def test_what_was_just_made_is_started_without_a_look_and_nothing_else_is(
    runtime: DockerRuntime, docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.time()
    looks: list[str] = []
    whole = Engine.call

    async def call(engine: Engine, method: str, path: str, **options: Any) -> Any:
        looks.extend([path] if path.endswith("/json") else [])
        return await whole(engine, method, path, **options)

    monkeypatch.setattr(Engine, "call", call)
    for name, pause, looks_wanted in (("fresh", 0, 0), ("stale", SETTLE, 1)):
        assignment = an_assignment(name, "true")
        await runtime.ensure_volume(assignment.volume, labels={})
        await runtime.create(assignment)
        looks.clear()
        runtime._own_creations[assignment.run] = Millis(runtime._own_creations[assignment.run] - pause)
        await runtime.start(assignment.run)
        assert len(looks) == looks_wanted, name
        await runtime.wait(assignment.run)
        await runtime.start(assignment.run)  # asked for again, and left alone
    started = [
        event for event in docker_engine.events(began, container=["fresh-1", "stale-1"]) if event["Action"] == "start"
    ]
    assert len(started) == 2


async def test_the_engine_that_answers_is_found(docker_engine: DockerEngine) -> None:
    found = await find_engine({"DOCKER_HOST": docker_engine.host})
    assert (found.docker_host, found.tried) == (docker_engine.host, ())
    lost = await find_engine({}, "unix:///nowhere/docker.sock")
    assert lost.docker_host is None
    assert [(tried.address, tried.why_not) for tried in lost.tried] == [
        ("unix:///nowhere/docker.sock", "no such socket")
    ]


async def test_an_engine_that_hangs_is_not_found(docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "NAMED_SECONDS", 0.5)
    docker_engine.pause()
    try:
        found = await find_engine({}, docker_engine.host)
    finally:
        docker_engine.resume()
    assert found.docker_host is None
    assert "no answer" in found.tried[0].why_not


def _derive(engine: EngineApi, tag: str, changes: str) -> None:
    """An image that differs from the test image in its configuration only: `changes` are lines of a Dockerfile."""
    repository, _, version = tag.partition(":")
    container = engine.create("true")
    try:
        query = {"container": container, "repo": repository, "tag": version, "changes": changes}
        engine.call("POST", "/commit", query=query, body={})
    finally:
        engine.remove_container(container)


def _tar(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def _is_alive(pid: int | None) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
