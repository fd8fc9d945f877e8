"""A real `windlass up` as a part: own data directory, free port, killed and started again at will, and its command line."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.parts.process import ServerProcess
from windlass.boot import down
from windlass.boot.installation import Installation
from windlass.boot.settings import load
from windlass.client.client import Client
from windlass.client.connection import find

_BIN = Path(sys.executable).parent


class WindlassServer(ServerProcess):
    name = "up"

    def __init__(
        self,
        *,
        docker_host: str | None = None,
        environ: dict[str, str] | None = None,
        flags: tuple[str, ...] = (),
        directory: Path | None = None,
    ) -> None:
        super().__init__(directory)
        self.data = self.directory / "data"
        self.runtime = ("--docker-host", docker_host) if docker_host else ("--runtime", "process")
        self.extra = dict(environ or {})
        self._flags = flags

    def command(self) -> list[str]:
        return [str(_BIN / "windlass"), "up", "--data-dir", str(self.data), "--port", "0", *self.runtime, *self._flags]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.variables(), **self.extra}

    def variables(self) -> dict[str, str]:
        """What points a command line at this server."""
        return {"WINDLASS_DATA_DIR": str(self.data), "WINDLASS_TEST": "1"}

    def prepare(self) -> None:
        (self.data / "client.json").unlink(missing_ok=True)  # the address of the server before a crash is stale

    def is_ready(self) -> bool:
        return (self.data / "client.json").exists()

    def _ready_or_dead(self) -> bool:
        """Whoever waits to be served may have it killed at a failpoint before we look: it was ready all the same."""
        return self.is_ready() or super()._ready_or_dead()

    def close(self) -> None:
        """The whole installation with it: containers and processes would outlive the server, as they should."""
        try:
            super().stop()
            if self.data.exists():
                self._purge()
        finally:
            super().close()

    def _purge(self) -> None:
        """What `windlass down --purge` does, here: to load its code takes a second of a core, after almost every test."""
        installation = Installation(self.data)
        if installation.exists:
            settings = load({**os.environ, **self.variables()}, {})
            with ThreadPoolExecutor(1) as apart:  # from the loop that the test may be in
                apart.submit(down._take_down, settings, installation, purge=True, has_waited=False).result()

    @property
    def url(self) -> str:
        return str(json.loads((self.data / "client.json").read_text())["url"])

    @property
    def token(self) -> str:
        return (self.data / "token").read_text()

    def client(self) -> Client:
        return Client(find(self.variables()))

    def state_of(self, job: str) -> str:
        """Asked by a client in this process: whoever waits for a state would start a command line for each look."""
        with closing(self.client()) as client:
            return str(client.job(job)["status"]["state"])

    def cli(self, *arguments: str, program: str = "windlass", check: bool = True, **options: Any) -> "Said":
        """One command line to its end, as a person would type it."""
        done = subprocess.run(
            [str(_BIN / program), *arguments],
            capture_output=True,
            text=True,
            timeout=options.pop("timeout", 120),
            env={**os.environ, **self.variables(), "NO_COLOR": "1"},
            **options,
        )
        said = Said(done.returncode, done.stdout, done.stderr)
        assert not check or said.code == 0, said
        return said

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        """One that goes on while we look."""
        return subprocess.Popen(
            [str(_BIN / "windlass"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.variables(), "NO_COLOR": "1"},
        )


class Said:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    def json(self) -> Any:
        return json.loads(self.out)
