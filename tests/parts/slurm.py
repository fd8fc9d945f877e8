"""A Slurm of one node, as a rival for benchmarks: munge, the controller and the node's daemon, in the foreground on loopback."""

import secrets
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.parts import present
from tests.parts.ports import free_port
from tests.parts.process import ServerProcess


class Slurm:
    """`slurm.run("sbatch", …)` is one of its commands, pointed at it. Slots: how many jobs run at once."""

    def __init__(self, slots: int) -> None:
        self._munge = Munge()
        self._controller = Controller(self._munge, slots)
        self._node = NodeDaemon(self._controller)

    def __enter__(self) -> Self:
        parts = [self._munge, self._controller, self._node]
        for count, part in enumerate(parts):
            try:
                part.start()
            except BaseException:
                _close(parts[: count + 1])
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _close([self._munge, self._controller, self._node])

    @property
    def environment(self) -> dict[str, str]:
        return self._controller.environment()

    @property
    def directory(self) -> Path:
        return self._controller.directory

    @property
    def pids(self) -> tuple[int, ...]:
        """Of its daemons."""
        return self._munge.pid, self._controller.pid, self._node.pid

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.environment, cwd=self.directory, capture_output=True, text=True, check=True
        )
        return done.stdout


class Munge(ServerProcess):
    """Who signs what Slurm's parts say to each other; its key is made for this one run."""

    name = "munge"

    @property
    def socket(self) -> Path:
        return self.directory / "munge.socket"

    def prepare(self) -> None:
        self.directory.chmod(0o755)  # munged refuses a socket that others cannot reach
        key = self.directory / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)

    def command(self) -> list[str]:
        return [
            present.program("munged"),
            "--foreground",
            "--force",
            f"--key-file={self.directory / 'munge.key'}",
            f"--socket={self.socket}",
            f"--pid-file={self.directory / 'munge.pid'}",
            f"--seed-file={self.directory / 'munge.seed'}",
            f"--log-file={self.directory / 'munged.log'}",
        ]

    def is_ready(self) -> bool:
        return self.socket.exists()


class Controller(ServerProcess):
    name = "slurmctld"

    def __init__(self, munge: Munge, slots: int) -> None:
        super().__init__()
        self._munge = munge
        self._slots = slots
        self._port = free_port()
        self.node_port = free_port()

    @property
    def configuration(self) -> Path:
        return self.directory / "slurm.conf"

    def prepare(self) -> None:
        for name in ("state", "spool"):
            (self.directory / name).mkdir(exist_ok=True)
        self.configuration.write_text(self._settings())

    def command(self) -> list[str]:
        return [present.program("slurmctld"), "-D", "-f", str(self.configuration)]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "SLURM_CONF": str(self.configuration)}

    def is_ready(self) -> bool:
        return _says(self, "scontrol", "ping").count("UP") > 0

    def _settings(self) -> str:
        """Tuned for latency, so that the comparison is with Slurm at its best: schedule at once, on every event."""
        host = socket.gethostname().split(".")[0]
        here = self.directory
        return "\n".join(
            [
                "ClusterName=bench",
                f"SlurmctldHost={host}(127.0.0.1)",
                f"SlurmctldPort={self._port}",
                f"SlurmdPort={self.node_port}",
                "SlurmUser=root",
                "AuthType=auth/munge",
                f"AuthInfo=socket={self._munge.socket}",
                "CredType=cred/munge",
                f"StateSaveLocation={here / 'state'}",
                f"SlurmdSpoolDir={here / 'spool'}",
                f"SlurmctldPidFile={here / 'slurmctld.pid'}",
                f"SlurmdPidFile={here / 'slurmd.pid'}",
                "ProctrackType=proctrack/linuxproc",
                "TaskPlugin=task/none",
                "JobAcctGatherType=jobacct_gather/none",
                "SelectType=select/cons_tres",
                "SelectTypeParameters=CR_Core",
                "SchedulerType=sched/builtin",
                "SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1",
                "MaxJobCount=100000",
                "MinJobAge=2",
                "ReturnToService=2",
                "SlurmctldDebug=error",
                "SlurmdDebug=error",
                "SlurmdParameters=config_overrides",
                f"NodeName={host} NodeAddr=127.0.0.1 CPUs={self._slots} State=UNKNOWN",
                f"PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO",
                "",
            ]
        )


class NodeDaemon(ServerProcess):
    name = "slurmd"

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller

    def command(self) -> list[str]:
        return [present.program("slurmd"), "-D", "-f", str(self._controller.configuration)]

    def environment(self) -> dict[str, str]:
        return self._controller.environment()

    def is_ready(self) -> bool:
        return "idle" in _says(self, "sinfo", "--noheader", "--format=%t")


def _says(part: ServerProcess, *command: str) -> str:
    done = subprocess.run(
        command, env=part.environment(), cwd=part.directory, capture_output=True, text=True, check=False
    )
    return done.stdout


def _close(parts: list[Munge | Controller | NodeDaemon]) -> None:
    for part in reversed(parts):
        part.close()
