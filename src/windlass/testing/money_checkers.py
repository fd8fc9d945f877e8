"""More checkers, on quota and money: what a tenant held at every commit, and that every run is in the ledger exactly once."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import convert

from windlass.core.admission.quota import fits
from windlass.core.model.burst import BurstSession
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.run import Run
from windlass.core.model.spending import DayTotal
from windlass.core.model.tenant import SHARE, Quota, Tenant
from windlass.core.world.records import RunOver, VolumeStored

Line = Mapping[str, Any]


def check_money(lines: Sequence[Line]) -> list[str]:
    """Of an installation whose quotas nobody changed."""
    store = [line for line in lines if line["kind"] == "store"]
    found = [f"quota_held: {wrong}" for wrong in quota_held(store)]
    return found + [f"cost_once: {wrong}" for wrong in cost_once(store)]


def quota_held(store: Sequence[Line]) -> Iterator[str]:
    """After every commit: what runs within the quota fits in it, and what runs at all fits in what burst makes of it."""
    tenants: dict[str, Tenant] = {}
    sessions: dict[str, int] = {}
    held: dict[str, Run] = {}
    for line, following in zip(store, (*store[1:], None), strict=True):
        key, value = line["key"], line["value"]
        if line["table"] == "tenants" and value:
            tenants[key] = convert(value, Tenant)
        elif line["table"] == "bursts" and value:
            session = convert(value, BurstSession)
            sessions[session.tenant] = max(sessions.get(session.tenant, SHARE), session.factor)
        elif line["table"] == "runs":
            run = convert(value, Run) if value else None
            if run is None or run.is_over:
                held.pop(key, None)
            else:
                held[key] = run
        if following is None or following["revision"] != line["revision"]:
            yield from _exceeded(tenants, sessions, list(held.values()), line["revision"])


def cost_once(store: Sequence[Line]) -> Iterator[str]:
    """One record per run, whose parts sum to it, and per volume; and the totals of the days are the sums of these."""
    charged: Counter[tuple[str, str, int]] = Counter()
    totals: dict[str, DayTotal] = {}
    seen: set[str] = set()
    for line in store:
        key, value = line["key"], line["value"]
        if line["table"] == "totals" and value:
            totals[key] = convert(value, DayTotal)
        if line["table"] != "outbox" or not value or value["type"] not in ("run-over", "volume-stored"):
            continue
        if key in seen:
            yield f"{key} went into the ledger twice"
        seen.add(key)
        if value["type"] == "volume-stored":
            stored = convert(value, VolumeStored)
            for part in stored.segments:
                charged[stored.volume.tenant, stored.volume.pool, part.day] += part.cost
            continue
        over = convert(value, RunOver)
        span = sum(part.span_ms for part in over.segments)
        if over.segments and span != over.run.ran_ms:
            yield f"run {key} ran {over.run.ran_ms} ms and is charged for {span}"
        for part in over.segments:
            charged[over.run.tenant, over.run.pool, part.day] += part.cost
    kept: Counter[tuple[str, str, int]] = Counter(
        {(one.tenant, pool, one.day): sums.cost for one in totals.values() for pool, sums in one.pools.items()}
    )
    for where in {*charged, *kept}:
        if charged[where] != kept[where]:
            yield f"{where}: the total is {kept[where]}, its runs and volumes sum to {charged[where]}"


def _exceeded(
    tenants: Mapping[str, Tenant], sessions: Mapping[str, int], held: Sequence[Run], revision: int
) -> Iterator[str]:
    mine: dict[str, list[Run]] = defaultdict(list)
    for run in held:
        mine[run.tenant].append(run)
    for tenant, runs in mine.items():
        quota = tenants[tenant].quota
        if not _all_fit([run for run in runs if not run.burst], quota, SHARE):
            yield f"{tenant} holds more than its quota at revision {revision}"
        if not _all_fit(runs, quota, sessions.get(tenant, SHARE)):
            yield f"{tenant} holds more than its burst allows at revision {revision}"


def _all_fit(runs: Sequence[Run], quota: Quota, factor: int) -> bool:
    if not runs:
        return True
    *others, last = runs
    held: Resources = NOTHING
    for run in others:
        held = held + run.needs
    return fits(quota, last.needs, held=held, jobs=len(others), factor=factor)
