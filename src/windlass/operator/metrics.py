"""What the operator counts, for Prometheus."""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from windlass.wire.kube.names import Document


class OperatorMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.ended = Counter(
            "windlass_operator_jobs_ended_total",
            "Jobs that came to an end.",
            ("phase", "reason"),
            registry=self.registry,
        )
        self.failed = Counter(
            "windlass_operator_runs_failed_total",
            "Runs that failed, those that are tried again among them, by reason.",
            ("reason",),
            registry=self.registry,
        )
        self.pending = Gauge(
            "windlass_operator_jobs_pending", "Jobs that wait now, by what for.", ("reason",), registry=self.registry
        )
        self.pods = Counter("windlass_operator_pods_created_total", "Pods made for runs.", registry=self.registry)
        self.looks = Histogram(
            "windlass_operator_reconcile_seconds", "Time spent on looking at one job once.", registry=self.registry
        )
        self.troubles = Counter(
            "windlass_operator_reconcile_errors_total",
            "Looks that failed and are repeated.",
            ("code",),
            registry=self.registry,
        )
        self.waiting = Gauge("windlass_operator_queue_length", "Jobs that are to be looked at.", registry=self.registry)
        self.calls = Gauge(
            "windlass_operator_api_calls",
            "Requests to the API server so far.",
            ("method", "resource"),
            registry=self.registry,
        )

    def show_pending(self, jobs: Iterable[Document]) -> None:
        """As they are at this moment; what nobody waits for any more is told no longer."""
        self.pending.clear()
        for status in (job.get("status", {}) for job in jobs):
            if status.get("phase") == "Pending":
                self.pending.labels(status.get("reason", "")).inc()

    def show_calls(self, calls: Mapping[tuple[str, str], int]) -> None:
        for (method, resource), count in calls.items():
            self.calls.labels(method, resource).set(count)
