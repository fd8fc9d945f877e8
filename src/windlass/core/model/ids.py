"""Identities. All are strings so that they are keys everywhere: store, engine labels, URLs, logs."""

from typing import NewType

TenantId = NewType("TenantId", str)
"""A DNS label chosen by the admin; it comes only out of a verified token."""
JobId = NewType("JobId", str)
"""A UUIDv7, made by the server at submit: sorts by time, never reused."""
RunId = NewType("RunId", str)
"""The job's id plus the attempt; the container is named by it, so the engine itself refuses a second one."""
NodeId = NewType("NodeId", str)
VolumeId = NewType("VolumeId", str)
"""The uid of the job (or of the job to come) whose artifacts it holds."""
PoolId = NewType("PoolId", str)
Millis = NewType("Millis", int)
"""Service time in milliseconds (see `ports.clock`), or a span of it."""

LOCAL_TENANT = TenantId("local")
"""The laptop's own tenant."""


def run_id(job: JobId, *, index: int, attempt: int) -> RunId:
    """Members of a gang differ by index; a single run carries none, so that its id reads `<job>-<attempt>`."""
    return RunId(f"{job}-{attempt}" if index == 0 else f"{job}-{index}-{attempt}")
