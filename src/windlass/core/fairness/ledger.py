"""What each tenant has been given, as virtual time: work divided by weight. The queue serves the lowest tag first.

Start-time fair queueing. A placing starts at S = max(V, F) of its tenant and moves the tenant's finish tag to
F = S + work ÷ weight; virtual time V is the start of the newest placing, less what a deadline let it start early. The end of the
run corrects F by what was charged too much or too little. Integers only: work in nano-units of money, virtual time in nano-units
of a single share. The README beside this file has the picture and the bound.
"""

from functools import lru_cache
from typing import Final

from windlass.core.fairness.account import Account, Virtual, Work
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.money import LIST_PRICES
from windlass.core.model.resources import Resources
from windlass.core.model.tenant import SHARE, WEIGHT_LEAST

LEAST_MS: Final = Millis(100)
"""No run counts for less: to pull, create and remove takes the node's time as well, and free runs would starve the others."""
_UNITS: Final = 1_000_000_000 * 3_600_000
"""A rate is in nano-units for so many milliseconds: the unit in which every list price of a resource is a whole number."""


NEW_ACCOUNT: Final = Account()


def work_of(needs: Resources, span: Millis) -> Work:
    """The list price of holding `needs` for `span`; never nothing."""
    return _rate(needs) * (span if span > LEAST_MS else LEAST_MS) // _UNITS or 1


def virtual(work: Work, weight: int) -> Virtual:
    return work * SHARE // weight or 1


def charge(
    account: Account, now: Virtual, work: Work, weight: int, *, others: Work, is_last: bool, early: Virtual = 0
) -> Account:
    """A run was placed at virtual time `now`. `is_last`: nothing of the tenant waits any more, so nothing is owed to it.

    `others`: what all other tenants were charged so far. `early` is how far a deadline let it go ahead of its tag: that much of
    its start is not yet the present of the others.
    """
    start, mark = account.finish, account.mark
    if start < now:
        start, mark = now, others  # out of silence
    elif is_last:
        mark = others
    span = work * SHARE // weight or 1
    owed = account.owed
    if owed:
        paid = owed if owed < span else span
        owed = 0 if is_last else owed - paid
        span -= paid
    seen = start - early if early else start
    return Account(start + span, seen if seen > now else now, owed, account.work + work, mark)


def true_up(
    account: Account, now: Virtual, charged: Work, used: Work, weight: int, *, others: Work, is_waiting: bool
) -> Account:
    """The run has ended: F moves by the difference, at the weight it was charged with.

    Back only as far as V: what lies beyond was time in which others were served, and is owed to a tenant that still waits. Owed is
    at most what they were given since it began to wait, counted as if by the lightest of them: V may have been driven ahead by the
    tenant's own charges, while it was alone, and nobody is to wait for that.
    """
    span = (charged * SHARE // weight or 1) if charged else 0
    over = span - (used * SHARE // weight or 1)
    finish, owed, work = account.finish, account.owed, account.work + used - charged
    if over <= 0:
        paid = owed if owed < -over else -over
        return Account(finish - over - paid, account.seen, owed - paid, work, account.mark)
    back = finish - now if finish > now else 0
    if back > over:
        back = over
    if not is_waiting:
        owed = 0
    elif over > back:
        given = max(0, others - account.mark) * SHARE // WEIGHT_LEAST
        owed = max(owed, min(owed + over - back, given))
    return Account(finish - back, account.seen, owed, work, account.mark)


class Ledger:
    """The accounts, V, and all work: functions of them alone, also after an undo has put older ones back."""

    def __init__(self) -> None:
        self._accounts: dict[TenantId, Account] = {}
        self.work: Work = 0
        """Of all of them."""
        self._now: Virtual | None = 0
        """None: an undo took back the account that held it; whoever asks next looks through all of them, once."""

    def __len__(self) -> int:
        return len(self._accounts)

    def account(self, tenant: TenantId) -> Account:
        return self._accounts.get(tenant, NEW_ACCOUNT)

    def accounts(self) -> dict[TenantId, Account]:
        return dict(self._accounts)

    def now(self) -> Virtual:
        """V: the start of the newest placing."""
        if self._now is None:
            self._now = max((account.seen for account in self._accounts.values()), default=0)
        return self._now

    def replace(self, tenant: TenantId, new: Account | None) -> Account | None:
        old = self._accounts.get(tenant)
        if new is None:
            self._accounts.pop(tenant, None)
            seen = 0
        else:
            self._accounts[tenant] = new
            seen = new.seen
            self.work += new.work
        if old is not None:
            self.work -= old.work
        now = self._now
        if now is not None:
            if seen > now:
                self._now = seen
            elif old is not None and seen < now and old.seen == now:
                self._now = None
        return old


@lru_cache(maxsize=1 << 16)
def _rate(needs: Resources) -> int:
    """Its list price; few different needs are asked for, and each of them often."""
    cpu = needs.cpu_millis * LIST_PRICES.core_hour * 1_000_000
    memory = needs.memory_bytes * LIST_PRICES.gigabyte_hour
    gpu = needs.gpus * LIST_PRICES.gpu_hour * 1_000_000_000
    return (cpu + memory + gpu) * 1000
