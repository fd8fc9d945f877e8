"""What every runtime must do, whatever runs the runs. A test module mixes `RuntimeContract` in and provides `harness`.

Behaviours are neutral steps (`Say`, `Exit`, …); a harness turns them into a command that its runtime understands. What only
some runtimes have (ways in for people) is a trait: without it the test is left out.
"""

from typing import Any

import anyio
import pytest

from tests.contracts.runtime_acts import (
    DEADLINE_SECONDS,
    a_volume,
    all_lines,
    all_said,
    created,
    get_files,
    give_all,
    joined,
    need,
    position_after,
    put_files,
    read_file,
    soon,
    start_now,
    started,
    try_start,
    until_it_says,
)
from tests.contracts.runtime_behaviours import (
    Append,
    Await,
    Copy,
    Exit,
    Harness,
    IgnoreTerm,
    Link,
    ReadLine,
    RealClock,
    Say,
    Show,
    Sleep,
    Step,
    Trait,
    Trap,
    Variable,
    an_assignment,
    as_fake,
    as_shell,
)
from tests.contracts.runtime_slices import Slices
from tests.contracts.runtime_tidying import Tidying
from windlass.core.errors import Conflict, Invalid, NotFound
from windlass.core.model.ids import Millis, RunId, VolumeId
from windlass.core.model.run import Token
from windlass.core.model.secret import Handed
from windlass.ports.runtime import LogPosition, Observed, Phase, Stream

__all__ = ["Harness", "RealClock", "RuntimeContract", "Step", "Trait", "an_assignment", "as_fake", "as_shell"]

FOREVER = 3600


class Lifecycle:
    async def test_a_run_that_was_never_made_is_absent(self, harness: Harness) -> None:
        seen = await harness.runtime.observe(RunId("nobody-1"))
        assert seen == Observed(run=RunId("nobody-1"), phase=Phase.ABSENT)
        assert (await soon(harness.runtime.wait(RunId("nobody-1")))).phase is Phase.ABSENT

    async def test_a_created_run_has_its_token_and_does_not_run(self, harness: Harness) -> None:
        assignment = await created(harness, "made", Exit(0))
        seen = await harness.runtime.observe(assignment.run)
        assert (seen.phase, seen.token, seen.pid, seen.exit_code) == (Phase.CREATED, Token(3, 14), None, None)

    async def test_a_running_run_has_a_process(self, harness: Harness) -> None:
        assignment = await started(harness, "busy", Sleep(FOREVER))
        seen = await harness.runtime.observe(assignment.run)
        assert seen.phase is Phase.RUNNING
        assert (seen.pid is not None) is harness.runtime.traits.shows_pids
        assert seen.started_wall is not None
        assert seen.exit_code is None

    @pytest.mark.parametrize("code", [0, 3, 255])
    async def test_a_run_ends_with_its_own_exit_code(self, harness: Harness, code: int) -> None:
        assignment = await started(harness, f"ends{code}", Say(b"done\n"), Exit(code))
        seen = await soon(harness.runtime.wait(assignment.run))
        assert (seen.phase, seen.exit_code, seen.is_oom, seen.token) == (Phase.EXITED, code, False, Token(3, 14))
        assert seen.ran_ms >= 0
        assert seen.started_wall is not None
        assert seen.finished_wall is not None
        assert await harness.runtime.observe(assignment.run) == seen

    async def test_creating_again_changes_nothing(self, harness: Harness) -> None:
        assignment = await created(harness, "again", Append("starts", "x"), Sleep(FOREVER))
        await harness.runtime.create(assignment)
        await start_now(harness, assignment.run)
        before = await harness.runtime.observe(assignment.run)
        await harness.runtime.create(assignment)
        assert await harness.runtime.observe(assignment.run) == before
        assert before.phase is Phase.RUNNING

    async def test_many_starts_at_once_start_it_once(self, harness: Harness) -> None:
        assignment = await created(harness, "once", Append("starts", "x"), Exit(0))
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(harness.runtime.start, assignment.run)
        await soon(harness.runtime.wait(assignment.run))
        assert await read_file(harness, assignment.volume, "starts") == b"x\n"

    async def test_what_has_ended_is_not_started_again(self, harness: Harness) -> None:
        assignment = await started(harness, "ended", Append("starts", "x"), Exit(4))
        before = await soon(harness.runtime.wait(assignment.run))
        await harness.runtime.start(assignment.run)
        async with harness.open() as successor:
            await successor.start(assignment.run)
            assert await successor.observe(assignment.run) == before
        assert await read_file(harness, assignment.volume, "starts") == b"x\n"

    async def test_a_successor_starts_what_was_only_created(self, harness: Harness) -> None:
        assignment = await created(harness, "heir", Append("starts", "x"), Exit(0))
        async with harness.open() as successor:
            await successor.create(assignment)
            await successor.start(assignment.run)
            assert (await soon(successor.wait(assignment.run))).exit_code == 0
        await harness.runtime.start(assignment.run)
        assert await read_file(harness, assignment.volume, "starts") == b"x\n"

    async def test_starting_what_is_absent_is_not_found(self, harness: Harness) -> None:
        with pytest.raises(NotFound):
            await harness.runtime.start(RunId("nobody-1"))

    async def test_a_command_that_does_not_exist_never_succeeds(self, harness: Harness) -> None:
        """Refused at the start, or, where an init program is in between, an exit code as a shell would give it."""
        assignment = await created(harness, "typo", command=("no-such-command",))
        if (
            not harness.runtime.traits.starts_at_once
        ):  # what comes of a start is seen later; then it is told like elsewhere
            await start_now(harness, assignment.run)
        outcomes = [await try_start(harness.runtime, assignment.run) for _ in range(2)]
        seen = await harness.runtime.observe(assignment.run)
        if seen.phase is Phase.CREATED:
            assert all("no-such-command" in outcome for outcome in outcomes)
            assert "no-such-command" in seen.error
        else:
            assert (await soon(harness.runtime.wait(assignment.run))).exit_code == 127

    async def test_a_wait_begun_early_sees_the_end(self, harness: Harness) -> None:
        assignment = await created(harness, "early", Await("go"), Exit(5))
        ends: list[Observed] = []

        async def wait() -> None:
            ends.append(await harness.runtime.wait(assignment.run))

        with anyio.fail_after(DEADLINE_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await harness.runtime.start(assignment.run)
                tasks.start_soon(wait)
                await put_files(harness, assignment.volume, "", {"go": b""})
        assert [end.exit_code for end in ends] == [5, 5]

    async def test_a_wait_begun_early_sees_the_end_of_a_short_run(self, harness: Harness) -> None:
        """So short that it may be over between any two looks."""
        assignments = [await created(harness, f"short{n}", Exit(n)) for n in range(3)]
        ends: dict[str, int | None] = {}

        async def wait(run: RunId) -> None:
            ends[run] = (await harness.runtime.wait(run)).exit_code

        with anyio.fail_after(DEADLINE_SECONDS):
            async with anyio.create_task_group() as tasks:
                for assignment in assignments:
                    tasks.start_soon(wait, assignment.run)
                for assignment in assignments:
                    await harness.runtime.start(assignment.run)
        assert ends == {"short0-1": 0, "short1-1": 1, "short2-1": 2}

    async def test_stopping_asks_first(self, harness: Harness) -> None:
        assignment = await started(harness, "polite", Trap(7), Say(b"ready\n"), Sleep(FOREVER))
        await until_it_says(harness.runtime, assignment.run, b"ready")
        await soon(harness.runtime.stop(assignment.run, grace_ms=Millis(60_000)))
        seen = await harness.runtime.observe(assignment.run)
        assert (seen.phase, seen.exit_code) == (Phase.EXITED, 7)

    async def test_stopping_insists_after_the_grace(self, harness: Harness) -> None:
        assignment = await started(harness, "stubborn", IgnoreTerm(), Say(b"ready\n"), Sleep(FOREVER))
        await until_it_says(harness.runtime, assignment.run, b"ready")
        await soon(harness.runtime.stop(assignment.run, grace_ms=Millis(1_000)))
        seen = await harness.runtime.observe(assignment.run)
        assert (seen.phase, seen.exit_code, seen.is_oom) == (Phase.EXITED, 137, False)

    async def test_stopping_what_does_not_run_is_fine(self, harness: Harness) -> None:
        over = await started(harness, "over", Exit(2))
        before = await soon(harness.runtime.wait(over.run))
        await harness.runtime.stop(over.run, grace_ms=Millis(1_000))
        await harness.runtime.stop(RunId("nobody-1"), grace_ms=Millis(1_000))
        assert await harness.runtime.observe(over.run) == before

    async def test_removing_ends_it_and_may_be_repeated(self, harness: Harness) -> None:
        assignment = await started(harness, "gone", Append("kept", "x"), Say(b"ready\n"), IgnoreTerm(), Sleep(FOREVER))
        await until_it_says(harness.runtime, assignment.run, b"ready")
        await soon(harness.runtime.remove(assignment.run))
        await harness.runtime.remove(assignment.run)
        assert (await harness.runtime.observe(assignment.run)).phase is Phase.ABSENT
        assert await read_file(harness, assignment.volume, "kept") == b"x\n"

    async def test_a_wait_ends_when_its_run_is_removed(self, harness: Harness) -> None:
        assignment = await started(harness, "vanishes", Sleep(FOREVER))
        ends: list[Observed] = []

        async def wait() -> None:
            ends.append(await harness.runtime.wait(assignment.run))

        with anyio.fail_after(DEADLINE_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await harness.runtime.remove(assignment.run)
        assert ends[0].phase in (Phase.ABSENT, Phase.EXITED)

    async def test_a_run_is_told_who_it_is(self, harness: Harness) -> None:
        names = ("WINDLASS_JOB", "WINDLASS_RUN", "WINDLASS_ATTEMPT", "WINDLASS_INDEX", "WINDLASS_COUNT", "COLOUR")
        env = (("COLOUR", "dark blue; $HOME"), ("WINDLASS_RUN", "an impostor"))
        changes = {"env": env, "index": 2, "count": 5, "attempt": 4}
        assignment = await started(harness, "who", *map(Variable, names), **changes)
        lines = await all_lines(harness.runtime, assignment.run)
        assert [line.text for line in lines] == [b"who", b"who-1", b"4", b"2", b"5", b"dark blue; $HOME"]

    async def test_a_run_of_the_inference_preset_is_told_of_its_model_and_where_its_files_are(
        self, harness: Harness
    ) -> None:
        preset = {"model": "resnet50", "input_path": "/artifacts/cat.jpg", "output_path": "/artifacts/out/cat.json"}
        names = ("WINDLASS_MODEL", "WINDLASS_GPU", "WINDLASS_INPUT", "WINDLASS_OUTPUT", "WINDLASS_ARTIFACTS")
        assignment = await started(harness, "preset", *map(Variable, names), **preset)
        *told, artifacts = [line.text for line in await all_lines(harness.runtime, assignment.run)]
        assert told == [b"resnet50", b"0", artifacts + b"/cat.jpg", artifacts + b"/out/cat.json"]

    async def test_a_run_finds_what_it_was_handed_and_is_still_who_it_is(self, harness: Harness) -> None:
        handed = Handed(variables=(("TOKEN", "dark blue; $HOME"), ("WINDLASS_RUN", "an impostor")))
        assignment = an_assignment(harness, "given", Variable("TOKEN"), Variable("WINDLASS_RUN"))
        await harness.runtime.ensure_volume(assignment.volume, labels={})
        await harness.runtime.create(assignment, handed=handed)
        async with harness.open() as successor:  # nothing of it is remembered for whoever comes next: it is given again
            await successor.create(assignment, handed=handed)
            await successor.start(assignment.run, handed=handed)
            lines = await all_lines(successor, assignment.run)
        assert [line.text for line in lines] == [b"dark blue; $HOME", b"given-1"]


class Ownership:
    async def test_all_ours_are_listed_in_every_phase(self, harness: Harness) -> None:
        await created(harness, "a", Exit(0))
        await started(harness, "b", Sleep(FOREVER))
        over = await started(harness, "c", Exit(9))
        await soon(harness.runtime.wait(over.run))
        seen = {s.run: (s.phase, s.exit_code) for s in await harness.runtime.observe_all()}
        assert seen == {"a-1": (Phase.CREATED, None), "b-1": (Phase.RUNNING, None), "c-1": (Phase.EXITED, 9)}

    async def test_a_successor_finds_what_its_predecessor_left(self, harness: Harness) -> None:
        assignment = await started(harness, "left", Say(b"one\n"), Exit(6))
        before = await soon(harness.runtime.wait(assignment.run))
        async with harness.open() as successor:
            assert await successor.observe_all() == (before,)
            assert [line.text for line in await all_lines(successor, assignment.run)] == [b"one"]

    @pytest.mark.parametrize("stranger", [{"installation": "other"}, {"node": "other"}], ids=["installation", "node"])
    async def test_strangers_on_the_same_machine_do_not_meet(self, harness: Harness, stranger: dict[str, str]) -> None:
        assignment = await started(harness, "mine", Sleep(FOREVER))
        async with harness.open(**stranger) as other:
            await other.ensure_volume(VolumeId("theirs"), labels={})
            assert await other.observe_all() == ()
            assert (await other.observe(assignment.run)).phase is Phase.ABSENT
            assert await other.volumes() == (VolumeId("theirs"),)
            await other.stop(assignment.run, grace_ms=Millis(0))
            await other.remove(assignment.run)
            await other.remove_volume(assignment.volume)
            with pytest.raises(NotFound):
                await other.start(assignment.run)
            assert await other.remove_all() == 1
        assert (await harness.runtime.observe(assignment.run)).phase is Phase.RUNNING
        assert await harness.runtime.volumes() == (assignment.volume,)

    async def test_removing_all_leaves_nothing(self, harness: Harness) -> None:
        await created(harness, "a", Exit(0))
        await started(harness, "b", IgnoreTerm(), Sleep(FOREVER))
        await harness.runtime.ensure_volume(VolumeId("alone"), labels={"purpose": "test"})
        assert await soon(harness.runtime.remove_all()) == 5
        assert await harness.runtime.observe_all() == ()
        assert await harness.runtime.volumes() == ()
        assert await harness.runtime.remove_all() == 0

    async def test_the_machine_says_what_it_has(self, harness: Harness) -> None:
        machine = await harness.runtime.machine()
        assert machine.kind in ("container", "process")
        assert machine.runtime
        assert machine.capacity.cpu_millis >= 1000
        assert machine.capacity.memory_bytes > 1 << 20
        assert machine.capacity.gpus == len(machine.gpu_ids)


class Logs:
    async def test_both_streams_come_in_order_and_apart_where_the_runtime_keeps_them_so(self, harness: Harness) -> None:
        """Where it does not, it says so, and then every line must come as stdout: none may be lost for being of the other."""
        steps = [Say(b"%d\n" % n, Stream.STDERR if n % 3 == 0 else Stream.STDOUT) for n in range(30)]
        assignment = await started(harness, "streams", *steps)
        lines = await all_lines(harness.runtime, assignment.run)
        errors = [int(line.text) for line in lines if line.stream is Stream.STDERR]
        outputs = [int(line.text) for line in lines if line.stream is Stream.STDOUT]
        if harness.runtime.traits.keeps_streams_apart:
            assert errors == [n for n in range(30) if n % 3 == 0]
            assert outputs == [n for n in range(30) if n % 3 != 0]
        else:
            assert (errors, sorted(outputs)) == ([], list(range(30)))
        assert [line.at for line in lines] == sorted(line.at for line in lines)
        assert not any(line.is_partial for line in lines)

    async def test_resuming_anywhere_gives_exactly_the_rest(self, harness: Harness) -> None:
        burst = b"".join(b"%d\n" % n for n in range(8))
        steps = [Say(burst), Say(b"a" * 40_000 + b"\n"), Say(burst, Stream.STDERR), Say(b"x\n\n\ny\n"), Say(b"end")]
        assignment = await started(harness, "resume", *steps)
        await soon(harness.runtime.wait(assignment.run))
        lines = await all_lines(harness.runtime, assignment.run)
        assert len(lines) > 20
        async with harness.open() as successor:
            for number in range(len(lines) + 1):
                rest = await all_lines(successor, assignment.run, after=position_after(lines[:number]))
                assert rest == lines[number:], f"resumed after {number} lines"

    @pytest.mark.parametrize(
        "written",
        [
            b"no newline at the end",
            b"ends with one\n",
            b"\n\n\n",
            b"l" * 16_384 + b"\n",
            b"l" * 32_768 + b"\nnext\n",
            b"l" * 50_000 + b"\nshort\n" + b"m" * 20_000 + b"\n",
            bytes(range(1, 256)) + b"\n",
            b"\x00\xff\xfe latin \xe9 \x1b[31mred\r\n",
            b"",
        ],
        ids=["unfinished", "finished", "empty-lines", "piece", "two-pieces", "long", "bytes", "binary", "nothing"],
    )
    async def test_the_bytes_come_back_as_they_were_written(self, harness: Harness, written: bytes) -> None:
        assignment = await started(harness, "bytes", Say(written))
        lines = await all_lines(harness.runtime, assignment.run)
        kept = harness.runtime.traits.keeps_carriage_returns
        assert joined(lines) == (written if kept else written.replace(b"\r\n", b"\n"))

    async def test_a_follower_sees_lines_while_the_run_goes_on(self, harness: Harness) -> None:
        assignment = await started(harness, "live", Say(b"before\n"), Await("go"), Say(b"after\n"))
        seen = []
        with anyio.fail_after(DEADLINE_SECONDS):
            async for line in harness.runtime.logs(assignment.run, after=LogPosition()):
                seen.append(line.text)
                if line.text == b"before":
                    assert (await harness.runtime.observe(assignment.run)).phase is Phase.RUNNING
                    await put_files(harness, assignment.volume, "", {"go": b""})
        assert seen == [b"before", b"after"]
        assert (await harness.runtime.observe(assignment.run)).phase is Phase.EXITED

    async def test_nobody_has_no_log(self, harness: Harness) -> None:
        assert await all_lines(harness.runtime, RunId("nobody-1")) == []


class Volumes:
    async def test_files_come_back_byte_for_byte(self, harness: Harness) -> None:
        volume = await a_volume(harness, "files")
        files = {"a": b"", "deep/er/b": bytes(range(256)) * 1000, "name with spaces é": b"x\n"}
        await put_files(harness, volume, "", files)
        assert await get_files(harness, volume, "") == files
        assert await read_file(harness, volume, "deep/er/b") == files["deep/er/b"]

    async def test_parents_are_made_and_a_second_archive_adds(self, harness: Harness) -> None:
        volume = await a_volume(harness, "parents")
        await put_files(harness, volume, "in/put", {"one": b"1"})
        await put_files(harness, volume, "in/put", {"two": b"2", "one": b"11"})
        assert await get_files(harness, volume, "") == {"in/put/one": b"11", "in/put/two": b"2"}
        assert await get_files(harness, volume, "in/put") == {"put/one": b"11", "put/two": b"2"}

    async def test_a_large_file_goes_in_and_out(self, harness: Harness) -> None:
        volume = await a_volume(harness, "large")
        block = bytes(range(256)) * 4096
        await put_files(harness, volume, "", {"big": block * 64})
        assert await read_file(harness, volume, "big") == block * 64

    async def test_a_run_finds_what_was_staged_and_leaves_what_it_made(self, harness: Harness) -> None:
        volume = await a_volume(harness, "staged")
        await put_files(harness, volume, "in", {"word": b"hello\n"})
        assignment = await started(harness, "staged", Show("in/word"), Append("out", "made"), volume=volume)
        assert [line.text for line in await all_lines(harness.runtime, assignment.run)] == [b"hello"]
        await soon(harness.runtime.wait(assignment.run))
        await harness.runtime.remove(assignment.run)
        assert await read_file(harness, volume, "out") == b"made\n"

    async def test_making_a_volume_again_keeps_its_files(self, harness: Harness) -> None:
        volume = await a_volume(harness, "again")
        await put_files(harness, volume, "", {"a": b"1"})
        await harness.runtime.ensure_volume(volume, labels={})
        assert await get_files(harness, volume, "") == {"a": b"1"}
        assert await harness.runtime.volumes() == (volume,)

    async def test_what_is_not_there_is_not_found(self, harness: Harness) -> None:
        volume = await a_volume(harness, "empty")
        for where, path in ((volume, "nothing"), (volume, "no/thing"), (VolumeId("no-volume"), "")):
            with pytest.raises(NotFound):
                await get_files(harness, where, path)
        with pytest.raises(NotFound):
            await put_files(harness, VolumeId("no-volume"), "", {"a": b""})
        assert await harness.runtime.volumes() == (volume,)

    @pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc", "a\0b"])
    async def test_a_path_that_leaves_the_volume_is_refused(self, harness: Harness, path: str) -> None:
        volume = await a_volume(harness, "inside")
        with pytest.raises(Invalid):
            await get_files(harness, volume, path)
        with pytest.raises(Invalid):
            await put_files(harness, volume, path, {"a": b""})
        assert await get_files(harness, volume, "") == {}

    async def test_links_out_of_the_volume_are_not_followed(self, harness: Harness) -> None:
        volume = await a_volume(harness, "links")
        assignment = await started(
            harness, "links", Link("out", "/etc"), Link("leak", "/etc/passwd"), Link("up", "../.."), volume=volume
        )
        await soon(harness.runtime.wait(assignment.run))
        for path in ("out/passwd", "leak", "up/etc/passwd"):
            with pytest.raises(NotFound):
                await get_files(harness, volume, path)
        for path in ("out", "up/tmp"):
            with pytest.raises(NotFound):
                await put_files(harness, volume, path, {"planted": b"!"})
        assert await get_files(harness, volume, "") == {}

    async def test_a_volume_goes_when_nothing_uses_it(self, harness: Harness) -> None:
        assignment = await started(harness, "uses", Exit(0))
        await soon(harness.runtime.wait(assignment.run))
        with pytest.raises(Conflict):
            await harness.runtime.remove_volume(assignment.volume)
        await harness.runtime.remove(assignment.run)
        await harness.runtime.remove_volume(assignment.volume)
        await harness.runtime.remove_volume(assignment.volume)
        assert await harness.runtime.volumes() == ()


class Terminals:
    async def test_a_second_process_has_streams_and_an_exit_code(self, harness: Harness) -> None:
        need(harness, Trait.EXECUTE)
        assignment = await started(harness, "beside", Sleep(FOREVER))
        command = harness.command(Say(b"oh\n", Stream.STDERR), Copy(), Exit(7))
        with anyio.fail_after(DEADLINE_SECONDS):
            async with harness.runtime.execute(assignment.run, command, wants_terminal=False) as terminal:
                await terminal.send(b"hello ")
                await terminal.send(b"there\n")
                await terminal.close_input()
                said = await all_said(terminal)
                assert await terminal.exit_code() == 7
        assert said == {Stream.STDOUT: b"hello there\n", Stream.STDERR: b"oh\n"}

    async def test_a_second_process_may_have_a_terminal(self, harness: Harness) -> None:
        need(harness, Trait.EXECUTE)
        assignment = await started(harness, "screen", Sleep(FOREVER))
        command = harness.command(Say(b"name? \n"), ReadLine(), Exit(0))
        with anyio.fail_after(DEADLINE_SECONDS):
            async with harness.runtime.execute(assignment.run, command, wants_terminal=True) as terminal:
                await terminal.resize(rows=33, columns=44)
                await terminal.send(b"windlass\n")
                said = await all_said(terminal)
                assert await terminal.exit_code() == 0
        assert b"name?" in said[Stream.STDOUT]
        assert b"windlass" in said[Stream.STDOUT]

    async def test_nothing_is_executed_beside_a_run_that_is_over(self, harness: Harness) -> None:
        need(harness, Trait.EXECUTE)
        assignment = await started(harness, "late", Exit(0))
        await soon(harness.runtime.wait(assignment.run))
        for run, error in ((assignment.run, Conflict), (RunId("nobody-1"), NotFound)):
            with pytest.raises(error):
                async with harness.runtime.execute(run, harness.command(Exit(0)), wants_terminal=False):
                    pytest.fail("there is nothing to execute it in")

    async def test_attaching_before_the_start_sees_everything(self, harness: Harness) -> None:
        need(harness, Trait.TERMINAL)
        assignment = await created(harness, "tty", Say(b"name?\n"), ReadLine(), Exit(9), wants_terminal=True)
        with anyio.fail_after(DEADLINE_SECONDS):
            async with harness.runtime.attach(assignment.run) as terminal:
                await harness.runtime.start(assignment.run)
                await terminal.send(b"windlass\n")
                said = await all_said(terminal)
                assert await terminal.exit_code() == 9
        assert b"name?" in said[Stream.STDOUT]
        assert b"windlass" in said[Stream.STDOUT]
        lines = await all_lines(harness.runtime, assignment.run)
        assert b"name?" in [line.text.rstrip(b"\r") for line in lines]
        for number in range(len(lines) + 1):
            rest = await all_lines(harness.runtime, assignment.run, after=position_after(lines[:number]))
            assert rest == lines[number:]

    async def test_who_attaches_late_sees_what_was_printed_before_and_nothing_twice(self, harness: Harness) -> None:
        need(harness, Trait.TERMINAL)
        assignment = await started(harness, "late-tty", Say(b"welcome\n"), ReadLine(), Exit(4), wants_terminal=True)
        await until_it_says(harness.runtime, assignment.run, b"welcome")
        with anyio.fail_after(DEADLINE_SECONDS):
            async with (
                harness.runtime.attach(assignment.run) as first,
                harness.runtime.attach(assignment.run) as second,
            ):
                await second.send(b"x\n")
                for terminal in (first, second):
                    said = (await all_said(terminal))[Stream.STDOUT]
                    assert said.count(b"welcome") == 1, said
                    assert await terminal.exit_code() == 4

    async def test_a_run_without_a_terminal_is_heard_from_its_first_line_to_its_last(self, harness: Harness) -> None:
        need(harness, Trait.TERMINAL)
        steps = (Say(b"one\n"), Await("go"), Say(b"two\n", Stream.STDERR), Exit(5))
        assignment = await started(harness, "plain", *steps)
        await until_it_says(harness.runtime, assignment.run, b"one")
        with anyio.fail_after(DEADLINE_SECONDS):
            async with harness.runtime.attach(assignment.run) as terminal:
                await put_files(harness, assignment.volume, "", {"go": b""})  # not before somebody listens
                said = await all_said(terminal)
                assert await terminal.exit_code() == 5
        assert said == {Stream.STDOUT: b"one\n", Stream.STDERR: b"two\n"}

    async def test_a_run_may_have_input_and_no_terminal(self, harness: Harness) -> None:
        need(harness, Trait.TERMINAL)
        steps = (Say(b"first\n"), Say(b"oh\n", Stream.STDERR), Copy(), Exit(6))
        assignment = await started(harness, "pipe", *steps, wants_input=True)
        given = b"hello there\n" * 30_000
        with anyio.fail_after(DEADLINE_SECONDS):
            async with harness.runtime.attach(assignment.run) as terminal, anyio.create_task_group() as tasks:
                tasks.start_soon(give_all, terminal, given)
                said = await all_said(terminal)
                assert await terminal.exit_code() == 6
        assert said[Stream.STDERR] == b"oh\n"
        assert said[Stream.STDOUT] == b"first\n" + given, "all of it, once, from the first line on"

    async def test_the_input_of_a_run_ends_with_whoever_gives_it(self, harness: Harness) -> None:
        need(harness, Trait.INPUT)
        assignment = await started(harness, "left", Copy(), Say(b"end\n"), Exit(3), wants_input=True)
        with anyio.fail_after(DEADLINE_SECONDS):
            async with harness.runtime.attach(assignment.run) as terminal:
                await terminal.send(b"a line\n")
            assert (await harness.runtime.wait(assignment.run)).exit_code == 3
        assert joined(await all_lines(harness.runtime, assignment.run)) == b"a line\nend\n"

    async def test_who_has_no_input_to_give_does_not_end_that_of_another(self, harness: Harness) -> None:
        need(harness, Trait.INPUT)
        assignment = await started(harness, "shared", Copy(), Exit(4), wants_input=True)
        with anyio.fail_after(DEADLINE_SECONDS):
            async with harness.runtime.attach(assignment.run) as first:
                heard = first.output()
                await first.send(b"one\n")
                assert await anext(heard) == (Stream.STDOUT, b"one\n")
                async with harness.runtime.attach(assignment.run) as second:
                    await second.close_input()
                    await first.send(b"two\n")
                    assert await anext(heard) == (Stream.STDOUT, b"two\n")
                await first.send(b"three\n")
                assert await anext(heard) == (Stream.STDOUT, b"three\n")
                async with harness.runtime.attach(assignment.run) as third:
                    await third.send(b"four\n")
                    assert await anext(heard) == (Stream.STDOUT, b"four\n")
                    await first.close_input()
                    await third.send(b"five\n")
                    assert await anext(heard) == (Stream.STDOUT, b"five\n")
                assert [said async for said in heard] == [], "the last who could give any has gone"
                assert await first.exit_code() == 4

    async def test_a_run_that_stops_reading_its_input_is_heard_to_its_end(self, harness: Harness) -> None:
        need(harness, Trait.TERMINAL)
        steps = (ReadLine(), Say(b"enough\n"), Exit(2))
        assignment = await started(harness, "head", *steps, wants_input=True)
        with anyio.fail_after(DEADLINE_SECONDS):
            async with harness.runtime.attach(assignment.run) as terminal, anyio.create_task_group() as tasks:
                tasks.start_soon(give_all, terminal, b"y\n" * 500_000)
                said = await all_said(terminal)
                assert await terminal.exit_code() == 2
                tasks.cancel_scope.cancel()
        assert said == {Stream.STDOUT: b"y\nenough\n", Stream.STDERR: b""}

    async def test_a_long_line_of_a_terminal_comes_back_whole(self, harness: Harness) -> None:
        need(harness, Trait.TERMINAL)
        long = b"l" * 50_000
        assignment = await started(harness, "wide", Say(long + b"\nnext\n"), wants_terminal=True)
        lines = await all_lines(harness.runtime, assignment.run)
        assert joined(lines).replace(b"\r", b"") == long + b"\nnext\n"

    async def test_a_shell_beside_a_volume_sees_its_files_and_goes(self, harness: Harness) -> None:
        need(harness, Trait.DEBUG)
        volume = await a_volume(harness, "look")
        await put_files(harness, volume, "", {"clue": b"the butler\n"})
        options: dict[str, Any] = {"name": "debug-look", "image": harness.image, "labels": {}}
        for keep in (False, True, False):
            command = harness.command(ReadLine(), Show("clue"), Exit(3))
            with anyio.fail_after(DEADLINE_SECONDS):
                async with harness.runtime.debug(volume, command=command, keep=keep, **options) as terminal:
                    await terminal.send(b"who was it\n")
                    said = await all_said(terminal)
                    assert await terminal.exit_code() == 3
            assert b"the butler" in said[Stream.STDOUT]
        assert await harness.runtime.observe_all() == ()
        await harness.runtime.remove_volume(volume)
        assert await harness.runtime.volumes() == ()


class RuntimeContract(Lifecycle, Ownership, Logs, Volumes, Terminals, Slices, Tidying):
    """All of it."""
