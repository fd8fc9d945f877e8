"""Ways in for people: attach, exec and debug."""

import os
import signal

import anyio
import pytest

from tests.process.nodes import (
    DEADLINE_SECONDS,
    VOLUME,
    Node,
    eventually,
    everything_from,
    finish,
    is_alive,
    launch,
    output,
)
from windlass.core.errors import Conflict
from windlass.core.model.ids import RunId
from windlass.ports.runtime import Stream, Terminal

pytestmark = pytest.mark.anyio


async def test_a_terminal_is_reached_again_after_the_server_and_the_executor_were_gone(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(
            runtime, "r-1", "sh", "-c", "read a; echo got-$a; read b; echo got-$b; exit 7", wants_terminal=True
        )
        async with runtime.attach(RunId("r-1")) as terminal:
            await terminal.send(b"first\n")
            await eventually(lambda: b"got-first" in (node.directory / "runs/r-1/stdout").read_bytes())
    node.kill_executor()
    async with node.runtime() as successor:
        async with successor.attach(RunId("r-1")) as terminal:
            await terminal.send(b"second\n")
            said = await everything_from(terminal)
            assert await terminal.exit_code() == 7
        assert b"got-first" in said  # a new viewer first sees what was there
        assert b"got-second" in said
        assert (await finish(successor, "r-1")).exit_code == 7
        assert b"got-second" in await output(successor, "r-1") or b"got-second\r" in await output(successor, "r-1")


async def test_two_viewers_see_the_same_and_one_leaving_disturbs_nobody(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", "read a; echo hello", wants_terminal=True)
        async with runtime.attach(RunId("r-1")) as first, runtime.attach(RunId("r-1")) as second:
            await second.resize(rows=10, columns=40)
            async with runtime.attach(RunId("r-1")) as third:
                await third.resize(rows=12, columns=50)
            await first.send(b"x\n")
            assert b"hello" in await everything_from(second)
            assert b"hello" in await everything_from(first)


async def test_a_terminal_has_a_size_is_controlling_and_takes_an_interrupt(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", "read a; stty size; tty; exec sleep 3600", wants_terminal=True)
        async with runtime.attach(RunId("r-1")) as terminal:
            await terminal.resize(rows=33, columns=99)
            await terminal.send(b"\n")
            await eventually(lambda: b"/dev/pts" in (node.directory / "runs/r-1/stdout").read_bytes())
            await terminal.send(b"\x03")
            said = await everything_from(terminal)
        assert b"33 99" in said
        assert (await finish(runtime, "r-1")).exit_code == 128 + signal.SIGINT


async def test_a_run_without_a_terminal_is_listened_to(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", "echo out; echo err >&2; exit 2")
        async with runtime.attach(RunId("r-1")) as terminal:
            with pytest.raises(Conflict):
                await terminal.send(b"x")
            said = [item async for item in terminal.output()]
            assert await terminal.exit_code() == 2
    assert sorted(said) == [(Stream.STDERR, b"err\n"), (Stream.STDOUT, b"out\n")]


async def test_a_slow_reader_of_much_output_gets_all_of_it(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sleep", "3600")
        size = 6 << 20
        async with runtime.execute(
            RunId("r-1"), ("head", "-c", str(size), "/dev/zero"), wants_terminal=False
        ) as session:
            await anyio.wait_all_tasks_blocked()
            assert len(await everything_from(session)) == size
            assert await session.exit_code() == 0
        await runtime.remove(RunId("r-1"))


async def test_much_input_comes_back_whole(node: Node) -> None:
    data = os.urandom(3 << 20)
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sleep", "3600")
        async with runtime.execute(RunId("r-1"), ("cat",), wants_terminal=False) as session:
            async with anyio.create_task_group() as tasks:

                async def send() -> None:
                    await session.send(data)
                    await session.close_input()

                tasks.start_soon(send)
                assert await everything_from(session) == data
        await runtime.remove(RunId("r-1"))


async def test_exec_has_the_runs_environment_and_directory(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sleep", "3600", env=(("COLOUR", "blue"),))
        command = ("sh", "-c", "echo $COLOUR $WINDLASS_RUN; pwd")
        async with runtime.execute(RunId("r-1"), command, wants_terminal=False) as session:
            assert await everything_from(session) == f"blue r-1\n{node.volume}\n".encode()
        async with runtime.execute(RunId("r-1"), ("no-such",), wants_terminal=False) as session:
            assert b"no such command" in await everything_from(session)
            assert await session.exit_code() == 127
        await runtime.remove(RunId("r-1"))


@pytest.mark.parametrize("ends", ["its viewer leaves", "its run ends"])
async def test_a_session_ends_with_its_viewer_and_with_its_run(node: Node, ends: str) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sleep", "600")
        script = "trap '' TERM HUP; echo $$ > beside; while :; do sleep 0.05; done"
        async with runtime.execute(RunId("r-1"), ("sh", "-c", script), wants_terminal=False) as session:
            await eventually(lambda: (node.volume / "beside").exists() and bool((node.volume / "beside").read_text()))
            if ends == "its run ends":
                await runtime.remove(RunId("r-1"))
                with anyio.fail_after(DEADLINE_SECONDS):
                    assert await everything_from(session) == b""
        pid = int((node.volume / "beside").read_text())
        await eventually(lambda: not is_alive(pid))
        assert not is_alive(pid)


async def test_debug_is_a_shell_in_the_volume(node: Node) -> None:
    async with node.runtime() as runtime:
        (node.volume / "clue").write_text("the butler")
        async with runtime.debug(VOLUME, name="d", image="", command=(), labels={}, keep=False) as shell:
            await shell.send(b"pwd; cat clue; exit 3\n")
            said = await everything_from(shell)
            assert await shell.exit_code() == 3
    assert str(node.volume).encode() in said
    assert b"the butler" in said


async def test_output_waits_for_the_first_who_comes_and_none_of_it_is_lost(node: Node) -> None:
    printed, stdout = 40_000_000, node.directory / "runs/r-1/stdout"
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "head", "-c", str(printed), "/dev/zero", wants_input=True)
        await eventually(lambda: stdout.exists() and stdout.stat().st_size > 1 << 20)
        assert stdout.stat().st_size < 4 << 20, "it waits"
        async with runtime.attach(RunId("r-1")) as terminal:
            assert len(await everything_from(terminal)) == printed
            assert await terminal.exit_code() == 0


async def test_input_that_is_not_read_waits_also_while_the_run_prints(node: Node) -> None:
    """Each piece of output once let another 64 KiB of it in, without end."""
    pieces, given = 600, 0

    async def give(terminal: Terminal) -> None:
        nonlocal given
        while True:
            await terminal.send(bytes(1 << 16))
            given += 1 << 16

    async with node.runtime() as runtime:
        loop = f"i=0; while [ $i -lt {pieces} ]; do echo $i; i=$((i+1)); sleep 0.002; done"
        await launch(runtime, "r-1", "sh", "-c", loop, wants_input=True)
        async with runtime.attach(RunId("r-1")) as terminal, anyio.create_task_group() as tasks:
            tasks.start_soon(give, terminal)
            assert len((await everything_from(terminal)).splitlines()) == pieces
            tasks.cancel_scope.cancel()
    assert given < 8 << 20
