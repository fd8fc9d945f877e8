"""Whoever is killed, at whatever moment: no process is lost, none runs twice, no exit code is lost."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from tests.process.nodes import (
    DEADLINE_SECONDS,
    EXECUTOR,
    Node,
    an_assignment,
    eventually,
    finish,
    is_alive,
    launch,
    output,
)
from windlass.adapters.runtime.process import doors, family, kernel
from windlass.core.errors import Unavailable
from windlass.core.model.ids import Millis, RunId
from windlass.ports.runtime import Phase

pytestmark = pytest.mark.anyio

SERVER = """
import anyio, sys
from tests.process.nodes import Node, launch
from pathlib import Path

async def serve():
    async with Node(Path(sys.argv[1])).runtime() as runtime:
        await launch(runtime, "r-1", *sys.argv[2:])
        print((await runtime.observe("r-1")).pid, flush=True)
        await anyio.sleep_forever()

anyio.run(serve)
"""
UNTIL_TOLD = 'until [ -e go ]; do sleep 0.02; done; echo "told"; exit 5'


async def test_a_run_outlives_its_killed_server_and_the_next_one_has_its_end(node: Node) -> None:
    for moment in ("ends while nobody looks", "ends under the next server"):
        (node.volume / "go").unlink(missing_ok=True)
        pid = await _serve_and_kill(node, "sh", "-c", UNTIL_TOLD)
        assert is_alive(pid)
        if moment == "ends while nobody looks":
            (node.volume / "go").touch()
            await eventually(lambda: "exit" in node.journal("r-1"))
        async with node.runtime() as successor:
            if moment != "ends while nobody looks":
                seen = await successor.observe(RunId("r-1"))
                assert (seen.phase, seen.pid) == (Phase.RUNNING, pid)
                (node.volume / "go").touch()
            assert (await finish(successor, "r-1")).exit_code == 5
            assert await output(successor, "r-1") == [b"told"]
            await successor.remove(RunId("r-1"))


@pytest.mark.parametrize("ends", ["while there is no executor", "under the next one"])
async def test_a_run_outlives_its_killed_executor(node: Node, ends: str) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", UNTIL_TOLD)
        before = await runtime.observe(RunId("r-1"))
        assert before.pid is not None
        executor = node.kill_executor()
        if ends == "while there is no executor":
            (node.volume / "go").touch()
            await eventually(lambda: "exit" in node.journal("r-1"))
        else:
            assert await runtime.observe(RunId("r-1")) == before
            (node.volume / "go").touch()
        seen = await finish(runtime, "r-1")
        assert seen.exit_code == 5
        assert seen.ran_ms > 0
        assert not is_alive(before.pid)
        assert node.executor() != executor


async def test_waiting_survives_the_executor_being_killed_again_and_again(node: Node) -> None:
    async with node.runtime() as runtime, anyio.create_task_group() as tasks:
        await launch(runtime, "r-1", "sh", "-c", UNTIL_TOLD)
        codes = []

        async def wait() -> None:
            codes.append((await finish(runtime, "r-1")).exit_code)

        tasks.start_soon(wait)
        for _ in range(5):
            await runtime.observe(RunId("r-1"))
            node.kill_executor()
        (node.volume / "go").touch()
    assert codes == [5]


async def test_a_run_under_a_killed_shim_is_ended_and_written_off_with_all_it_started(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", "sleep 3601 & setsid sleep 3602 & exec sleep 3603")
        await eventually(lambda: len(node.marked("r-1")) == 3)
        os.kill(node.shim_of("r-1"), signal.SIGKILL)
        seen = await finish(runtime, "r-1")
        assert (seen.phase, seen.exit_code) == (Phase.EXITED, 137)
        assert "keeper was killed" in seen.error
        assert node.marked("r-1") == []
        await runtime.start(RunId("r-1"))
        assert await runtime.observe(RunId("r-1")) == seen
        assert node.marked("r-1") == []


async def test_shim_and_executor_killed_together_are_found_out_by_the_next_executor(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", "sleep 3601 & setsid sleep 3602 & exec sleep 3603")
        await eventually(lambda: len(node.marked("r-1")) == 3)
        shim, executor = node.shim_of("r-1"), node.executor()
        os.kill(executor, signal.SIGKILL)
        os.kill(shim, signal.SIGKILL)
        await eventually(lambda: not is_alive(shim) and not is_alive(executor))
        assert len(node.marked("r-1")) == 3
        seen = await finish(runtime, "r-1")
        assert (seen.phase, seen.exit_code) == (Phase.EXITED, 137)
        assert node.marked("r-1") == []


async def test_a_start_that_was_written_down_but_not_made_is_never_made(node: Node) -> None:
    async with node.runtime() as runtime:
        await runtime.create(an_assignment("r-1", "touch", "ran"))
        node.kill_executor()
        with (node.directory / "runs/r-1/journal").open("a") as journal:
            journal.write(json.dumps({"started": {}}) + "\n")
        await runtime.start(RunId("r-1"))
        seen = await finish(runtime, "r-1")
        assert (seen.phase, seen.exit_code) == (Phase.EXITED, 137)
        assert seen.error
    assert not (node.volume / "ran").exists()


@pytest.mark.parametrize("torn", [b'{"exit": {"exit_code": 0', b"\0\0\0\0\0\0", b'{"exi\n'])
async def test_a_line_that_a_power_cut_tore_was_never_written(node: Node, torn: bytes) -> None:
    async with node.runtime() as runtime:
        await runtime.create(an_assignment("r-1", "touch", "ran"))
        node.kill_executor()
        with (node.directory / "runs/r-1/journal").open("ab") as journal:
            journal.write(b'{"started": {}}\n' + torn)
        for _ in range(2):  # also for the executor after the one that wrote it off
            seen = await finish(runtime, "r-1")
            assert (seen.phase, seen.exit_code) == (Phase.EXITED, 137)
            node.kill_executor()
        await runtime.start(RunId("r-1"))
    assert not (node.volume / "ran").exists()


async def test_a_run_that_was_only_half_made_is_made_anew(node: Node) -> None:
    (node.directory / "runs" / "r-1").mkdir(parents=True)
    (node.directory / "runs" / "r-1" / "journal").write_bytes(b'{"order": {"run"')
    async with node.runtime() as runtime:
        assert (await runtime.observe(RunId("r-1"))).phase is Phase.ABSENT
        await launch(runtime, "r-1", "true")
        assert (await finish(runtime, "r-1")).exit_code == 0


async def test_killing_the_executor_at_random_moments_loses_and_doubles_nothing(node: Node) -> None:
    """Each run appends its own name once; each must end well, or be one whose start was cut off and never ran."""
    async with node.runtime() as runtime:
        ended: dict[str, int | None] = {}

        async def one(number: int) -> None:
            run = f"r-{number}"
            await launch(runtime, run, "sh", "-c", "echo $WINDLASS_RUN >> ran")
            ended[run] = (await finish(runtime, run)).exit_code

        async with anyio.create_task_group() as tasks:
            for number in range(60):
                tasks.start_soon(one, number)
                if number % 12 == 0:
                    await runtime.observe(RunId("r-0"))
                    node.kill_executor()
    ran = (node.volume / "ran").read_text().split()
    assert len(ended) == 60
    assert len(ran) == len(set(ran))
    assert set(ran) == {run for run, code in ended.items() if code == 0}
    assert set(ended.values()) <= {0, 137}


async def test_a_stop_outlives_the_executor_that_ordered_it(node: Node) -> None:
    async with node.runtime() as runtime, anyio.create_task_group() as tasks:
        await launch(runtime, "r-1", "sh", "-c", "trap 'echo asked' TERM; touch ready; while :; do sleep 0.02; done")
        await eventually((node.volume / "ready").exists)
        pid = (await runtime.observe(RunId("r-1"))).pid
        tasks.start_soon(lambda: runtime.stop(RunId("r-1"), grace_ms=Millis(500)))
        await eventually(lambda: (node.directory / "runs/r-1/stdout").read_bytes() == b"asked\n")
        node.kill_executor()
        assert pid is not None
        await eventually(lambda: not is_alive(pid))
        assert (await finish(runtime, "r-1")).exit_code == 137


async def test_a_later_executor_can_stop_what_an_earlier_one_started(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", "trap 'exit 9' TERM; touch ready; while :; do sleep 0.02; done")
        await eventually((node.volume / "ready").exists)
        node.kill_executor()
        await runtime.stop(RunId("r-1"), grace_ms=Millis(60_000))
        assert (await runtime.observe(RunId("r-1"))).exit_code == 9


async def test_one_directory_has_one_executor(node: Node) -> None:
    async with node.runtime() as runtime:
        await runtime.machine()
        first = node.executor()
        for _ in range(3):
            assert (
                subprocess.run([*EXECUTOR, str(node.directory)], timeout=DEADLINE_SECONDS, check=False).returncode == 0
            )
        assert node.executor() == first
        assert (await runtime.observe_all()) == ()


async def test_an_executor_of_another_version_is_replaced_and_its_runs_adopted(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", UNTIL_TOLD)
        before, first = await runtime.observe(RunId("r-1")), node.executor()
    link = sys.modules["windlass.adapters.runtime.process.link"]
    monkeypatch.setattr(link, "PROTOCOL", doors.PROTOCOL + 1)
    async with node.runtime() as newer:
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                assert await newer.observe(RunId("r-1")) == before

            tasks.start_soon(ask)
            await eventually(lambda: not is_alive(first))
            monkeypatch.setattr(link, "PROTOCOL", doors.PROTOCOL)
        (node.volume / "go").touch()
        assert (await finish(newer, "r-1")).exit_code == 5


async def test_stop_ends_every_run_and_the_executor(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sleep", "3600")
        await launch(runtime, "r-2", "true")
        await runtime.create(an_assignment("r-3", "true"))
        executor = node.executor()
    assert node.stop() == 0
    await eventually(lambda: not is_alive(executor))
    assert node.marked("r-1") == []
    assert node.journal("r-1")["exit"]["exit_code"] == 143
    assert node.stop() == 0


async def test_stop_also_ends_the_runs_of_an_executor_that_was_killed(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sleep", "3600")
        await eventually(lambda: len(node.marked("r-1")) == 1)
        node.kill_executor()
    assert len(node.marked("r-1")) == 1
    assert node.stop() == 0
    assert node.marked("r-1") == []
    assert node.journal("r-1")["exit"]["exit_code"] == 143


async def test_a_directory_with_a_long_path_works_like_any_other() -> None:
    with tempfile.TemporaryDirectory(prefix="windlass-") as directory:
        node = Node(Path(directory, *["a-rather-long-directory-name"] * 6))
        async with node.runtime() as runtime:
            await launch(runtime, "r-1", "echo", "hello", wants_terminal=True)
            async with runtime.attach(RunId("r-1")) as terminal:
                said = b"".join([data async for _, data in terminal.output()])
            assert said == b"hello\r\n"
            assert await runtime.remove_all() == 2


async def test_the_executor_is_small_and_holds_nothing_of_its_starter(node: Node) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        subprocess.run([*EXECUTOR, str(node.directory)], close_fds=False, timeout=DEADLINE_SECONDS, check=True)
    finally:
        os.close(writing)
    os.set_blocking(reading, False)
    assert os.read(reading, 1) == b""  # the executor let go of it, so ours was the last
    os.close(reading)
    pid = node.executor()
    status = Path(f"/proc/{pid}/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0])
    assert resident < 15 << 10
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) != os.getsid(0)


async def _serve_and_kill(node: Node, *command: str) -> int:
    """A server in a process of its own, killed as soon as its run goes. Answers the workload's pid."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(node.directory), *command], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        line = ""
        while not line.strip().isdigit():
            line = await anyio.to_thread.run_sync(server.stdout.readline)
        server.kill()
    return int(line)


IMPATIENT = """
import sys
from windlass.adapters.runtime.process import doors, executor

class Impatient(doors.Doors):
    def _look_around(self):
        if self._peers:  # not before its first server came, however long that took
            doors._UNNEEDED_SECONDS_MAX = 0.2
        super()._look_around()

doors._LOOK_SECONDS, executor.Doors = 0.05, Impatient
sys.exit(executor.main(sys.argv[1:]))
"""


async def test_an_executor_that_nobody_needs_ends_by_itself(node: Node) -> None:
    _start_impatient(node)
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", UNTIL_TOLD)
        executor = node.executor()
    assert is_alive(executor)  # no server, but a run
    (node.volume / "go").touch()
    await eventually(lambda: not is_alive(executor))
    async with node.runtime() as successor:
        assert (await finish(successor, "r-1")).exit_code == 5


async def test_a_removed_socket_comes_back_and_a_removed_directory_ends_the_executor(node: Node) -> None:
    _start_impatient(node)
    async with node.runtime() as runtime:
        await runtime.machine()
        executor = node.executor()
        (node.directory / "socket").unlink()
        await eventually((node.directory / "socket").exists)
        async with node.runtime() as second:
            assert await second.observe_all() == ()
        assert node.executor() == executor
        # At once: piece by piece, the socket would come back while the rest is being removed.
        gone = node.directory.rename(node.directory.with_name("gone"))
        await eventually(lambda: not is_alive(executor))
        shutil.rmtree(gone)


def _start_impatient(node: Node) -> None:
    command = [sys.executable, "-c", IMPATIENT, str(node.directory)]
    assert subprocess.run(command, timeout=DEADLINE_SECONDS, check=False).returncode == 0


async def test_a_hung_executor_is_said_to_be_unavailable_and_its_runs_go_on(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", UNTIL_TOLD)
        executor = node.executor()
        monkeypatch.setattr(sys.modules["windlass.adapters.runtime.process.link"], "_PATIENCE_SECONDS", 0.3)
        os.kill(executor, signal.SIGSTOP)
        try:
            with pytest.raises(Unavailable):
                await runtime.observe(RunId("r-1"))
            async with node.runtime() as second:
                with pytest.raises(Unavailable):
                    await second.observe_all()
            (node.volume / "go").touch()
            await eventually(lambda: "exit" in node.journal("r-1"))
        finally:
            os.kill(executor, signal.SIGCONT)
        assert (await finish(runtime, "r-1")).exit_code == 5


async def test_requests_cancelled_at_any_moment_do_not_disturb_the_others(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sleep", "3600")
        for delay in range(30):
            with anyio.move_on_after(delay / 10_000):
                await runtime.observe_all()
        assert [seen.run for seen in await runtime.observe_all()] == ["r-1"]
        await runtime.remove(RunId("r-1"))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
async def test_a_full_disk_refuses_starts_and_loses_no_exit_code(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)], check=True)
    node = Node(disk / "node")
    try:
        async with node.runtime() as runtime:
            await launch(runtime, "r-1", "sh", "-c", UNTIL_TOLD)
            await runtime.create(an_assignment("r-2", "echo", "hello"))
            filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
            with contextlib.suppress(OSError):
                while os.write(filler, bytes(4096)):
                    pass
            os.close(filler)
            with pytest.raises(Unavailable):
                await runtime.create(an_assignment("r-3", "true", env=(("LONG", "x" * 5000),)))
            pid = (await runtime.observe(RunId("r-1"))).pid
            os.mkfifo(node.volume / "go")  # takes no room
            assert pid is not None
            await eventually(lambda: not is_alive(pid))
            (disk / "filler").unlink()
            assert (await finish(runtime, "r-1")).exit_code == 5
            await runtime.start(RunId("r-2"))
            assert (await finish(runtime, "r-2")).exit_code == 0
    finally:
        node.stop()
        subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_daemon_without_any_mark_does_not_outlive_its_killed_shim(node: Node) -> None:
    slips_away = "env -i setsid sh -c 'echo $$ > daemon; exec sleep 600' & until [ -s daemon ]; do sleep 0.02; done; exec sleep 600"
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", slips_away)
        await eventually(lambda: (node.volume / "daemon").exists() and bool((node.volume / "daemon").read_text()))
        daemon = int((node.volume / "daemon").read_text())
        assert daemon not in node.marked("r-1")
        os.kill(node.shim_of("r-1"), signal.SIGKILL)
        assert (await finish(runtime, "r-1")).exit_code == 137
        assert not is_alive(daemon)


@pytest.mark.parametrize("stale", ["another boot", "a pid that is somebody else's now"])
async def test_a_strangers_process_is_not_taken_for_a_lost_runs(node: Node, stale: str) -> None:
    """The journal names a pid; after a reboot, or long after, it belongs to somebody who has nothing to do with us."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        async with node.runtime() as runtime:
            await runtime.create(an_assignment("r-1", "true"))
            node.kill_executor()
            ticks = family.start_ticks(stranger.pid)
            running = {"shim": stranger.pid, "pid": stranger.pid, "started_wall": 1.5}
            running |= {"pid_ticks": ticks, "boot": "another"} if stale == "another boot" else {"pid_ticks": ticks - 1}
            running.setdefault("boot", kernel.boot_id())
            with (node.directory / "runs/r-1/journal").open("a") as journal:
                journal.write(f'{{"started": {{}}}}\n{json.dumps({"running": running})}\n')
            assert (await finish(runtime, "r-1")).exit_code == 137
            assert is_alive(stranger.pid)
        stranger.kill()
