"""The operator as a process, with exactly the rights it would have in the cluster: a token of its service account."""

import http.client
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.kube.pki import kubeconfig
from tests.parts import ports
from tests.parts.process import ServerProcess

ROOT = Path(__file__).parents[2]


class Operator(ServerProcess):
    name = "operator"
    ready_deadline_seconds = 60

    def __init__(
        self,
        cluster: Any,
        directory: Path,
        *,
        namespace: str = "",
        failpoints: str = "",
        log_level: str = "debug",
        environ: Mapping[str, str] | None = None,
        server: str = "",
        **settings: str,
    ) -> None:
        super().__init__(directory)
        self._cluster = cluster
        self._namespace = namespace
        self._failpoints = failpoints
        self._log_level = log_level
        self._environ = environ or {}
        self._server = server
        """Where the API server is reached; none: where it is."""
        self._settings = settings
        self.port = ports.free_port()

    @staticmethod
    def command_line(*arguments: str) -> list[str]:
        return [sys.executable, "-c", "from windlass.boot.entry import windlass; windlass()", *arguments]

    @classmethod
    def say(cls, *arguments: str) -> str:
        """What `windlass …` printed."""
        done = subprocess.run(
            cls.command_line(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def prepare(self) -> None:
        """A kubeconfig with the service account's token, so that a missing right shows."""
        token = self._cluster.kubectl(
            "--namespace=windlass-system", "create", "token", "windlass-operator", "--duration=2h"
        ).strip()
        server = self._server or self._cluster.server
        document = kubeconfig(server, self._cluster.authority, {"token": token})
        (self.directory / "kubeconfig").write_text(yaml.safe_dump(document))

    def command(self) -> list[str]:
        return self.command_line(
            "operator",
            "run",
            f"--kubeconfig={self.directory / 'kubeconfig'}",
            f"--port={self.port}",
            f"--log-level={self._log_level}",
        )

    def environment(self) -> dict[str, str]:
        settings = {"resync_seconds": "2", "pull_patience_seconds": "3", **self._settings}
        if self._namespace:
            settings["namespaces"] = self._namespace
        given = {f"WINDLASS_OPERATOR_{name.upper()}": value for name, value in settings.items()}
        armed = {"WINDLASS_FAILPOINTS": self._failpoints, "WINDLASS_TEST": "1"} if self._failpoints else {}
        return {**os.environ, "PYTHONPATH": f"{ROOT}/src", **given, **armed, **self._environ}

    def is_ready(self) -> bool:
        return self._get("/readyz") is not None

    def metric(self, name: str, label: str = "") -> float:
        """The sum over its labels, or over those lines that have this one."""
        lines = (self._get("/metrics") or "").splitlines()
        found = [line for line in lines if line.startswith((f"{name} ", f"{name}{{")) and label in line]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    def _get(self, path: str) -> str | None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read().decode()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return body if answer.status == 200 else None
