"""What the operator counts, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class OperatorMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.ended = Counter(
            "windlass_operator_jobs_ended_total",
            "Jobs that came to an end.",
            ("phase", "reason"),
            registry=self.registry,
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
