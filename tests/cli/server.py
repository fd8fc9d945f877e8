"""A real server for the command line: `windlass up` as a person starts it, on a free port."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

DEADLINE_SECONDS = 180


class RealServer:
    """Keeps its port over restarts, so that a client that waits finds it again."""

    def __init__(self, directory: Path, port: int, runtime: tuple[str, ...]) -> None:
        self.data, self.port, self._runtime = directory / "data", port, runtime
        self.log = directory / "up.log"
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("WINDLASS_")},
            "WINDLASS_DATA_DIR": str(self.data),
            "NO_COLOR": "1",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                _windlass("up", *self._runtime, "--port", str(self.port)),
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self._is_ready():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """As a power cut would; what it runs goes on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(DEADLINE_SECONDS)
        ended = self.windlass("down", "--purge", "--yes", "--data-dir", str(self.data))
        assert ended.returncode == 0, ended.stderr

    def windlass(
        self, *words: str, stdin: str | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self._run("windlass", words, stdin, cwd)

    def windlass_bytes(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """For output that is no text."""
        return subprocess.run(
            _windlass(*words),
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )

    def egpu(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return self._run("egpu", words, None, cwd)

    def popen(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            _windlass(*words),
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _run(
        self, name: str, words: tuple[str, ...], stdin: str | None, cwd: Path | None
    ) -> subprocess.CompletedProcess[str]:
        given: dict[str, object] = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        command = [sys.executable, "-c", f"from windlass.boot.entry import {name}; {name}()", *words]
        return subprocess.run(
            command, env=self.environ, cwd=cwd, capture_output=True, text=True, timeout=DEADLINE_SECONDS, **given
        )  # type: ignore[call-overload,no-any-return]

    def _is_ready(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def real_server(directory: Path, port: int, *, docker_host: str | None = None) -> Iterator[RealServer]:
    """On plain processes, or on the engine at `docker_host`."""
    runtime = ("--runtime", "docker", "--docker-host", docker_host) if docker_host else ("--runtime", "process")
    server = RealServer(directory, port, runtime)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def the_rest(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Both outputs to their end. `communicate` would pass over what a `readline` before it has already taken from the pipe."""
    assert process.stdout is not None
    assert process.stderr is not None
    with ThreadPoolExecutor(1) as pool:
        errors = pool.submit(process.stderr.read)
        out = process.stdout.read()
        process.wait(DEADLINE_SECONDS)
        return out, errors.result()


def _windlass(*words: str) -> list[str]:
    return [sys.executable, "-c", "from windlass.boot.entry import windlass; windlass()", *words]
