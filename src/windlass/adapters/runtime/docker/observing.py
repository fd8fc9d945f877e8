"""What the engine's record of a container says of a run. Pure; the runtime fetches, this reads."""

from collections.abc import Mapping
from typing import Any, Final

from windlass.adapters.runtime.docker.labels import read_token
from windlass.adapters.runtime.docker.refusals import readable_start_error
from windlass.adapters.runtime.stamps import seconds
from windlass.core.model.ids import Millis, RunId
from windlass.ports.runtime import Observed, Phase, Used

_PHASES: Final = {
    "created": Phase.CREATED,
    "configured": Phase.CREATED,  # Podman's words for the same
    "initialized": Phase.CREATED,
    "running": Phase.RUNNING,
    "paused": Phase.RUNNING,
    "restarting": Phase.RUNNING,
    "stopping": Phase.RUNNING,
    "stopped": Phase.EXITED,
    "exited": Phase.EXITED,
    "dead": Phase.EXITED,
}


def observed(run: RunId, record: Mapping[str, Any]) -> Observed:
    """From an inspect answer."""
    state: Mapping[str, Any] = record["State"]
    started, finished = seconds(state.get("StartedAt", "")), seconds(state.get("FinishedAt", ""))
    phase = _phase(state, has_run=started is not None)
    is_over = phase is Phase.EXITED
    return Observed(
        run=run,
        phase=phase,
        token=read_token(record["Config"].get("Labels") or {}),
        pid=int(state.get("Pid") or 0) or None,
        exit_code=int(state.get("ExitCode") or 0) if is_over else None,
        is_oom=bool(state.get("OOMKilled")) and is_over,
        ran_ms=_span(started, finished) if is_over else Millis(0),
        started_wall=started,
        finished_wall=finished if is_over else None,
        error=readable_start_error(str(state.get("Error") or "")),
    )


def used(stats: Mapping[str, Any]) -> Used | None:
    """From a look at a container's counters; None when it does not run."""
    memory: Mapping[str, Any] = stats.get("memory_stats") or {}
    nanos = int(((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage") or 0)
    peak = int(memory.get("max_usage") or memory.get("usage") or 0)
    return Used(cpu_used_ms=nanos // 1_000_000, memory_peak_bytes=peak) if nanos and peak else None


def _phase(state: Mapping[str, Any], *, has_run: bool) -> Phase:
    status = str(state.get("Status", "")).lower()
    if status == "removing":
        return Phase.EXITED if has_run else Phase.ABSENT
    return _PHASES.get(status, Phase.RUNNING)


def _span(started: float | None, finished: float | None) -> Millis:
    return Millis(max(0, round((finished - started) * 1000))) if started and finished else Millis(0)
