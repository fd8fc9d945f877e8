"""The base of the parts: it says why a server did not come up, and makes sure that it goes."""

import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.parts import cache, present
from tests.parts.failures import MissingPart, PartFailed
from tests.parts.ports import answers, free_port
from tests.parts.process import ServerProcess
from tests.parts.waiting import NeverHappened, wait_for, wait_until


class Script(ServerProcess):
    """A server of a few words of Python, ready when the file `ready` is there."""

    name = "script"
    ready_deadline_seconds = 120.0
    stop_deadline_seconds = 0.5

    def __init__(self, words: str, directory: Path | None = None) -> None:
        super().__init__(directory)
        self._words = words

    def command(self) -> list[str]:
        return [sys.executable, "-c", self._words]

    def is_ready(self) -> bool:
        return (self.directory / "ready").exists()


class Mute(Script):
    """Says its word and is never ready."""

    ready_deadline_seconds = 0.0

    def is_ready(self) -> bool:
        wait_for(lambda: "waiting" in self.log.read_text(), 120, "its word")
        return False


READY = "import signal, pathlib; {}; pathlib.Path('ready').touch(); signal.pause()"


def test_a_server_that_dies_at_start_is_told_with_the_end_of_its_log() -> None:
    script = Script("import sys; sys.exit('no such luck')")
    with pytest.raises(PartFailed, match=r"ended with 1 before it was ready\n.*\nno such luck"):
        script.__enter__()
    assert not script.directory.exists()


def test_a_server_that_never_is_ready_is_told_and_ended() -> None:
    script = Mute("import time; print('waiting', flush=True); time.sleep(1000)")
    with pytest.raises(PartFailed, match=r"waited 0 s for script to be ready.*(\n.*)*waiting"):
        script.__enter__()
    assert not script.is_running


def test_a_server_that_ignores_sigterm_is_killed() -> None:
    with Script(READY.format("signal.signal(signal.SIGTERM, signal.SIG_IGN)")) as script:
        assert script.is_running
    assert not script.is_running
    assert not script.directory.exists()


def test_a_paused_server_is_ended_too() -> None:
    with Script(READY.format("pass")) as script:
        script.pause()
    assert not script.is_running


def test_a_directory_that_was_given_stays(tmp_path: Path) -> None:
    with Script(READY.format("print('hello', flush=True)"), tmp_path / "part") as script:
        assert "hello" in script.log_tail()
    assert script.log.read_text() == "hello\n"


def test_a_missing_part_is_left_out_where_it_cannot_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present, "must_be_complete", lambda: False)
    with pytest.raises(pytest.skip.Exception, match="no-such-server is not on this machine"):
        _run_under_the_hook()


def test_a_missing_part_is_a_failure_where_it_could_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present, "must_be_complete", lambda: True)
    with pytest.raises(MissingPart, match="no-such-server"):
        _run_under_the_hook()


def _run_under_the_hook() -> None:
    hook = conftest._left_out_when_missing()
    next(hook)
    try:
        present.program("no-such-server")
    except MissingPart as missing:
        hook.throw(missing)


def test_waiting_gives_the_fact_or_says_what_never_happened() -> None:
    answers = iter(["", "", "there"])
    assert wait_for(lambda: next(answers), 120, "an answer") == "there"
    with pytest.raises(NeverHappened, match="waited 0 s for rain; last answer: None"):
        wait_for(lambda: None, 0, "rain")


@pytest.mark.anyio
async def test_waiting_in_a_loop_takes_both_kinds_of_questions() -> None:
    answers = iter([0, 7])

    async def ask() -> int:
        return next(answers)

    assert await wait_until(ask, 120, "an answer") == 7
    assert await wait_until(lambda: "now", 120, "an answer") == "now"
    with pytest.raises(NeverHappened, match="for rain"):
        await wait_until(lambda: None, 0, "rain")


def test_free_ports_are_free_and_never_given_twice() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    assert not any(answers(port) for port in ports[:5])


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_TEST_CACHE", str(tmp_path / "mine"))
    assert cache.cache_directory("kube", "bin") == tmp_path / "mine" / "windlass-tests" / "kube" / "bin"
    monkeypatch.delenv("WINDLASS_TEST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_directory().is_relative_to(tmp_path / "xdg")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_directory() == tmp_path / ".cache" / "windlass-tests"
