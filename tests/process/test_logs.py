"""Following the output: live, resumed at every byte, and to the very end."""

import anyio
import pytest

from tests.process.nodes import DEADLINE_SECONDS, Node, an_assignment, eventually, finish, launch, output
from windlass.adapters.runtime.process.follow import Inotify
from windlass.adapters.runtime.process.runtime import ProcessRuntime
from windlass.core.model.ids import RunId
from windlass.ports.runtime import LogLine, LogPosition, Stream

pytestmark = pytest.mark.anyio


async def _lines(runtime: ProcessRuntime, run: str, position: LogPosition | None = None) -> list[LogLine]:
    with anyio.fail_after(DEADLINE_SECONDS):
        return [line async for line in runtime.logs(RunId(run), after=position or LogPosition())]


def _joined(lines: list[LogLine], stream: Stream) -> bytes:
    own = [line for line in lines if line.stream is stream]
    return b"".join(line.text + (b"" if line.is_partial else b"\n") for line in own)


async def test_a_follow_resumes_at_every_single_byte(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", r"printf 'one\n\ntwo\r\nlast'; printf 'err\nor' >&2")
        await finish(runtime, "r-1")
        out, err = b"one\n\ntwo\r\nlast", b"err\nor"
        for held_out in range(len(out) + 2):
            for held_err in range(len(err) + 2):
                rest = await _lines(runtime, "r-1", LogPosition(bytes_of={"stdout": held_out, "stderr": held_err}))
                assert _joined(rest, Stream.STDOUT) == out[held_out:]
                assert _joined(rest, Stream.STDERR) == err[held_err:]


async def test_a_follower_that_is_cut_off_again_and_again_while_it_is_written_misses_nothing(node: Node) -> None:
    script = "i=0; while [ $i -lt 400 ]; do echo $i; echo e$i >&2; i=$((i+1)); done"
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", script)
        held: list[LogLine] = []
        for patience in (1, 2, 3, 50, 51, 1000, 10_000):
            position = LogPosition(
                last_at=held[-1].at if held else "",
                bytes_of={stream: len(_joined(held, stream)) for stream in Stream},
            )
            with anyio.fail_after(DEADLINE_SECONDS):
                async for line in runtime.logs(RunId("r-1"), after=position):
                    held.append(line)
                    patience -= 1
                    if patience == 0:
                        break
        assert [line.text for line in held if line.stream is Stream.STDOUT] == [b"%d" % n for n in range(400)]
        assert [line.text for line in held if line.stream is Stream.STDERR] == [b"e%d" % n for n in range(400)]
        assert [line.at for line in held] == sorted(line.at for line in held)


async def test_following_begins_before_the_start_and_sees_lines_as_they_come(node: Node) -> None:
    async with node.runtime() as runtime:
        await runtime.create(
            an_assignment("r-1", "sh", "-c", "echo one; until [ -e go ]; do sleep 0.02; done; echo two")
        )
        seen: list[bytes] = []
        async with anyio.create_task_group() as tasks:

            async def follow() -> None:
                async for line in runtime.logs(RunId("r-1"), after=LogPosition()):
                    seen.append(line.text)  # noqa: PERF401 — as they come

            tasks.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            await runtime.start(RunId("r-1"))
            await eventually(lambda: seen == [b"one"])
            (node.volume / "go").touch()
        assert seen == [b"one", b"two"]


async def test_an_endless_line_comes_in_parts(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "python3", "-c", "print('x' * 3_000_000); print('end')")
        lines = await _lines(runtime, "r-1")
        assert _joined(lines, Stream.STDOUT) == b"x" * 3_000_000 + b"\nend\n"
        assert lines[0].is_partial
        assert not lines[-1].is_partial


async def test_removing_a_run_ends_its_followers(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", "echo one; exec sleep 3600")
        seen: list[bytes] = []
        async with anyio.create_task_group() as tasks:

            async def follow() -> None:
                seen.extend(await output(runtime, "r-1"))

            tasks.start_soon(follow)
            await eventually(lambda: (node.directory / "runs/r-1/stdout").exists())
            await anyio.wait_all_tasks_blocked()
            await runtime.remove(RunId("r-1"))
        assert seen in ([b"one"], [])


async def test_without_inotify_it_polls(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Inotify, "add", lambda _self, _directory: -1)
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", "echo one; until [ -e go ]; do sleep 0.02; done; echo two")
        seen: list[bytes] = []
        async for line in runtime.logs(RunId("r-1"), after=LogPosition()):
            seen.append(line.text)
            (node.volume / "go").touch()
        assert seen == [b"one", b"two"]
