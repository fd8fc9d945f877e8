"""What a process run is given: order, environment and directories, made from its assignment. Pure.

Nothing of the server's environment reaches a workload but where its user's programs lie (PATH).
"""

from windlass.adapters.runtime.process.records import Record
from windlass.core.errors import Invalid
from windlass.core.model.assignment import Assignment
from windlass.core.model.resources import Resources
from windlass.core.model.variables import ARTIFACTS, run_variables


def order_of(assignment: Assignment, *, owner: str, volume: str, search_path: str) -> Record:
    spec = assignment.spec
    return {
        "run": assignment.run,
        "owner": owner,
        "token": [assignment.token.epoch, assignment.token.n],
        "volume": assignment.volume,
        "command": list(spec.command),
        "environment": _environment(assignment, volume=volume, search_path=search_path),
        "directory": directory_of(spec.workdir, volume),
        "terminal": spec.wants_terminal,
        "input": spec.wants_input and not spec.wants_terminal,
        "limits": _limits(spec.needs, spec.pids_max),
        "slice": {"name": cut.node, "limits": _limits(cut.capacity)} if (cut := assignment.slice) is not None else {},
    }


def base_environment(*, volume: str, search_path: str, is_terminal: bool) -> dict[str, str]:
    environment = {"PATH": search_path, "HOME": volume, "LANG": "C.UTF-8", "WINDLASS_ARTIFACTS": volume}
    return environment | ({"TERM": "xterm-256color"} if is_terminal else {})


def directory_of(workdir: str, volume: str) -> str:
    """A job written for containers names its working directory below /artifacts; elsewhere absolute means this machine's."""
    if workdir == ARTIFACTS or workdir.startswith(f"{ARTIFACTS}/"):
        workdir = workdir[len(ARTIFACTS) :].strip("/")
    if ".." in workdir.split("/"):
        raise Invalid(f"the working directory {workdir!r} must not climb")
    return workdir if workdir.startswith("/") else f"{volume}/{workdir}".rstrip("/")


def _environment(assignment: Assignment, *, volume: str, search_path: str) -> dict[str, str]:
    spec = assignment.spec
    environment = base_environment(volume=volume, search_path=search_path, is_terminal=spec.wants_terminal)
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(assignment.gpu_ids)  # empty hides them all: none were assigned
    environment |= dict(spec.env)
    return environment | run_variables(assignment, artifacts=volume)


def _limits(of: Resources, pids_max: int = 0) -> Record:
    return {"memory_bytes": of.memory_bytes, "cpu_millis": of.cpu_millis, "pids_max": pids_max}
