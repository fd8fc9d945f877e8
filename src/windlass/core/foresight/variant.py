"""One way to run a trace: an order of service, and what is changed about tenants, pools and nodes. Written in one line.

fifo
wfq weight.acme=3 quota.beta.cpu=16 quota.*.jobs=10
bigger=deadlines pool.gpu=12 lose=gpu:2@4h+30m
"""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from windlass.core.errors import Fault, Invalid
from windlass.core.foresight.trace import BYTES
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.resources import Resources

EVERYONE: Final = TenantId("*")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", re.ASCII)
_WEIGHT: Final = re.compile(r"(\d{1,2})(?:\.(\d{1,3}))?", re.ASCII)
_COUNT: Final = re.compile(r"\d{1,9}", re.ASCII)
_MEMORY: Final = re.compile(r"(\d{1,9})(Mi|Gi|Ti)", re.ASCII)
_SPAN: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d)", re.ASCII)
_LOSS: Final = re.compile(r"(?:([^:@+]+):)?(\d{1,6})@(\w+)(?:\+(\w+))?", re.ASCII)
_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_REPEATED: Final = "lose"
"""There may be several of them; anything else is said once."""
_WEIGHT_LEAST, _WEIGHT_MOST = 500, 10_000


class Order(StrEnum):
    FIFO = "fifo"
    """By priority, then first come, first served; whoever fits nowhere is passed over."""
    WFQ = "wfq"
    """By weight: whoever was given least is next. Deadlines are not told to the scheduler."""
    DEADLINES = "deadlines"
    """By weight, and jobs that are about to be late are brought forward, as far as the cap lets them."""


class Limit(Struct, frozen=True, kw_only=True):
    """What one tenant may hold at once; None: no limit of its own."""

    cpu_millis: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    jobs: int | None = None


class Loss(Struct, frozen=True, kw_only=True):
    """Nodes that are gone from a moment on, with all that runs on them."""

    pool: PoolId | None
    nodes: int
    at: Millis
    lasts: Millis | None = None
    """None: they never come back."""


class Variant(Struct, frozen=True, kw_only=True):
    name: str
    order: Order = Order.WFQ
    weights: tuple[tuple[TenantId, int], ...] = ()
    """In thousandths; the last that names a tenant counts."""
    limits: tuple[tuple[TenantId, Limit], ...] = ()
    pools: tuple[tuple[PoolId, int], ...] = ()
    """How many nodes a pool has here."""
    losses: tuple[Loss, ...] = ()
    is_backfilling: bool = True
    """Room is kept for the first that found no place, and only what cannot delay it may pass."""

    def weight(self, tenant: TenantId) -> int:
        given = [weight for who, weight in self.weights if who in (tenant, EVERYONE)]
        return given[-1] if given else 1000

    def limit(self, tenant: TenantId) -> Limit:
        merged: dict[str, int | None] = {}
        for who, limit in self.limits:
            if who in (tenant, EVERYONE):
                merged |= {name: value for name, value in asdict(limit).items() if value is not None}
        return Limit(**merged)


PLAIN: Final = tuple(Variant(name=order.value, order=order) for order in Order)
"""The orders side by side, nothing else changed."""


def parse_variant(text: str) -> Variant:
    """Invalid with every word that is wrong."""
    words = text.split()
    variant = _first_word(words[0] if words else "")
    faults: list[Fault] = []
    given: set[str] = set()
    for word in words[1:]:
        setting = word.partition("=")[0]
        if setting in given:
            faults.append(Fault(word, f"{setting} is given twice"))
        if setting != _REPEATED:
            given.add(setting)
        try:
            variant = _changed(variant, word)
        except ValueError as problem:
            faults.append(Fault(word, str(problem)))
    if faults:
        raise Invalid(
            f"the variant {variant.name!r} cannot be meant so",
            code="variant",
            faults=faults,
            hint="for example: --variant 'wfq weight.acme=3 quota.beta.cpu=16 pool.gpu=4 lose=2@4h+30m'",
        )
    return variant


def _first_word(word: str) -> Variant:
    name, equals, order = word.partition("=")
    order = order if equals else name
    if order not in list(Order) or _NAME.fullmatch(name) is None:
        raise Invalid(
            f"{word!r} names no order of service",
            code="variant",
            faults=[Fault("--variant", f"begins with one of {', '.join(Order)}, or with NAME=ORDER")],
        )
    return Variant(name=name, order=Order(order))


def _changed(variant: Variant, word: str) -> Variant:
    setting, equals, value = word.partition("=")
    kind, _, rest = setting.partition(".")
    change = _SETTINGS.get(kind)
    if change is None or not equals:
        raise ValueError(f"expected one of {', '.join(f'{name}…=' for name in _SETTINGS)}")
    return change(variant, rest, value)


def _weigh(variant: Variant, tenant: str, value: str) -> Variant:
    matched = _WEIGHT.fullmatch(value)
    weight = int(matched[1]) * 1000 + int((matched[2] or "").ljust(3, "0")) if matched else 0
    if not tenant or not _WEIGHT_LEAST <= weight <= _WEIGHT_MOST:
        raise ValueError("expected weight.TENANT=NUMBER, from 0.5 to 10")
    return replace(variant, weights=(*variant.weights, (TenantId(tenant), weight)))


def _limit(variant: Variant, rest: str, value: str) -> Variant:
    tenant, _, what = rest.rpartition(".")
    number = _memory(value) if what == "memory" else _count(value)
    fields = {"cpu": "cpu_millis", "memory": "memory_bytes", "gpu": "gpus", "jobs": "jobs"}
    if not tenant or what not in fields or number is None:
        raise ValueError("expected quota.TENANT.cpu=16, .memory=64Gi, .gpu=2 or .jobs=10")
    limit = Limit(**{fields[what]: number * 1000 if what == "cpu" else number})
    return replace(variant, limits=(*variant.limits, (TenantId(tenant), limit)))


def _size(variant: Variant, pool: str, value: str) -> Variant:
    nodes = _count(value)
    if not pool or nodes is None:
        raise ValueError("expected pool.NAME=NODES")
    return replace(variant, pools=(*variant.pools, (PoolId(pool), nodes)))


def _lose(variant: Variant, rest: str, value: str) -> Variant:
    matched = _LOSS.fullmatch(value)
    at = span_of(matched[3]) if matched else None
    lasts = span_of(matched[4]) if matched and matched[4] else None
    if rest or matched is None or at is None or (matched[4] and lasts is None) or not int(matched[2]):
        raise ValueError("expected lose=[POOL:]NODES@WHEN[+HOW-LONG], as in lose=4@2h+30m")
    pool = PoolId(matched[1]) if matched[1] else None
    loss = Loss(pool=pool, nodes=int(matched[2]), at=at, lasts=lasts)
    return replace(variant, losses=(*variant.losses, loss))


def _backfill(variant: Variant, rest: str, value: str) -> Variant:
    if rest or value not in ("on", "off"):
        raise ValueError("expected backfill=on or backfill=off")
    return replace(variant, is_backfilling=value == "on")


_SETTINGS: Final[dict[str, Callable[[Variant, str, str], Variant]]] = {
    "weight": _weigh,
    "quota": _limit,
    "pool": _size,
    "lose": _lose,
    "backfill": _backfill,
}


def span_of(text: str) -> Millis | None:
    """`90s`, `10m`, `2h`, `1d` in milliseconds; None for anything else."""
    matched = _SPAN.fullmatch(text)
    return Millis(int(matched[1]) * _MS[matched[2]]) if matched else None


def resources_of(limit: Limit) -> Resources | None:
    """As the World's quota has it: all or nothing, so what is not limited is more than anyone has."""
    if limit.cpu_millis is None and limit.memory_bytes is None and limit.gpus is None:
        return None
    most = 1 << 60
    return Resources(
        cpu_millis=most if limit.cpu_millis is None else limit.cpu_millis,
        memory_bytes=most if limit.memory_bytes is None else limit.memory_bytes,
        gpus=most if limit.gpus is None else limit.gpus,
    )


def _count(text: str) -> int | None:
    return int(text) if _COUNT.fullmatch(text) else None


def _memory(text: str) -> int | None:
    matched = _MEMORY.fullmatch(text)
    return int(matched[1]) * BYTES[matched[2]] if matched else None
