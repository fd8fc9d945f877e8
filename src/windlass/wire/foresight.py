"""The answers of `why` and `plan` as documents. Moments are wall time, money is micro-units, spans are seconds."""

from collections.abc import Callable
from typing import Any

from windlass.core.foresight.gate import Gate
from windlass.core.foresight.plan import Plan, Planned
from windlass.core.foresight.why import Estimate, Why
from windlass.core.model.ids import Millis
from windlass.wire.render import timestamp

Wall = Callable[[Millis], float]


def why_document(answer: Why, *, wall: Wall, is_admin: bool) -> dict[str, Any]:
    """What only an admin can do is told to everyone, and marked: who cannot do it knows whom to ask."""
    return {
        "job": answer.job,
        "name": answer.name,
        "state": answer.state,
        "says": answer.says,
        "gate": answer.gate,
        "gates": [_gate(gate, wall, is_held=gate.name == answer.gate) for gate in answer.gates],
        "ahead": {
            "own": answer.ahead.own,
            "names": list(answer.ahead.own_names),
            "others": answer.ahead.others,
            "complete": answer.ahead.is_complete,
        },
        "start": _estimate(answer.start, wall),
        "advice": [
            {
                "does": one.does,
                "says": one.says,
                "command": one.command,
                "byAdmin": one.is_admins,
                "values": dict(one.values),
            }
            for one in sorted(answer.advice, key=lambda one: one.is_admins and not is_admin)
        ],
    }


def plan_document(answer: Plan, *, wall: Wall) -> dict[str, Any]:
    return {
        "items": [_planned(one, wall) for one in answer.items],
        "delays": {
            "own": [{"name": one.name, "seconds": one.by_ms / 1000} for one in answer.delayed],
            "others": answer.delayed_others,
            "othersSeconds": answer.delayed_others_by_ms / 1000,
        },
        "complete": answer.is_complete,
    }


def _gate(gate: Gate, wall: Wall, *, is_held: bool) -> dict[str, Any]:
    return {
        "name": gate.name,
        "open": gate.is_open,
        "holds": is_held,
        "says": gate.says,
        "numbers": dict(gate.numbers),
        "opensAt": timestamp(wall(gate.opens_at)) if gate.opens_at is not None else None,
    }


def _estimate(start: Estimate | None, wall: Wall) -> dict[str, Any] | None:
    if start is None:
        return None
    return {
        "at": timestamp(wall(start.at)),
        "node": start.node or None,
        "growing": start.growing or None,
        "noEarlierThan": start.is_bound,
    }


def _planned(one: Planned, wall: Wall) -> dict[str, Any]:
    refusal = one.refusal
    return {
        "name": one.name,
        "accepted": refusal is None,
        "unchanged": one.is_unchanged,
        "suspended": one.is_suspended,
        "refusal": None
        if refusal is None
        else {
            "code": refusal.code,
            "detail": refusal.message,
            "hint": refusal.hint or None,
            "faults": [{"field": fault.field, "message": fault.message} for fault in refusal.faults],
        },
        "start": _estimate(one.start, wall),
        "startsNow": one.starts_now,
        "growing": one.growing,
        "turn": one.turn,
        "expectedSeconds": one.expected_ms / 1000,
        "price": one.price_micros,
        "pricePerHour": one.price_per_hour_micros,
        "inBurst": one.in_burst,
        "stoppedForCost": one.is_stopped_for_cost,
    }
