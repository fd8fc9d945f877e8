"""A containerd of its own: root, state and socket in its directory; used by `ctr`, by CRI clients and under dockerd."""

import subprocess
from pathlib import Path

from tests.parts import busybox, present, remains
from tests.parts.process import ServerProcess

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

    def clean_up(self) -> None:
        remains.kill_shims(self.socket)
        remains.remove_shim_sockets(self.directory / "state")
        remains.unmount_below(self.directory)

    def ctr(self, *arguments: str, namespace: str = "default", stdin: bytes | None = None, timeout: float = 60) -> str:
        """Run `ctr` on it and give what it printed; CalledProcessError when it fails."""
        done = self._ctr("--namespace", namespace, *arguments, stdin=stdin, timeout=timeout)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, ["ctr", *arguments], done.stdout, done.stderr)
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
