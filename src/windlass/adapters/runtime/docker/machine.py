"""What the node offers: the engine's own count of cores and memory, and the ids of the GPUs it can hand out."""

import re
import shutil
import subprocess
from typing import Final

import anyio.to_thread

from windlass.adapters.runtime.docker.engine import Facts
from windlass.core.model.resources import Resources
from windlass.ports.runtime import Machine

_SMI_LINE: Final = re.compile(r"GPU \d+: .*\(UUID: ((?:GPU|MIG)-[0-9a-fA-F-]+)\)")
_SMI_SECONDS: Final = 10


def machine(facts: Facts, smi: str, *, slices_lack: str = "", networks_lack: str = "") -> Machine:
    gpus = gpu_ids(facts, smi)
    return Machine(
        runtime=facts.name,
        kind="container",
        capacity=Resources(cpu_millis=facts.cpus * 1000, memory_bytes=facts.memory_bytes, gpus=len(gpus)),
        gpu_ids=gpus,
        slices_lack=slices_lack,
        networks_lack=networks_lack,
    )


def gpu_ids(facts: Facts, smi: str) -> tuple[str, ...]:
    """UUIDs where the engine has NVIDIA's runtime (they survive a reboot, indexes do not); else CDI names, one per device."""
    uuids = tuple(found[1] for line in smi.splitlines() if (found := _SMI_LINE.match(line.strip())))
    if uuids and "nvidia" in facts.runtimes:
        return uuids
    names = [name for name in facts.devices if "/gpu=" in name and not name.endswith("=all")]
    # The same device is listed by index and by UUID; one kind of name is enough.
    by_uuid = [name for name in names if "GPU-" in name or "MIG-" in name]
    return tuple(by_uuid or names)


async def ask_smi() -> str:
    """`nvidia-smi -L`, empty where there is no such program or it fails."""
    program = shutil.which("nvidia-smi")
    return await anyio.to_thread.run_sync(_run_smi, program) if program else ""


def _run_smi(program: str) -> str:
    try:
        done = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=_SMI_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
