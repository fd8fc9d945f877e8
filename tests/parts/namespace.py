"""Kernel namespaces that a process of their own holds open, so that a server may die in them and come back."""

import subprocess
from collections.abc import Sequence

from tests.parts import present
from tests.parts.failures import PartFailed
from tests.parts.traces import Process, process


class Namespace:
    """New namespaces (`kinds` as `unshare` names them: mount, net), prepared by a few words of shell run inside."""

    def __init__(self, *kinds: str, script: str = "true") -> None:
        self._kinds = kinds
        private = ["--propagation", "private"] if "mount" in kinds else []
        words = f"set -e\n{script}\necho ready\nexec sleep infinity"
        self._holder = subprocess.Popen(
            [present.program("unshare"), *_options(kinds), *private, "sh", "-c", words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if (told := self._holder.stdout.readline().strip()) != "ready":
            self.close()
            raise PartFailed(f"no namespace ({', '.join(kinds)}): {told}")
        self.process: Process = process(self._holder.pid)

    def inside(self, *command: str, kinds: Sequence[str] = ()) -> list[str]:
        """The argument list that runs the command in the namespaces, or in some of them; no process stays in between."""
        target = f"--target={self._holder.pid}"
        return [present.program("nsenter"), target, *_options(kinds or self._kinds), "--", *command]

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


def _options(kinds: Sequence[str]) -> list[str]:
    return [f"--{kind}" for kind in kinds]
