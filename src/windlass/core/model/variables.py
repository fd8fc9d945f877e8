"""What every run is told of itself, whichever runtime starts it: by these variables, which nothing of the job's overrides."""

from typing import Final

from windlass.core.model.assignment import Assignment
from windlass.core.model.job import JobSpec

ARTIFACTS: Final = "/artifacts"
"""Where a container finds its volume, and below which manifests name their files."""

ALWAYS: Final = (
    "WINDLASS_JOB",
    "WINDLASS_RUN",
    "WINDLASS_ATTEMPT",
    "WINDLASS_INDEX",
    "WINDLASS_COUNT",
    "WINDLASS_ARTIFACTS",
)
PRESET: Final = ("WINDLASS_MODEL", "WINDLASS_GPU", "WINDLASS_INPUT", "WINDLASS_OUTPUT")
"""Of the inference preset."""


def run_variables(assignment: Assignment, *, artifacts: str = ARTIFACTS) -> dict[str, str]:
    """`artifacts`: where its volume is for it."""
    told = identity(
        assignment.job, assignment.run, assignment.attempt, assignment.index, assignment.count, artifacts=artifacts
    )
    return told | (preset(assignment.spec, artifacts=artifacts) if assignment.spec.model else {})


def identity(
    job: str, run: str, attempt: int, index: int = 0, count: int = 1, *, artifacts: str = ARTIFACTS
) -> dict[str, str]:
    return dict(zip(ALWAYS, (job, run, str(attempt), str(index), str(count), artifacts), strict=True))


def preset(spec: JobSpec, *, artifacts: str = ARTIFACTS) -> dict[str, str]:
    """Of a job that has a model. Its files are where its volume is."""
    paths = (_below(path, artifacts) for path in (spec.input_path, spec.output_path))
    told = zip(PRESET, (spec.model, str(spec.needs.gpus), *paths), strict=True)
    return {name: value for name, value in told if value}


def _below(path: str, artifacts: str) -> str:
    is_in_volume = path == ARTIFACTS or path.startswith(f"{ARTIFACTS}/")
    return artifacts + path[len(ARTIFACTS) :] if is_in_volume else path
