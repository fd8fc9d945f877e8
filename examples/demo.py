"""A guided minute: `make demo`, or `python -m examples.demo [--image busybox]`.

Starts a server of its own in a temporary directory, runs three jobs, explains a failure, kills the server under a running job and
finds the job again, cancels it, and removes everything. Without `--image` the jobs are plain processes, so nothing has to be there.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WINDLASS = Path(sys.executable).parent / "windlass"
START_SECONDS = 60
IS_TERMINAL = sys.stdout.isatty()


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__.splitlines()[0])
    options.add_argument("--image", help="run containers of this image on the engine that answers")
    options.add_argument("--pause", type=float, default=1.5 if IS_TERMINAL else 0, help="seconds to read each step")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="windlass-demo-") as directory:
        stage = Stage(Path(directory), image=given.image, pause=given.pause)
        try:
            perform(stage)
        except KeyboardInterrupt:
            stage.tell("Interrupted; cleaning up.")
            return 130
        finally:
            stage.clear()
    stage.title("That was it")
    stage.tell("Server, jobs, volumes and files of this demo are gone. Your own: make up")
    return 0


def perform(stage: "Stage") -> None:
    stage.title("A server, in a directory of its own")
    stage.start()
    stage.tell(f"up at {stage.url}, running {'containers' if stage.image else 'plain processes'}")

    stage.title("1 · A job")
    stage.tell("Its output is our output; its exit code is ours.")
    stage.run("hello", "echo hello; echo from a job")

    stage.title("2 · A job that makes something")
    stage.tell("What it writes to its volume outlives it, for an hour unless told otherwise.")
    stage.run("tally", "sum=0; for n in $(seq 100); do sum=$((sum + n)); done; echo $sum > $WINDLASS_ARTIFACTS/sum")
    stage.windlass("cp", "tally:/artifacts/sum", "-")

    stage.title("3 · A job that fails, explained")
    stage.run("report", 'echo reading 3 files; echo "row 17: not a number" >&2; exit 3')
    stage.windlass("describe", "report", shown=-10)

    stage.title("4 · The server is killed; the job does not notice")
    stage.run("steady", "n=0; while :; do n=$((n + 1)); echo tick $n; sleep 1; done", flags=("--detach",))
    stage.wait_running("steady")
    stage.kill()
    stage.tell("kill -9, and up again:")
    stage.start()
    stage.windlass("get", "jobs")
    stage.windlass("cancel", "steady")
    stage.windlass("watch", "steady", shown=-1)
    stage.windlass("logs", "steady", "--tail", "2")


class Stage:
    """One server and the command line pointed at it; `clear` leaves nothing."""

    def __init__(self, directory: Path, *, image: str | None, pause: float) -> None:
        self.image = image
        self._data = directory / "data"
        self._pause = pause
        self._log = directory / "server.log"
        self._server: subprocess.Popen[bytes] | None = None
        self._environ = {**os.environ, "WINDLASS_DATA_DIR": str(self._data)}
        for name in ("WINDLASS_URL", "WINDLASS_TOKEN", "WINDLASS_RUNTIME"):
            self._environ.pop(name, None)
        if not image:
            self._environ["WINDLASS_RUNTIME"] = "process"

    # — the server —

    def start(self) -> None:
        (self._data / "client.json").unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._server = subprocess.Popen([WINDLASS, "up", "--port", "0"], env=self._environ, stdout=log, stderr=log)
        for _ in _until(START_SECONDS):
            if (self._data / "client.json").exists():
                return
            if self._server.poll() is not None:
                break
        raise SystemExit(f"the server did not start:\n{self._log.read_text()}")

    def kill(self) -> None:
        assert self._server is not None
        self._server.send_signal(signal.SIGKILL)
        self._server.wait()

    def clear(self) -> None:
        if self._data.exists():
            with _undisturbed():
                subprocess.run(
                    [WINDLASS, "down", "--purge", "--yes"], env=self._environ, capture_output=True, check=False
                )
        if self._server is not None:
            self._server.wait(timeout=START_SECONDS)

    @property
    def url(self) -> str:
        said = subprocess.run([WINDLASS, "open"], env=self._environ, capture_output=True, text=True, check=True).stdout
        return said.partition("/#")[0]

    # — what is shown —

    def run(self, name: str, script: str, *, flags: tuple[str, ...] = ()) -> None:
        image = (self.image,) if self.image else ()
        self.windlass("run", "--name", name, *flags, *image, "--", "sh", "-c", script)

    def windlass(self, *words: str, shown: int | None = None) -> None:
        """`shown` lines of what it says, from the top or, negative, from the end."""
        print(_styled(f"$ windlass {shlex.join(words)}", "32"), flush=True)
        into = {} if shown is None else {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run([WINDLASS, *words], env=self._environ, text=True, check=False, **into)
        if shown is not None:
            lines = done.stdout.splitlines()
            print("\n".join(lines[:shown] if shown > 0 else lines[shown:]).rstrip(), flush=True)
        if done.returncode and words[0] == "run":
            self.tell(f"$? is {done.returncode}")
        time.sleep(self._pause)

    def wait_running(self, name: str) -> None:
        for _ in _until(START_SECONDS):
            said = subprocess.run(
                [WINDLASS, "logs", name], env=self._environ, capture_output=True, text=True, check=False
            )
            if said.stdout:
                return
        raise SystemExit(f"{name} did not start")

    def title(self, text: str) -> None:
        print("\n" + _styled(text, "1"), flush=True)

    def tell(self, text: str) -> None:
        print(_styled(text, "2"), flush=True)


def _styled(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if IS_TERMINAL and not os.environ.get("NO_COLOR") else text


def _until(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.05)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not leave half of it behind."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main())
