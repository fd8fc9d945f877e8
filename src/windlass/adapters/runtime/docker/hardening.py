"""What a container of ours looks like: pure functions from what is wanted to the engine's create call.

Hardened always: no privileges, no capabilities, nothing gained by setuid programs, limits on processes, memory and log,
no path of the host but the run's own secrets in memory, no restart by the engine. The root file system stays writable:
ordinary images write to /tmp and to their home, it dies with the run, and read-only would buy little beside the above.
`validation` has already said no to whatever an engine would take in silence.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from windlass.adapters.runtime.docker.engine import Facts
from windlass.adapters.runtime.docker.labels import HELPER, Owner
from windlass.adapters.runtime.docker.validation import check_assignment, check_command, check_image
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import VolumeId
from windlass.core.model.secret import NOTHING_HANDED, Handed
from windlass.core.model.variables import ARTIFACTS, run_variables

SECRETS: Final = "/run/secrets"
DEBUG_MOUNT: Final = "/mnt"
HELPER_MOUNT: Final = "/volume"

LEAST_CPU_MILLIS: Final = 10
"""Engines refuse less than a hundredth of a core; who asked for less gets this."""
LOG_FILE_SIZE: Final = "100m"
LOG_FILES: Final = "2"
"""The engine's own copy of the log is a buffer: our follower keeps what is worth keeping. It may lag by this much."""
DEBUG_MEMORY_BYTES: Final = 1 << 30
DEBUG_CPU_MILLIS: Final = 1000
DEBUG_PIDS: Final = 1024


def run_container(
    assignment: Assignment,
    *,
    owner: Owner,
    facts: Facts,
    handed: Handed = NOTHING_HANDED,
    secrets: str = "",
    parent: str = "",
    network: str = "default",
) -> dict[str, Any]:
    """The create call of a run; `secrets` is the directory in memory that its secret files lie in, `parent` the cgroup of its
    slice, `network` its tenant's. Raises Invalid."""
    check_assignment(assignment, handed)
    spec = assignment.spec
    config: dict[str, Any] = {
        "Image": spec.image,
        "Env": [f"{name}={value}" for name, value in environment(assignment, handed).items()],
        "Labels": owner.on_run(assignment),
        "OpenStdin": spec.wants_terminal or spec.wants_input,
        "StdinOnce": spec.wants_input and not spec.wants_terminal,  # else its end would never be passed on
        "Tty": spec.wants_terminal,
        "HostConfig": _host_config(
            facts,
            owner,
            memory_bytes=spec.needs.memory_bytes,
            cpu_millis=spec.needs.cpu_millis,
            pids=spec.pids_max,
            volume=assignment.volume,
            target=ARTIFACTS,
            network=network if spec.wants_network else "none",
        ),
    }
    if secrets:
        config["HostConfig"]["Mounts"].append(_secrets_mount(secrets))
    if parent:
        config["HostConfig"]["CgroupParent"] = parent
    if assignment.gpu_ids:
        config["HostConfig"]["DeviceRequests"] = _gpus(assignment.gpu_ids)
    if spec.workdir:
        config["WorkingDir"] = spec.workdir
    return config | _command(spec.command)


def debug_container(
    volume: VolumeId,
    *,
    image: str,
    command: tuple[str, ...],
    labels: Mapping[str, str],
    owner: Owner,
    facts: Facts,
) -> dict[str, Any]:
    """The create call of a shell beside a volume. Raises Invalid."""
    check_image(image)
    check_command(command)
    host = _host_config(
        facts,
        owner,
        memory_bytes=DEBUG_MEMORY_BYTES,
        cpu_millis=DEBUG_CPU_MILLIS,
        pids=DEBUG_PIDS,
        volume=volume,
        target=DEBUG_MOUNT,
        network="none",
    )
    config = {
        "Image": image,
        "Labels": dict(labels) | owner.labels,
        "OpenStdin": True,
        "Tty": True,
        "WorkingDir": DEBUG_MOUNT,
        "HostConfig": host,
    }
    return config | _command(command)


def helper_container(volume: VolumeId, *, image: str, owner: Owner) -> dict[str, Any]:
    """A container that never starts: the archive calls need one to reach a volume through."""
    return {
        "Image": image,
        "Cmd": ["/never-started"],
        "Labels": owner.labels | {HELPER: volume_name(volume)},
        "HostConfig": {"NetworkMode": "none", "Mounts": [_mount(volume, HELPER_MOUNT, owner)], "CapDrop": ["ALL"]},
    }


def volume_name(volume: VolumeId) -> str:
    return f"windlass-{volume}"


def environment(assignment: Assignment, handed: Handed = NOTHING_HANDED) -> dict[str, str]:
    """The job's own variables, those it was handed, then ours, which it cannot override."""
    spec = assignment.spec
    ours = run_variables(assignment)
    if spec.secret_files:
        ours["WINDLASS_SECRETS"] = SECRETS
    return dict(spec.env) | dict(handed.variables) | ours


def _host_config(
    facts: Facts,
    owner: Owner,
    *,
    memory_bytes: int,
    cpu_millis: int,
    pids: int,
    volume: VolumeId,
    target: str,
    network: str,
) -> dict[str, Any]:
    return {
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "PidsLimit": pids,
        "Memory": memory_bytes,
        "MemorySwap": memory_bytes,  # memory and swap together: no swap, so that the limit is one
        "NanoCpus": max(cpu_millis, LEAST_CPU_MILLIS) * 1_000_000,
        "RestartPolicy": {"Name": "no"},  # a restart is a new run, decided by the control plane
        "AutoRemove": False,
        "Init": facts.has_init,  # a first process without signal handlers would sit out every SIGTERM
        "NetworkMode": network,
        "Mounts": [_mount(volume, target, owner)],
        "LogConfig": _log_config(facts.log_drivers),
    }


def _mount(volume: VolumeId, target: str, owner: Owner) -> dict[str, Any]:
    # An engine makes a missing volume on the way; the labels see to it that even such a one is ours to remove.
    # NoCopy: what the image holds at the mount point stays out, so that a first run and a retry find the same.
    return {
        "Type": "volume",
        "Source": volume_name(volume),
        "Target": target,
        "VolumeOptions": {"NoCopy": True, "Labels": owner.labels},
    }


def _secrets_mount(directory: str) -> dict[str, Any]:
    """The one path of the machine that a container sees: made by us for this run alone, in memory, and not to be written to."""
    return {"Type": "bind", "Source": directory, "Target": SECRETS, "ReadOnly": True}


def _log_config(drivers: Iterable[str]) -> dict[str, Any]:
    """A bounded log that gives back the bytes that were written. Docker's json-file does not: it replaces what is not UTF-8."""
    if "local" in drivers:
        return {"Type": "local", "Config": {"max-size": LOG_FILE_SIZE, "max-file": LOG_FILES, "compress": "false"}}
    if "k8s-file" in drivers:
        return {"Type": "k8s-file", "Config": {"max-size": LOG_FILE_SIZE}}
    return {"Type": "json-file", "Config": {"max-size": LOG_FILE_SIZE, "max-file": LOG_FILES}}


def _command(command: tuple[str, ...]) -> dict[str, Any]:
    """Given, it stands for the image's entrypoint and command together."""
    return {"Entrypoint": [command[0]], "Cmd": list(command[1:])} if command else {}


def _gpus(ids: tuple[str, ...]) -> list[dict[str, Any]]:
    """By device id, so that what placement gave is what the run gets. `vendor/class=name` is a CDI name."""
    if any("=" in device for device in ids):
        return [{"Driver": "cdi", "DeviceIDs": list(ids)}]
    return [{"Driver": "", "DeviceIDs": list(ids), "Capabilities": [["gpu"]]}]
