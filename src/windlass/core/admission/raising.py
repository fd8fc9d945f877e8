"""The command that raises a tenant's limits to what is missing and no further: told with a refusal, and as advice by `why`."""

from collections.abc import Iterable
from typing import Final

from windlass.core.errors import Excess
from windlass.core.model.amounts import money
from windlass.core.model.ids import TenantId
from windlass.core.model.tenant import SHARE

_OPTIONS: Final = {
    "quota-gpu": "--gpu",
    "quota-cpu": "--cpu",
    "quota-memory": "--memory",
    "quota-jobs": "--jobs",
    "quota-workers": "--workers",
    "queue-full": "--queued-max",
    "jobs-per-month": "--jobs-per-month",
    "cost-per-day": "--cost-per-day",
}
_ONE_UNIT: Final = 1_000_000
"""In micro-units."""
_BUDGET: Final = "budget-spent"
_MONEY: Final = (_BUDGET, "cost-per-day")


def wanted(one: Excess, *, factor: int = SHARE) -> int:
    """What the limit has to be. Of money twice what is spent, since that grows while it is discussed; if nothing is, one unit.

    `factor`: of the quota, in thousandths, that the refusal counted with.
    """
    if one.code in _MONEY:
        return 2 * one.used or _ONE_UNIT
    return -(-(one.used + one.asked) * SHARE // factor)


def raising(tenant: TenantId, over: Iterable[Excess], *, factor: int = SHARE) -> str:
    """To be typed as it stands."""
    limits = list(over)
    spent = next((one for one in limits if one.code == _BUDGET), None)
    if spent is not None:
        return f"windlass tenants budget {tenant} --per-month {money(wanted(spent))}"
    options = [f"{_OPTIONS[one.code]} {_written(one.code, wanted(one, factor=factor))}" for one in limits]
    return " ".join(("windlass tenants quota", tenant, *options))


def _written(code: str, value: int) -> str:
    if code == "quota-cpu":
        return f"{value}m"
    if code == "quota-memory":
        return f"{-(-value >> 20)}Mi"
    if code in _MONEY:
        return money(value)
    return str(value)
