"""Commands on one node over ssh. A command is a list of arguments; the text a remote shell sees is made here, only here.

ssh hands every command to the user's shell, so each argument is quoted, and names come here only as values that passed
their grammar (`Reference`, `Address`, digests). Every command runs under the node's own `timeout`, which ends its whole
process group, and says its process id first: sshd passes no signals on to commands of root, so whoever leaves a command
early kills its group by that id. So it ends when it is late, when we are interrupted, and, at its time, even when we are
killed.
"""

import contextlib
import os
import re
import shlex
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
from msgspec import Struct

from windlass.images.config import Address, parse_address
from windlass.images.errors import ImageSyncError, NodeError, OutputRefused
from windlass.images.settings import Settings
from windlass.images.tasks import task_group
from windlass.images.text import clean

if TYPE_CHECKING:
    import asyncssh

Argv = tuple[str, ...]

STDOUT_MAX: Final = 64 << 20
"""Bytes of output taken from a node; a listing of ten thousand images is some ten of them."""
STDERR_MAX: Final = 64 << 10
_KILL_AFTER_SECONDS: Final = 5
_SLACK_SECONDS: Final = 15
"""What a late command may take to come back over a slow line before we give the channel up."""
_SESSIONS_MAX: Final = 5
"""Per connection; further ones get a connection of their own. OpenSSH allows ten (MaxSessions), and when all commands
are ended at once each needs a second session for it."""
_BEGIN_FACTOR: Final = 3
_JUMPS_MAX: Final = 8
_WINDOW: Final = 8 << 20
"""Bytes under way in a channel: enough for a fast line with a long round trip."""
_CIPHERS: Final = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes256-ctr",
    "aes192-ctr",
    "aes128-ctr",
)
"""GCM first: it is done in hardware, and decides the throughput of a copy."""


_ANNOUNCE: Final = 'echo "image-sync-pid $$" >&2; exec "$@"'
"""A constant script: what it runs comes as arguments. The process keeps its id through exec."""
_KILL: Final = 'kill -s TERM -- "-$1"'
_SUDO: Final = ("sudo", "-n")
_PID: Final = re.compile(rb"image-sync-pid ([0-9]{1,10})\n")


class Finished(Struct, frozen=True, kw_only=True):
    exit: int
    stdout: bytes = b""
    stderr: str = ""
    is_late: bool = False


def render(stages: Sequence[Argv], *, timeout_seconds: int, sudo: bool = False) -> str:
    """The one place where arguments become text. Several stages are a pipeline."""
    for argument in (argument for stage in stages for argument in stage):
        if not argument or not argument.isprintable():
            raise ImageSyncError("command.refused", "an argument that is empty or has control characters")
    root: Argv = _SUDO if sudo else ()
    late: Argv = ("timeout", "-k", str(_KILL_AFTER_SECONDS), str(timeout_seconds))
    inner: Argv = stages[0] if len(stages) == 1 else ("sh", "-c", " | ".join(shlex.join(stage) for stage in stages))
    return f"exec {shlex.join((*root, 'sh', '-c', _ANNOUNCE, 'sh', *late, 'env', 'LC_ALL=C', *inner))}"


class Running:
    """A command on its way. `said` is what came on stderr before its id: a shell's complaints, or why nothing ran."""

    def __init__(self, process: "asyncssh.SSHClientProcess[bytes]", connection: Any, root: Argv) -> None:
        self.process = process
        self.pid: int | None = None
        self.said = b""
        self._connection = connection
        self._root = root

    async def end(self) -> None:
        """If it has not ended yet, end it on the node, group and all; briefly, for we may be on our way out."""
        with anyio.move_on_after(3, shield=True), contextlib.suppress(Exception):
            if self.process.returncode is None and self.pid is not None:
                await self._connection.run(shlex.join((*self._root, "sh", "-c", _KILL, "sh", str(self.pid))))
            self.process.close()
            await self.process.wait_closed()

    @property
    def exit_code(self) -> int:
        """As a shell counts: 128 + n after a signal; 255 when the connection broke before the command ended."""
        code = self.process.returncode
        if code is None:
            return 255
        return code if code >= 0 else 128 - code


class Shell:
    """One node's ssh connections: opened when needed, opened again when lost, closed together."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self.name = address.name
        self._address = address
        self._settings = settings
        self._connections: list[tuple[Any, anyio.Semaphore]] = []
        self._hops: list[Any] = []
        self._opening = anyio.Lock()

    async def run(
        self, *stages: Argv, timeout_seconds: int = 60, stdout_max: int | None = STDOUT_MAX, sudo: bool | None = None
    ) -> Finished:
        """Run to the end and collect; without `stdout_max` its output is read and thrown away.

        A command that does not exist exits 127, one that is late is `is_late`.
        """
        started = anyio.current_time()
        async with self.process(*stages, timeout_seconds=timeout_seconds, sudo=sudo) as running:
            running.process.stdin.write_eof()
            with anyio.move_on_after(timeout_seconds + _KILL_AFTER_SECONDS + _SLACK_SECONDS) as patience:
                out, err = await _collect(running, stdout_max, self.name)
                await running.process.wait_closed()
            if patience.cancelled_caught:
                return Finished(exit=124, is_late=True)
            code = running.exit_code
            late = code == 124 or (code == 137 and anyio.current_time() - started >= timeout_seconds)
            return Finished(exit=code, stdout=out, stderr=clean(err.decode("utf-8", "replace")), is_late=late)

    @contextlib.asynccontextmanager
    async def process(self, *stages: Argv, timeout_seconds: int, sudo: bool | None = None) -> AsyncIterator[Running]:
        """The running command, for streams. Left early, it is ended on the node."""
        as_root = self._settings.sudo if sudo is None else sudo
        command = render(stages, timeout_seconds=timeout_seconds, sudo=as_root)
        connection, sessions = await self._connection()
        async with sessions:
            # A login that hangs (a home on a dead file server) must not hang us: a command begins soon or not at all.
            patience = _BEGIN_FACTOR * self._settings.ssh_connect_timeout_seconds
            with _translated(self.name), anyio.fail_after(patience):
                process = await connection.create_process(command, encoding=None, window=_WINDOW)
            running = Running(process, connection, _SUDO if as_root else ())
            try:
                with _translated(self.name):
                    with anyio.fail_after(patience):
                        await _learn_pid(running)
                    yield running
            finally:
                await running.end()

    async def check(self) -> None:
        """The seed's connectivity check: connect, log in, run something."""
        finished = await self.run(("echo", "ok"), timeout_seconds=self._settings.ssh_connect_timeout_seconds)
        if finished.exit != 0 or finished.stdout.strip() != b"ok":
            what = f"a login works, commands do not (exit {finished.exit}: {finished.stderr})"
            raise NodeError("ssh.no_command", what, where=self.name, expected="a POSIX shell with coreutils' timeout")

    async def close(self) -> None:
        connections = [*(connection for connection, _ in self._connections), *reversed(self._hops)]
        self._connections, self._hops = [], []
        for connection in connections:
            connection.close()
        for connection in connections:
            with contextlib.suppress(Exception), anyio.move_on_after(2):
                await connection.wait_closed()

    async def _connection(self) -> tuple[Any, anyio.Semaphore]:
        async with self._opening:
            self._connections = [entry for entry in self._connections if not entry[0].is_closed()]
            for entry in self._connections:
                if entry[1].value > 0:
                    return entry
            opened = (await self._connect(), anyio.Semaphore(_SESSIONS_MAX))
            self._connections.append(opened)
            return opened

    async def _connect(self) -> "asyncssh.SSHClientConnection":
        with _translated(self.name), anyio.fail_after(4 * self._settings.ssh_connect_timeout_seconds):
            return await self._dial(self._address)

    async def _dial(
        self, address: Address, through: "asyncssh.SSHClientConnection | None" = None, depth: int = 0
    ) -> "asyncssh.SSHClientConnection":
        """Jump hosts of the configuration are dialled by us, so that our known hosts and key hold for them too."""
        import asyncssh

        options = self._options(address)
        if through is None:
            known = await asyncssh.SSHClientConnectionOptions.construct(host=address.host, **options)
            jumps = known.tunnel.split(",") if isinstance(known.tunnel, str) and known.tunnel else []
            if depth > _JUMPS_MAX:
                raise NodeError("ssh.jumps", "jump hosts that lead through each other", where=self.name)
            for jump in jumps:
                through = await self._dial(parse_address(jump), through, depth + 1)
                self._hops.append(through)
        return await asyncssh.connect(address.host, tunnel=through or (), **options)

    def _options(self, address: Address) -> dict[str, Any]:
        """What is not set here comes from ~/.ssh/config: user, port, keys, ProxyJump, HostKeyAlias, known hosts."""
        settings = self._settings
        options: dict[str, Any] = {
            "connect_timeout": settings.ssh_connect_timeout_seconds,
            "login_timeout": settings.ssh_connect_timeout_seconds,
            "encryption_algs": _CIPHERS,
            "compression_algs": None,
            "password_auth": False,  # from cron nobody answers a prompt
            "kbdint_auth": False,
            "keepalive_interval": 15,
            "keepalive_count_max": 4,
        }
        if address.user:
            options["username"] = address.user
        if address.port:
            options["port"] = address.port
        if settings.ssh_config:
            options["config"] = [_existing(settings.ssh_config, "SSH_CONFIG")]
        if settings.ssh_known_hosts:
            options["known_hosts"] = _existing(settings.ssh_known_hosts, "SSH_KNOWN_HOSTS")
        if settings.ssh_key:
            options["client_keys"] = [_existing(settings.ssh_key, "SSH_KEY")]
        return options


async def _learn_pid(running: Running) -> None:
    """Read stderr up to the line with the id; a command that could not even start ends it instead."""
    said = bytearray()
    while (line := await running.process.stderr.readline()) and len(said) < STDERR_MAX:
        if match := _PID.search(line):
            running.pid = int(match[1])
            break
        said += line
    running.said = bytes(said)


async def _collect(running: Running, stdout_max: int | None, node: str) -> tuple[bytes, bytes]:
    err = bytearray(running.said)
    out = bytearray()

    async def drain_errors() -> None:
        while chunk := await running.process.stderr.read(16 << 10):
            err.extend(chunk[: max(0, STDERR_MAX - len(err))])

    async with task_group() as tasks:
        tasks.start_soon(drain_errors)
        while chunk := await running.process.stdout.read(256 << 10):
            if stdout_max is None:
                continue
            out.extend(chunk)
            if len(out) > stdout_max:
                raise OutputRefused("node.output", f"more than {stdout_max} bytes of output", where=node)
    return bytes(out), bytes(err)


@contextlib.contextmanager
def _translated(node: str) -> "Any":
    """asyncssh's exceptions, and the system's, in our words; each says what to do next."""
    import asyncssh

    try:
        yield
    except asyncssh.HostKeyNotVerifiable as error:
        step = "Compare its key with the node's own, then put it into the known_hosts file in use; if it changed, ask why first"
        raise NodeError("ssh.host_key", "host key not known or changed", where=node, next_step=step) from error
    except asyncssh.PermissionDenied as error:
        step = "Load the key into the agent, or set SSH_KEY or IdentityFile"
        raise NodeError("ssh.denied", "login refused", where=node, next_step=step) from error
    except (TimeoutError, asyncssh.TimeoutError) as error:
        step = f"{_by_hand(node)}; a slow one may need a longer SSH_CONNECT_TIMEOUT"
        raise NodeError("ssh.unreachable", "no answer in time", where=node, next_step=step) from error
    except OSError as error:
        raise NodeError("ssh.unreachable", _plain(error), where=node, next_step=_by_hand(node)) from error
    except (ValueError, asyncssh.Error) as error:
        reason = clean(str(error)) or type(error).__name__
        raise NodeError("ssh.failed", reason, where=node, next_step=_by_hand(node)) from error


def _plain(error: OSError) -> str:
    """Without the numbers of the system: `connection refused`, `name or service not known`."""
    if isinstance(error, socket.gaierror):
        return clean(str(error.strerror)).lower()
    return os.strerror(error.errno).lower() if error.errno else clean(str(error)) or type(error).__name__


def _by_hand(node: str) -> str:
    """The command a person would try; a node's name is not always one that ssh takes."""
    address = parse_address(node)
    port = f"-p {address.port} " if address.port else ""
    user = f"{address.user}@" if address.user else ""
    return f"Try it by hand: ssh {port}{user}{address.host} true"


def _existing(path: str, key: str) -> str:
    full = str(Path(path).expanduser())
    if not os.access(full, os.R_OK):
        raise ImageSyncError("config.unreadable", "no such readable file", where=f"{key}={clean(path, 120)}")
    return full
