"""Requests are counted by hand, and say what Prometheus's own counter and histogram would."""

import random

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from windlass.observe.answered import Answered

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def test_what_is_counted_by_hand_reads_like_the_clients_own() -> None:
    chance = random.Random(7)
    ours, theirs = Answered(), CollectorRegistry()
    requests = Counter("windlass_api_requests", "Requests answered.", ("route", "method", "status"), registry=theirs)
    seconds = Histogram(
        "windlass_api_request_seconds",
        "From the head of the request to the end of the answer.",
        ("route", "method"),
        buckets=BOUNDS,
        registry=theirs,
    )
    for _ in range(500):
        route, method, status = chance.choice(("/a", "/b")), chance.choice(("GET", "POST")), chance.choice((200, 404))
        took = chance.choice((*BOUNDS, chance.expovariate(1), 1000.0))
        ours.note(route, method, status, took)
        requests.labels(route, method, str(status)).inc()
        seconds.labels(route, method).observe(took)

    registry = CollectorRegistry()
    registry.register(ours)
    assert samples(registry) == samples(theirs)


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Without the moments at which the client says its series began; sums to the microsecond."""
    lines = [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]
    told = {line.rsplit(" ", 1)[0]: line.rsplit(" ", 1)[1] for line in lines if not line.startswith("#")}
    return {name: round(float(value), 6) for name, value in told.items()}
