"""A machine that is reached by ssh: an sshd on loopback with host keys, port and authorized key of its own."""

import getpass
import shlex
import socket
import subprocess
from pathlib import Path

from tests.parts import present
from tests.parts.ports import free_port
from tests.parts.process import ServerProcess

_CONFIG = """\
Port {port}
ListenAddress {address}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorized_keys
PidFile {directory}/sshd.pid
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200:30:400
MaxSessions 100
Subsystem sftp internal-sftp
LogLevel VERBOSE
SetEnv {environment}
"""


class SshNode(ServerProcess):
    """One "node". Commands run on this machine as this user; `environment` is what they see besides, so that nodes differ.

    A node whose PATH begins with a directory of the test's has its own `docker`, `crictl` and so on.
    """

    name = "sshd"

    def __init__(
        self,
        directory: Path | None = None,
        *,
        address: str = "127.0.0.1",
        environment: dict[str, str] | None = None,
        key: Path | None = None,
    ) -> None:
        super().__init__(directory)
        self.address = address
        self.port = free_port(address)
        self.user = getpass.getuser()
        self.key = key or self.directory / "client_key"
        self._environment = environment or {}

    @property
    def known_hosts_line(self) -> str:
        kind, key, *_ = (self.directory / "host_key.pub").read_text().split()
        return f"[{self.address}]:{self.port} {kind} {key}"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def prepare(self) -> None:
        (self.directory / "home").mkdir(exist_ok=True)
        for path in (self.directory / "host_key", self.key):
            if not path.exists():
                make_key(path)
        (self.directory / "authorized_keys").write_text(Path(f"{self.key}.pub").read_text())
        self.known_hosts.write_text(self.known_hosts_line + "\n")
        (self.directory / "sshd_config").write_text(
            _CONFIG.format(
                port=self.port,
                address=self.address,
                directory=self.directory,
                environment=" ".join(self._settings()),
            )
        )
        if self.user == "root":
            Path("/run/sshd").mkdir(
                mode=0o755, exist_ok=True
            )  # sshd's empty root; absent until its service has run once

    def command(self) -> list[str]:
        # -e: to our log, not to syslog. The path must be absolute: sshd starts itself again per connection.
        return [present.program("sshd"), "-D", "-e", "-f", str(self.directory / "sshd_config")]

    def is_ready(self) -> bool:
        try:
            with socket.create_connection((self.address, self.port), timeout=2) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def client(self, *command: str) -> list[str]:
        """The argument list of an `ssh` that reaches this node and nothing of the user's own configuration."""
        options = ["-F", "none", "-p", str(self.port), "-i", str(self.key)]
        for setting in (
            "BatchMode=yes",
            "IdentitiesOnly=yes",
            f"UserKnownHostsFile={self.known_hosts}",
            "ConnectTimeout=10",
        ):
            options += ["-o", setting]
        return [present.program("ssh"), *options, f"{self.user}@{self.address}", *command]

    def run(self, *command: str, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
        """Run one command, each argument quoted, on the node."""
        return subprocess.run(
            self.client(shlex.join(command)),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def _settings(self) -> list[str]:
        # A home of its own: the user's shell profile would otherwise change PATH on the "node".
        environment = {"HOME": str(self.directory / "home"), **self._environment}
        return [f'"{name}={value}"' for name, value in environment.items()]


def make_key(path: Path) -> None:
    """A new key pair, without a passphrase."""
    keygen = present.program("ssh-keygen")
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-C", "windlass-tests", "-f", str(path)], check=True)
