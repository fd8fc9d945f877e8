"""The views live in `core.model.views`, where `wire` can reach them; this name is for the loops' callers."""

from windlass.core.model.views import (
    CleanupItem,
    CleanupReport,
    JobEvent,
    JobPage,
    JobQuery,
    JobView,
    NodeView,
    VolumeView,
)

__all__ = ["CleanupItem", "CleanupReport", "JobEvent", "JobPage", "JobQuery", "JobView", "NodeView", "VolumeView"]
