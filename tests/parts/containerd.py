"""A containerd of its own: root, state and socket in its directory; used by `ctr`, by CRI clients and under dockerd."""

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

from tests.parts import busybox, present
from tests.parts.failures import PartFailed
from tests.parts.process import ServerProcess
from tests.parts.traces import Traces

_CONFIG = """\
version = 2
root = "{directory}/root"
state = "{directory}/state"
disabled_plugins = [{disabled}]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  # Root may lack CAP_SYS_RESOURCE; then no sandbox could lower its oom_score_adj, and none would start.
  restrict_oom_score_adj = true
  sandbox_image = "windlass-test/pause:1"
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{directory}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{directory}/certs.d"
"""


class CtrFailed(PartFailed):
    """`ctr` ended with an error; for `ctr run` the exit code is the container's."""

    def __init__(self, exit_code: int, arguments: tuple[str, ...], said: str) -> None:
        super().__init__(f"ctr {shlex.join(arguments)} ended with {exit_code}: {said.strip()}")
        self.exit_code = exit_code


class Containerd(ServerProcess):
    """containerd with, if asked, its CRI service (`cri=True`, for crictl: `runtime_endpoint`)."""

    name = "containerd"

    def __init__(self, directory: Path | None = None, *, cri: bool = False) -> None:
        present.need_root(self.name)
        super().__init__(directory)
        self.socket = self.directory / "containerd.sock"
        self._cri = cri

    @property
    def runtime_endpoint(self) -> str:
        """The address in the form that CRI clients take."""
        return f"unix://{self.socket}"

    def prepare(self) -> None:
        (self.directory / "cni").mkdir(exist_ok=True)
        disabled = "" if self._cri else '"io.containerd.grpc.v1.cri"'
        text = _CONFIG.format(directory=self.directory, socket=self.socket, disabled=disabled)
        (self.directory / "containerd.toml").write_text(text)

    def command(self) -> list[str]:
        return [present.program("containerd"), "--config", str(self.directory / "containerd.toml")]

    def is_ready(self) -> bool:
        # The socket is there before the services are.
        return self.socket.exists() and self._ctr("version", timeout=5).returncode == 0

    def traces(self) -> Traces:
        return replace(super().traces(), containerd_socket=str(self.socket))

    def close(self) -> None:
        """Its tasks go too, by its own hand while it answers: then nothing needs to be hunted down."""
        self.resume()
        if self.is_running and self.is_ready():
            for namespace in self.ctr("namespaces", "list", "--quiet").split():
                for task in self.ctr("tasks", "list", "--quiet", namespace=namespace).split():
                    self._ctr("--namespace", namespace, "tasks", "delete", "--force", task, timeout=10)
        super().close()

    def ctr(self, *arguments: str, namespace: str = "default", stdin: bytes | None = None, timeout: float = 60) -> str:
        """Run `ctr` on it and give what it printed; CtrFailed when it fails.

        Ids of tasks must differ on the whole machine: runc's state and the cgroups are named by them alone.
        """
        done = self._ctr("--namespace", namespace, *arguments, stdin=stdin, timeout=timeout)
        if done.returncode:
            raise CtrFailed(done.returncode, arguments, done.stderr.decode(errors="replace"))
        return done.stdout.decode()

    def import_busybox(
        self, tag: str = busybox.IMAGE, *, namespace: str = "default", files: dict[str, bytes] | None = None
    ) -> None:
        """Put the test image in; the name is completed as Docker and CRI do (`docker.io/…`)."""
        archive = busybox.image_archive(tag, files=files)
        self.ctr("images", "import", "-", namespace=namespace, stdin=archive)

    def images(self, namespace: str = "default") -> set[str]:
        """The full names of the images."""
        return set(self.ctr("images", "list", "--quiet", namespace=namespace).split())

    def _ctr(self, *arguments: str, stdin: bytes | None = None, timeout: float) -> "subprocess.CompletedProcess[bytes]":
        command = [present.program("ctr"), "--address", str(self.socket), *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, timeout=timeout, check=False)
