"""The brute-force reference: first come first served, weighted fair queueing, without and with deadlines, over lists, in quadratic
time; and the figures of what it did, each by its definition.

Written from the fair queue's README and nothing else of the product: no heap, no lanes, no records. Who is next is found by
looking at everyone who waits.

Of backfill it has the rule and no more. *Stuck* are those that no node has room for now; the first of them, by the order, is whom
others must not delay. When somebody who comes after it would fit, it has a promise: the node of the promise there was, if
whoever had that still waits, else the one where it could start soonest. A promise is looked at only then: while nobody would
pass there is nothing to keep free, so it neither begins nor changes hands. What is left beside the promised start is found out
anew each time; the moment an announced end has passed is one at which everybody is asked.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median_high

HOUR = 3_600_000
CORE_HOUR, GIGABYTE_HOUR = 50_000_000, 10_000_000
"""List prices in nano-units."""


@dataclass
class Wish:
    at: int
    tenant: str
    cores: int
    gib: int
    ran: int
    expected: int | None
    priority: int
    due: int | None = None


@dataclass
class Standing:
    weight: int = 1000
    finish: int = 0
    owed: int = 0
    work: int = 0
    mark: int = 0
    """What the others had been charged when it began to wait."""
    spans: dict[tuple[int, int], list[int]] = field(default_factory=dict)


@dataclass
class Running:
    wish: int
    node: int
    began: int
    ends: int
    charged: int


def serve(
    wishes: list[Wish],
    nodes: list[tuple[int, int]],
    weights: dict[str, int],
    *,
    is_fair: bool,
    has_deadlines: bool = False,
    is_backfilling: bool = True,
) -> list[tuple[int, int]]:
    """(wish, moment it began), in the order of the placings. `nodes` are (cores, GiB)."""
    tenants = {wish.tenant: Standing(weight=weights.get(wish.tenant, 1000)) for wish in wishes}
    free = [list(node) for node in nodes]
    waiting: list[int] = []
    running: list[Running] = []
    begun: list[tuple[int, int]] = []
    virtual_now = 0
    now = -1
    lead = _lead(nodes, [standing.weight for standing in tenants.values()])
    leads = (0, lead // 2, lead)
    promise: tuple[int, int] | None = None  # to which wish, of which node
    coming = sorted(range(len(wishes)), key=lambda at: (wishes[at].at, at))
    while coming or running:
        moments = [wishes[coming[0]].at] if coming else []
        moments += [run.ends for run in running]
        moments += [end for run in running if (end := _announced(wishes, run)) is not None and end > now]
        if has_deadlines:
            moments += [at for w in waiting for at in _urgent_from(wishes[w]) if at > now]
        now = min(moments)
        for run in [run for run in running if run.ends == now]:
            running.remove(run)
            wish = wishes[run.wish]
            free[run.node][0] += wish.cores
            free[run.node][1] += wish.gib
            waits = any(wishes[w].tenant == wish.tenant for w in waiting)
            _settle(tenants[wish.tenant], wish, run, virtual_now, waits, _others(tenants, wish.tenant))
        while coming and wishes[coming[0]].at == now:
            waiting.append(coming.pop(0))
        levels = {w: _level(wishes[w], now) if has_deadlines else 0 for w in waiting}

        def turn(w: int, levels: dict[int, int] = levels) -> tuple[int, int, int, int]:
            wish, level = wishes[w], levels[w]
            tag = tenants[wish.tenant].finish - leads[level] if is_fair else 0
            return (tag, -level, wish.at + (wish.due or 0) if level else -wish.priority, w)

        while True:
            stuck = {w for w in waiting if _fullest(free, wishes[w]) is None}
            first = min(stuck, key=turn, default=None)
            for chosen in sorted(set(waiting) - stuck, key=turn):
                node = _fullest(free, wishes[chosen])
                if is_backfilling and first is not None and turn(first) < turn(chosen):
                    has = promise[1] if promise is not None and promise[0] in waiting else None
                    offers = [_opening(wishes, first, at, free[at], running, now) for at in range(len(nodes))]
                    promise = (first, min(offers)[-1] if has is None else has)
                    node = _passing(free, wishes[chosen], offers[promise[1]])
                if node is not None:
                    break
            else:
                break
            wish = wishes[chosen]
            waiting.remove(chosen)
            free[node][0] -= wish.cores
            free[node][1] -= wish.gib
            charged = _expected_work(tenants[wish.tenant], wish)
            running.append(Running(chosen, node, now, now + wish.ran, charged))
            is_last = not any(wishes[w].tenant == wish.tenant for w in waiting)
            others = _others(tenants, wish.tenant)
            start = _charge(tenants[wish.tenant], charged, virtual_now, is_last, others)
            virtual_now = max(virtual_now, start - leads[levels[chosen]])
            begun.append((chosen, now))
    return begun


def _urgent_from(wish: Wish) -> list[int]:
    """When it is at risk, critical, missed."""
    if wish.due is None:
        return []
    return [wish.at + wish.due - wish.due * (1000 - part) // 1000 for part in (700, 900, 1000)]


def _level(wish: Wish, now: int) -> int:
    """What is missed stays critical."""
    return min(2, sum(at <= now for at in _urgent_from(wish)))


def _lead(nodes: list[tuple[int, int]], weights: list[int]) -> int:
    """A tenth of what all nodes give in an hour, divided by all weights."""
    rates = [cores * 1_000_000_000 * CORE_HOUR + (gib << 30) * GIGABYTE_HOUR for cores, gib in nodes]
    return (sum(rates) * HOUR // (1_000_000_000 * HOUR)) * 100 // max(sum(weights), 1000)


def _opening(
    wishes: list[Wish], first: int, node: int, free: list[int], running: list[Running], now: int
) -> tuple[bool, int, int, int, int]:
    """When the node could take it by what its runs announced, and what is then left, most first: (unknown, start, cores, GiB)."""
    announced = [
        (end, run) for run in running if run.node == node and (end := _announced(wishes, run)) is not None and end > now
    ]
    for at in sorted({at for at, _ in announced}):
        ended = [wishes[run.wish] for end, run in announced if end <= at]
        cores, gib = free[0] + sum(wish.cores for wish in ended), free[1] + sum(wish.gib for wish in ended)
        if wishes[first].cores <= cores and wishes[first].gib <= gib:
            return (False, at, wishes[first].cores - cores, wishes[first].gib - gib, node)
    return (True, 0, min(0, wishes[first].cores - free[0]), min(0, wishes[first].gib - free[1]), node)


def _announced(wishes: list[Wish], run: Running) -> int | None:
    expected = wishes[run.wish].expected
    return run.began + expected if expected is not None else None


def _passing(free: list[list[int]], wish: Wish, offer: tuple[bool, int, int, int, int]) -> int | None:
    """Where it delays nobody: on the fullest node, unless that is the promised one and it needs more than is then left."""
    _, _, spare_cores, spare_gib, promised = offer
    node = _fullest(free, wish)
    if node == promised and (wish.cores > -spare_cores or wish.gib > -spare_gib):
        return _fullest(free, wish, besides=promised)
    return node


def _fullest(free: list[list[int]], wish: Wish, besides: int | None = None) -> int | None:
    fits = [at for at, (cores, gib) in enumerate(free) if wish.cores <= cores and wish.gib <= gib and at != besides]
    return min(fits, key=lambda at: (free[at][0], free[at][1], at), default=None)


def _work(wish: Wish, span: int) -> int:
    span = max(span, 100)
    rate = wish.cores * 1_000_000_000 * CORE_HOUR + (wish.gib << 30) * GIGABYTE_HOUR
    return rate * span // (1_000_000_000 * HOUR) or 1


def _expected_work(standing: Standing, wish: Wish) -> int:
    newest = standing.spans.get((wish.cores, wish.gib), [])[-15:]
    usual = median_high(newest) if newest else 60_000
    return _work(wish, wish.expected if wish.expected is not None else usual)


def _others(tenants: dict[str, Standing], tenant: str) -> int:
    return sum(standing.work for name, standing in tenants.items() if name != tenant)


def _charge(standing: Standing, work: int, virtual_now: int, is_last: bool, others: int) -> int:
    if is_last or standing.finish < virtual_now:
        standing.mark = others
    standing.work += work
    start = max(standing.finish, virtual_now)
    span = work * 1000 // standing.weight or 1
    paid = min(standing.owed, span)
    standing.finish = start + span - paid
    standing.owed = 0 if is_last else standing.owed - paid
    return start


def _settle(standing: Standing, wish: Wish, run: Running, virtual_now: int, waits: bool, others: int) -> None:
    standing.spans.setdefault((wish.cores, wish.gib), []).append(wish.ran)
    used = _work(wish, wish.ran)
    if used == run.charged:
        return
    standing.work += used - run.charged
    over = (run.charged * 1000 // standing.weight or 1) - (used * 1000 // standing.weight or 1)
    if over <= 0:
        paid = min(standing.owed, -over)
        standing.finish += -over - paid
        standing.owed -= paid
        return
    back = min(over, max(0, standing.finish - virtual_now))
    owed = max(standing.owed, min(standing.owed + over - back, max(0, others - standing.mark) * 2))
    standing.finish -= back
    standing.owed = owed if waits else 0


# — what it came to —


@dataclass
class Measured:
    waits: tuple[int, int, int]
    """Of a hundred jobs so many waited no longer: 50, 95, 99."""
    utilisation: float
    jain: float | None
    missed: int
    cost: int


def figures(
    wishes: list[Wish], begun: list[tuple[int, int]], nodes: list[tuple[int, int]], weights: dict[str, int]
) -> Measured:
    """Of one in which every wish was served, once."""
    began = dict(begun)
    waits = [began[w] - wish.at for w, wish in enumerate(wishes)]
    end = max(began[w] + wish.ran for w, wish in enumerate(wishes))
    used = sum(wish.cores * wish.ran for wish in wishes)
    return Measured(
        waits=(_no_longer(waits, 50), _no_longer(waits, 95), _no_longer(waits, 99)),
        utilisation=round(used / (sum(cores for cores, _ in nodes) * end), 4),
        jain=_fairness(wishes, began, end, weights),
        missed=sum(wish.due is not None and wait > wish.due for wish, wait in zip(wishes, waits, strict=True)),
        cost=sum(_micros(wish, wish.ran) for wish in wishes),
    )


def _no_longer(waits: list[int], percent: int) -> int:
    return min(wait for wait in waits if sum(one <= wait for one in waits) * 100 >= percent * len(waits))


def _fairness(wishes: list[Wish], began: dict[int, int], end: int, weights: dict[str, int]) -> float | None:
    """Jain's index in each hundredth of the time, over those who wait all through it; the mean, by how many they are."""
    found: list[tuple[float, int]] = []
    for part in range(100):
        since, to = Fraction(part * end, 100), Fraction((part + 1) * end, 100)
        shares = [
            _given(wishes, began, tenant, part * end // 100, (part + 1) * end // 100) / weights[tenant]
            for tenant in sorted({wish.tenant for wish in wishes})
            if _waits_through(wishes, began, tenant, since, to)
        ]
        if len(shares) > 1:
            squares = sum(share**2 for share in shares)
            found.append((sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0, len(shares)))
    return round(sum(one * size for one, size in found) / sum(size for _, size in found), 4) if found else None


def _waits_through(wishes: list[Wish], began: dict[int, int], tenant: str, since: Fraction, to: Fraction) -> bool:
    at: Fraction | int = since
    while at < to:
        reach = [began[w] for w, wish in enumerate(wishes) if wish.tenant == tenant and wish.at <= at < began[w]]
        if not reach:
            return False
        at = max(reach)
    return True


def _given(wishes: list[Wish], began: dict[int, int], tenant: str, since: int, to: int) -> int:
    """Price an hour × the time it was held in there."""
    return sum(
        _micros(wish, HOUR) * max(0, min(to, began[w] + wish.ran) - max(since, began[w]))
        for w, wish in enumerate(wishes)
        if wish.tenant == tenant
    )


def _micros(wish: Wish, span: int) -> int:
    cores = wish.cores * span * CORE_HOUR // (1000 * HOUR)
    return cores + (wish.gib << 30) * span * GIGABYTE_HOUR // (1000 * 1_000_000_000 * HOUR)
