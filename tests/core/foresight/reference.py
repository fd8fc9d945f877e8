"""The brute-force reference: first come first served, and weighted fair queueing, over lists, in quadratic time.

Written from the fair queue's README and nothing else of the product: no heap, no lanes, no records. Who is next is found by
looking at everyone who waits.
"""

from dataclasses import dataclass, field
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
    wishes: list[Wish], nodes: list[tuple[int, int]], weights: dict[str, int], *, is_fair: bool
) -> list[tuple[int, int]]:
    """(wish, moment it began), in the order of the placings. `nodes` are (cores, GiB)."""
    tenants = {wish.tenant: Standing(weight=weights.get(wish.tenant, 1000)) for wish in wishes}
    free = [list(node) for node in nodes]
    waiting: list[int] = []
    running: list[Running] = []
    begun: list[tuple[int, int]] = []
    virtual_now = 0
    promise: tuple[int, int] | None = None
    coming = sorted(range(len(wishes)), key=lambda at: (wishes[at].at, at))
    while coming or running:
        now = min([wishes[coming[0]].at] if coming else [], default=None)
        now = min([moment for moment in (now, *(run.ends for run in running)) if moment is not None])
        for run in [run for run in running if run.ends == now]:
            running.remove(run)
            wish = wishes[run.wish]
            free[run.node][0] += wish.cores
            free[run.node][1] += wish.gib
            waits = any(wishes[w].tenant == wish.tenant for w in waiting)
            _settle(tenants[wish.tenant], wish, run, virtual_now, waits, _others(tenants, wish.tenant))
        while coming and wishes[coming[0]].at == now:
            waiting.append(coming.pop(0))
        blocked: set[tuple[int, int]] = set()
        yielding: set[tuple[int, int]] = set()

        def turn(w: int) -> tuple[int, int, int]:
            return (tenants[wishes[w].tenant].finish if is_fair else 0, -wishes[w].priority, w)

        def first_of(shapes: set[tuple[int, int]]) -> int | None:
            return min((w for w in waiting if (wishes[w].cores, wishes[w].gib) in shapes), key=turn, default=None)

        while True:
            candidates = [w for w in waiting if (wishes[w].cores, wishes[w].gib) not in blocked | yielding]
            first = first_of(blocked | yielding)
            if not candidates:
                if not yielding or first is None or (promise is not None and promise[0] == first):
                    break
                shape = (wishes[first].cores, wishes[first].gib)
                if shape in yielding:
                    yielding.discard(shape)
                elif promise is None or promise[0] not in waiting:
                    promise, yielding = None, set()
                elif (wishes[promise[0]].cores, wishes[promise[0]].gib) == shape:
                    promise = (first, promise[1])
                else:
                    promise, yielding = (first, promise[1]), set()
                continue
            chosen = min(candidates, key=turn)
            wish = wishes[chosen]
            node = _fullest(free, wish)
            if node is None:
                blocked.add((wish.cores, wish.gib))
                continue
            if first is not None and turn(first) < turn(chosen):
                shape = (wishes[first].cores, wishes[first].gib)
                if shape in yielding:
                    yielding.discard(shape)
                    continue
                if promise is not None and promise[0] != first:
                    if promise[0] not in waiting:
                        promise, yielding = None, set()
                        continue
                    had = (wishes[promise[0]].cores, wishes[promise[0]].gib)
                    promise = (first, promise[1])
                    if had != shape:
                        yielding = set()
                        continue
                offers = [_opening(wishes, first, at, free[at], running, now) for at in range(len(nodes))]
                if promise is None:
                    promise = (first, min(offers)[-1])
                _, _, spare_cores, spare_gib, _ = offers[promise[1]]
                if node == promise[1] and (wish.cores > -spare_cores or wish.gib > -spare_gib):
                    node = _fullest(free, wish, besides=promise[1])
                    if node is None:
                        yielding.add((wish.cores, wish.gib))
                        continue
            waiting.remove(chosen)
            free[node][0] -= wish.cores
            free[node][1] -= wish.gib
            charged = _expected_work(tenants[wish.tenant], wish)
            running.append(Running(chosen, node, now, now + wish.ran, charged))
            is_last = not any(wishes[w].tenant == wish.tenant for w in waiting)
            others = _others(tenants, wish.tenant)
            virtual_now = max(virtual_now, _charge(tenants[wish.tenant], charged, virtual_now, is_last, others))
            begun.append((chosen, now))
    return begun


def _opening(
    wishes: list[Wish], first: int, node: int, free: list[int], running: list[Running], now: int
) -> tuple[bool, int, int, int, int]:
    """When the node could take it by what its runs announced, and what is then left, most first: (unknown, start, cores, GiB)."""
    announced = [
        (run.began + expected, run)
        for run in running
        if run.node == node and (expected := wishes[run.wish].expected) is not None and run.began + expected > now
    ]
    for at in sorted({at for at, _ in announced}):
        ended = [wishes[run.wish] for end, run in announced if end <= at]
        cores, gib = free[0] + sum(wish.cores for wish in ended), free[1] + sum(wish.gib for wish in ended)
        if wishes[first].cores <= cores and wishes[first].gib <= gib:
            return (False, at, wishes[first].cores - cores, wishes[first].gib - gib, node)
    return (True, 0, min(0, wishes[first].cores - free[0]), min(0, wishes[first].gib - free[1]), node)


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
