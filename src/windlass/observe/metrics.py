"""The API's own measures, and the page Prometheus reads."""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from windlass.core.compiled import IS_COMPILED
from windlass.core.scaling import PoolFigures
from windlass.observe.answered import Answered, Tally
from windlass.observe.pools import PoolMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ApiMetrics:
    """Rate, errors and latency by route. Labels have few values: a pool's name, but never a tenant, a job or an address."""

    def __init__(self, registry: CollectorRegistry, *, version: str = "") -> None:
        self._registry = registry
        build = Gauge(
            "windlass_build_info",
            "1; its labels say what this server is.",
            ("version", "compiled"),
            registry=registry,
        )
        build.labels(version, str(IS_COMPILED).lower()).set(1)
        self._answered = Answered()
        registry.register(self._answered)
        self._streams = Gauge("windlass_api_streams_open", "Followers of logs and events.", registry=registry)
        self._accepted = Tally("windlass_jobs_accepted_total", "Jobs accepted.")
        registry.register(self._accepted)
        self._jobs = Gauge("windlass_jobs", "Jobs by state.", ("state",), registry=registry)
        self._sla = Gauge(
            "windlass_jobs_sla", "Waiting jobs by how near their deadline is.", ("state",), registry=registry
        )
        self._missed = Counter("windlass_sla_missed_total", "Deadlines passed while jobs waited.", registry=registry)
        self._missed_seen = 0
        self._webhooks = Counter(
            "windlass_webhooks_total", "Tries to tell of a job's end.", ("outcome",), registry=registry
        )
        self._webhooks_seen: dict[str, int] = {}
        self._webhooks_owed = Gauge("windlass_webhooks_owed", "Ends of jobs still to be told.", registry=registry)
        self._pools = PoolMetrics(registry)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        self._answered.note(route, method, status, seconds)

    def accepted(self, count: int = 1) -> None:
        self._accepted.count += count

    def jobs(self, by_state: Mapping[str, int]) -> None:
        """All states at once; one that is not named has no jobs any more."""
        self._jobs.clear()
        for state, count in by_state.items():
            self._jobs.labels(state).set(count)

    def deadlines(self, by_state: Mapping[str, int], missed: int) -> None:
        """`missed`: since the server started."""
        for state, count in by_state.items():
            self._sla.labels(state).set(count)
        self._missed.inc(max(0, missed - self._missed_seen))
        self._missed_seen = missed

    def webhooks(self, by_outcome: Mapping[str, int], owed: int) -> None:
        """`by_outcome`: since the server started."""
        for outcome, count in by_outcome.items():
            self._webhooks.labels(outcome).inc(count - self._webhooks_seen.get(outcome, 0))
            self._webhooks_seen[outcome] = count
        self._webhooks_owed.set(owed)

    def pools(self, figures: Sequence[PoolFigures]) -> None:
        self._pools.update(figures)

    def stream_opened(self) -> None:
        self._streams.inc()

    def stream_closed(self) -> None:
        self._streams.dec()

    def page(self) -> bytes:
        """Costly with many series: call it in a thread."""
        return generate_latest(self._registry)
