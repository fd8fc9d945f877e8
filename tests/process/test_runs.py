"""What a process run is given, what becomes of it, and that it is started once."""

import json
import os
import stat
import sys

import anyio
import pytest

from tests.process.nodes import VOLUME, Node, an_assignment, finish, launch, output
from windlass.core.errors import Conflict, Invalid, NotFound
from windlass.core.model.ids import Millis, RunId, VolumeId
from windlass.core.model.resources import Resources
from windlass.core.model.run import Token
from windlass.ports.runtime import Phase, StartFailed, Stream

pytestmark = pytest.mark.anyio


async def test_a_run_has_its_output_its_exit_code_and_its_times(node: Node) -> None:
    async with node.runtime() as runtime:
        run = await launch(runtime, "r-1", "sh", "-c", "echo out; echo err >&2; exit 3")
        seen = await finish(runtime, run)
        assert (seen.phase, seen.exit_code, seen.is_oom, seen.error) == (Phase.EXITED, 3, False, "")
        assert seen.token == Token(3, 7)
        assert seen.started_wall is not None
        assert seen.finished_wall is not None
        assert seen.finished_wall - seen.started_wall == pytest.approx(seen.ran_ms / 1000, abs=0.002)
        assert await output(runtime, run) == [b"out"]
        assert await output(runtime, run, Stream.STDERR) == [b"err"]


BUSY = """
import time
held = b"x" * (64 << 20)
while time.process_time() < 0.3: pass
"""


async def test_what_all_its_processes_used_is_measured(node: Node) -> None:
    async with node.runtime() as runtime:
        run = await launch(runtime, "r-1", "sh", "-c", '"$0" -c "$1" & "$0" -c "$1"; wait', sys.executable, BUSY)
        seen = await finish(runtime, run)
        assert seen.exit_code == 0
        assert seen.cpu_used_ms is not None
        assert seen.cpu_used_ms >= 600
        assert seen.memory_peak_bytes is not None
        assert seen.memory_peak_bytes >= 64 << 20


async def test_it_gets_a_clean_environment_and_nothing_of_the_servers(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_TOKEN", "a secret of the server")
    async with node.runtime() as runtime:
        run = await launch(runtime, "r-1", "env", env=(("GREETING", "hello"), ("HOME", "/elsewhere")))
        await finish(runtime, run)
        found = dict(line.decode().split("=", 1) for line in await output(runtime, run))
    volume = str(node.volume)
    assert found == {
        "PATH": os.environ["PATH"],
        "HOME": "/elsewhere",
        "LANG": "C.UTF-8",
        "GREETING": "hello",
        "CUDA_VISIBLE_DEVICES": "",
        "WINDLASS_JOB": "job-1",
        "WINDLASS_RUN": "r-1",
        "WINDLASS_ATTEMPT": "2",
        "WINDLASS_INDEX": "0",
        "WINDLASS_COUNT": "1",
        "WINDLASS_ARTIFACTS": volume,
    }


async def test_neither_executor_nor_shim_carries_the_servers_environment(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_TOKEN", "a secret of the server")
    async with node.runtime() as runtime:
        run = await launch(runtime, "r-1", "sleep", "3600")
        for pid in (node.executor(), node.shim_of("r-1")):
            with open(f"/proc/{pid}/environ", "rb") as file:
                assert b"secret" not in file.read()
        await runtime.remove(run)


async def test_it_has_no_descriptor_but_the_standard_three_and_the_volume_as_its_directory(node: Node) -> None:
    program = "import os, json; print(json.dumps([sorted(os.listdir('/proc/self/fd')), os.getcwd(), os.umask(0)]))"
    async with node.runtime() as runtime:
        run = await launch(runtime, "r-1", "python3", "-c", program)
        await finish(runtime, run)
        descriptors, directory, umask = json.loads((await output(runtime, run))[0])
    assert descriptors == ["0", "1", "2", "3"]  # 3 is the listing itself
    assert directory == str(node.volume)
    assert umask == 0o022


@pytest.mark.parametrize(("workdir", "expected"), [("/artifacts/sub", "sub"), ("sub", "sub"), ("/artifacts", "")])
async def test_a_working_directory_below_artifacts_lies_in_the_volume(node: Node, workdir: str, expected: str) -> None:
    async with node.runtime() as runtime:
        (node.volume / "sub").mkdir()
        run = await launch(runtime, "r-1", "pwd", workdir=workdir)
        await finish(runtime, run)
        assert await output(runtime, run) == [str(node.volume / expected).rstrip("/").encode()]


async def test_arguments_reach_no_shell(node: Node) -> None:
    hostile = "$(touch x); `touch x` > x | x && x\n*"
    async with node.runtime() as runtime:
        run = await launch(runtime, "r-1", "python3", "-c", "import sys; print(repr(sys.argv[1]))", hostile)
        await finish(runtime, run)
        assert await output(runtime, run) == [repr(hostile).encode()]
    assert list(node.volume.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("no-such-program",), 127, "no such command: 'no-such-program'"),
        (("./absent",), 127, "no such command: './absent'"),
        (("/etc/passwd",), 126, "not an executable file"),
        (("/",), 126, "not an executable file"),
        (("./text",), 126, "cannot be run"),
        ((), 127, "no command was given"),
        (("a\0b",), 127, "no such command"),
    ],
)
async def test_what_cannot_be_run_says_why_and_never_ran(
    node: Node, command: tuple[str, ...], code: int, words: str
) -> None:
    async with node.runtime() as runtime:
        (node.volume / "text").write_text("not a program")
        (node.volume / "text").chmod(0o755)
        await runtime.create(an_assignment("r-1", *command))
        for _ in range(2):  # asked again it answers the same
            with pytest.raises(StartFailed, match=words):
                await runtime.start(RunId("r-1"))
        seen = await finish(runtime, "r-1")
    assert seen.exit_code == code
    assert words in seen.error


async def test_where_a_command_was_looked_for_is_not_said_for_it_may_be_a_secret(node: Node) -> None:
    async with node.runtime() as runtime:
        await runtime.create(an_assignment("r-1", "true", env=(("PATH", "/canary"),)))
        with pytest.raises(StartFailed, match="no such command: 'true' on its PATH"):
            await runtime.start(RunId("r-1"))
        seen = await finish(runtime, "r-1")
    assert "canary" not in seen.error


async def test_a_death_by_signal_is_told_as_a_shell_would(node: Node) -> None:
    async with node.runtime() as runtime:
        run = await launch(runtime, "r-1", "sh", "-c", "kill -USR1 $$")
        assert (await finish(runtime, run)).exit_code == 128 + 10


async def test_create_start_stop_and_remove_may_be_repeated(node: Node) -> None:
    async with node.runtime() as runtime:
        for _ in range(2):
            await runtime.create(an_assignment("r-1", "sh", "-c", "echo once >> ran"))
            assert (await runtime.observe(RunId("r-1"))).phase is Phase.CREATED
        for _ in range(3):
            await runtime.start(RunId("r-1"))
        await finish(runtime, "r-1")
        await runtime.start(RunId("r-1"))
        await runtime.create(an_assignment("r-1", "true"))
        assert (node.volume / "ran").read_text() == "once\n"
        for _ in range(2):
            await runtime.stop(RunId("r-1"), grace_ms=Millis(0))
        for _ in range(2):
            await runtime.remove(RunId("r-1"))
            assert (await runtime.observe(RunId("r-1"))).phase is Phase.ABSENT


async def test_many_starts_at_once_start_it_once(node: Node) -> None:
    async with node.runtime() as first, node.runtime() as second:
        await first.create(an_assignment("r-1", "sh", "-c", "echo once >> ran"))
        async with anyio.create_task_group() as tasks:
            for runtime in (first, second) * 20:
                tasks.start_soon(runtime.start, RunId("r-1"))
        await finish(first, "r-1")
        assert (await finish(second, "r-1")).exit_code == 0
    assert (node.volume / "ran").read_text() == "once\n"


async def test_starting_what_was_never_created_is_not_found(node: Node) -> None:
    async with node.runtime() as runtime:
        with pytest.raises(NotFound):
            await runtime.start(RunId("r-1"))


@pytest.mark.parametrize("run", ["../r", "a/b", "", ".", ".hidden", "a\0b", "x" * 200])
async def test_an_id_that_is_no_file_name_is_refused(node: Node, run: str) -> None:
    async with node.runtime() as runtime:
        with pytest.raises(Invalid):
            await runtime.create(an_assignment(run, "true"))
        with pytest.raises(Invalid):
            await runtime.ensure_volume(VolumeId(run), labels={})


async def test_a_waiting_call_ends_when_the_run_is_removed_before_its_start(node: Node) -> None:
    async with node.runtime() as runtime, anyio.create_task_group() as tasks:
        await runtime.create(an_assignment("r-1", "true"))
        seen = []

        async def wait() -> None:
            seen.append(await finish(runtime, "r-1"))

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await runtime.remove(RunId("r-1"))
    assert [one.phase for one in seen] == [Phase.ABSENT]


async def test_another_installations_runs_and_volumes_are_neither_seen_nor_touched(node: Node) -> None:
    async with node.runtime() as ours, node.runtime(installation="other") as theirs:
        run = await launch(ours, "r-1", "sleep", "3600")
        assert await theirs.observe_all() == ()
        assert await theirs.volumes() == ()
        assert (await theirs.observe(run)).phase is Phase.ABSENT
        with pytest.raises(Conflict):
            await theirs.create(an_assignment("r-1", "true"))
        with pytest.raises(Conflict):
            await theirs.ensure_volume(VOLUME, labels={})
        await theirs.stop(run, grace_ms=Millis(0))
        await theirs.remove(run)
        await theirs.remove_volume(VOLUME)
        assert await theirs.remove_all() == 0
        assert (await ours.observe(run)).phase is Phase.RUNNING
        assert [seen.run for seen in await ours.observe_all()] == [run]
        assert await ours.volumes() == (VOLUME,)


async def test_remove_all_leaves_nothing_and_ends_the_executor(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sleep", "3600")
        await runtime.create(an_assignment("r-2", "true"))
        closed = node.volume / "closed"
        closed.mkdir()
        (closed / "file").touch()
        closed.chmod(0)
        assert await runtime.remove_all() == 3
        assert (await runtime.observe_all(), await runtime.volumes()) == ((), ())
        assert await runtime.remove_all() == 0
    assert list(node.directory.glob("*/*")) == []


async def test_limits_hold_and_running_out_of_memory_is_named(node: Node) -> None:
    async with node.runtime() as runtime:
        machine = await runtime.machine()
        assert machine.kind == "process"
        assert machine.capacity.cpu_millis > 0
        if machine.runtime != "process":
            pytest.skip(machine.runtime)
        needs = Resources(memory_bytes=64 << 20, cpu_millis=500)
        eats = await launch(runtime, "r-1", "python3", "-c", "x = bytearray(256 << 20)", needs=needs)
        seen = await finish(runtime, eats)
        assert (seen.exit_code, seen.is_oom) == (137, True)
        forks = await launch(
            runtime, "r-2", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 9 & done; wait", pids_max=4, needs=needs
        )
        assert (await finish(runtime, forks)).exit_code != 0
        fits = await launch(runtime, "r-3", "python3", "-c", "x = bytearray(8 << 20)", needs=needs)
        seen = await finish(runtime, fits)
        assert (seen.exit_code, seen.is_oom) == (0, False)


async def test_all_it_keeps_is_closed_to_other_users(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sleep", "3600")
        paths = [node.directory, *node.directory.glob("*"), *node.directory.glob("runs/*/*"), node.volume]
        open_ones = [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077 and not path.is_socket()]
        assert open_ones == []
        await runtime.remove(RunId("r-1"))
