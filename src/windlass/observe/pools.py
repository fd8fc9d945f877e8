"""Dynamic pools as Prometheus reads them: made anew at each reading, so that a deleted pool leaves nothing."""

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from windlass.core.model.pool import Measure
from windlass.core.scaling import PoolFigures

_POOL = ("pool",)


class PoolMetrics(Collector):
    def __init__(self, registry: CollectorRegistry) -> None:
        self._figures: Sequence[PoolFigures] = ()
        registry.register(self)

    def update(self, figures: Sequence[PoolFigures]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        yield from self._sizes()
        yield from self._load()
        yield from self._deeds()

    def _sizes(self) -> Iterator[Metric]:
        workers = GaugeMetricFamily("windlass_pool_workers", "Workers by what they do.", labels=("pool", "state"))
        most = GaugeMetricFamily("windlass_pool_workers_max", "Workers it may have.", labels=_POOL)
        for one in self._figures:
            seen = one.seen
            states = {"idle": seen.idle, "busy": seen.ready - seen.idle, "coming": seen.coming, "ending": seen.ending}
            for state, count in states.items():
                workers.add_metric((one.pool, state), count)
            most.add_metric((one.pool,), one.workers_max)
        yield workers
        yield most

    def _load(self) -> Iterator[Metric]:
        used = GaugeMetricFamily(
            "windlass_pool_used_ratio", "Held, of what its workers have.", labels=("pool", "resource")
        )
        depth = GaugeMetricFamily("windlass_pool_waiting_jobs", "Jobs that wait for room it could give.", labels=_POOL)
        wait = GaugeMetricFamily("windlass_pool_wait_seconds", "How long the first of them has waited.", labels=_POOL)
        for one in self._figures:
            values = dict(one.seen.measures)
            for measure in (Measure.CPU, Measure.MEMORY):
                if measure in values:
                    used.add_metric((one.pool, measure.value), values[measure] / 1000)
            depth.add_metric((one.pool,), values.get(Measure.DEPTH, 0))
            wait.add_metric((one.pool,), values.get(Measure.WAIT, 0) / 1000)
        yield used
        yield depth
        yield wait

    def _deeds(self) -> Iterator[Metric]:
        steps = CounterMetricFamily("windlass_pool_scaling_total", "Scaling decisions.", labels=("pool", "direction"))
        holds = CounterMetricFamily("windlass_pool_held_total", "What held them back.", labels=("pool", "by"))
        workers = CounterMetricFamily(
            "windlass_pool_provisioned_total", "Workers asked for.", labels=("pool", "outcome")
        )
        spent = CounterMetricFamily(
            "windlass_pool_provisioning_seconds_total", "Until those that came were there.", labels=_POOL
        )
        refused = CounterMetricFamily(
            "windlass_pool_refusals_total", "Acts its provisioner could not do.", labels=_POOL
        )
        for one in self._figures:
            tally = one.tally
            for direction, count in sorted(tally.steps.items()):
                steps.add_metric((one.pool, direction), count)
            for hold, count in sorted(tally.holds.items()):
                holds.add_metric((one.pool, hold), count)
            workers.add_metric((one.pool, "ready"), tally.ready)
            workers.add_metric((one.pool, "failed"), tally.given_up)
            spent.add_metric((one.pool,), tally.ready_ms / 1000)
            refused.add_metric((one.pool,), tally.refusals)
        yield from (steps, holds, workers, spent, refused)
