"""Requests answered, counted for what they cost: a plain object per kind, made into Prometheus's words when it asks.

A counter and a histogram of its client take a lock for each of three numbers, for every request there is.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Tally(Collector):
    """One number that only grows."""

    def __init__(self, name: str, words: str) -> None:
        self.count = 0
        self._name = name
        self._words = words

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._words, value=self.count)


class _Spans:
    """Of one route, method and status. The last bucket is for what took longer than any bound."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS) + 1)
        self.seconds = 0.0


class Answered(Collector):
    """Counted on the event loop, read by the thread that writes the page: a number that is one behind does no harm."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str, int], _Spans] = {}

    def note(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method, status)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Spans()
        tally.buckets[bisect_left(_BOUNDS, seconds)] += 1
        tally.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        counts = CounterMetricFamily(
            "windlass_api_requests_total", "Requests answered.", labels=("route", "method", "status")
        )
        spans = HistogramMetricFamily(
            "windlass_api_request_seconds",
            "From the head of the request to the end of the answer.",
            labels=("route", "method"),
        )
        together: defaultdict[tuple[str, str], _Spans] = defaultdict(_Spans)
        for (route, method, status), tally in list(self._tallies.items()):
            counts.add_metric((route, method, str(status)), sum(tally.buckets))
            whole = together[route, method]
            whole.seconds += tally.seconds
            whole.buckets = [one + more for one, more in zip(whole.buckets, tally.buckets, strict=True)]
        for labels, whole in together.items():
            spans.add_metric(labels, _cumulative(whole.buckets), whole.seconds)
        yield counts
        yield spans


def _cumulative(buckets: list[int]) -> list[tuple[str, float]]:
    """As Prometheus has them: each bound with all that took no longer."""
    names = (*map(str, _BOUNDS), "+Inf")
    return list(zip(names, accumulate(map(float, buckets)), strict=True))
