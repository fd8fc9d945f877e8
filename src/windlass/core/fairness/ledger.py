"""What each tenant has been given, as virtual time: work divided by weight. The queue serves the lowest tag first.

Start-time fair queueing. A placing starts at S = max(V, F) of its tenant and moves the tenant's finish tag to
F = S + work ÷ weight; virtual time V is the start of the newest placing. The end of the run corrects F by what was charged too
much or too little. Integers only: work in nano-units of money, virtual time in nano-units of a single share.
The README beside this file has the picture and the bound.
"""

from typing import Final, NewType

from msgspec import Struct

from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.money import LIST_PRICES, PriceBook, cost
from windlass.core.model.resources import Resources

Work = NewType("Work", int)
"""Nano-units: a thousandth of a micro-unit, because a short run of a small job is worth less than one micro-unit."""
Virtual = NewType("Virtual", int)
"""Work for a weight of one share (1000 thousandths)."""

SHARE: Final = 1000
LEAST_MS: Final = Millis(100)
"""No run counts for less: to pull, create and remove takes the node's time as well, and free runs would starve the others."""
_NANO_PRICES: Final = PriceBook(
    core_hour=LIST_PRICES.core_hour * 1000,
    gigabyte_hour=LIST_PRICES.gigabyte_hour * 1000,
    gpu_hour=LIST_PRICES.gpu_hour * 1000,
)


class Account(Struct, frozen=True, omit_defaults=True):
    """One tenant's standing. Stored with every placing and every end, so that a rebuilt World serves in the same order."""

    finish: Virtual = Virtual(0)
    """F: where its next placing starts, unless V has passed it by."""
    seen: Virtual = Virtual(0)
    """V at its newest placing. The highest over all accounts is V."""
    owed: Virtual = Virtual(0)
    """What an early end gave back beyond V: taken off the next charges. Never more than one run was charged."""
    work: Work = Work(0)
    """All it was charged, corrections included."""


NEW_ACCOUNT: Final = Account()


def work_of(needs: Resources, span: Millis) -> Work:
    """The list price of holding `needs` for `span`; never nothing."""
    return Work(cost(needs, span if span > LEAST_MS else LEAST_MS, _NANO_PRICES) or 1)


def virtual(work: Work, weight: int) -> Virtual:
    return Virtual(work * SHARE // weight or 1)


def charge(account: Account, now: Virtual, work: Work, weight: int, *, is_last: bool) -> Account:
    """A run was placed at virtual time `now`. `is_last`: nothing of the tenant waits any more, so nothing is owed to it."""
    finish, owed = account.finish, account.owed
    start = finish if finish > now else now
    span = virtual(work, weight)
    paid = owed if owed < span else span
    return Account(
        Virtual(start + span - paid), start, Virtual(0 if is_last else owed - paid), Work(account.work + work)
    )


def true_up(account: Account, now: Virtual, charged: Work, used: Work, weight: int, *, is_waiting: bool) -> Account:
    """The run has ended: F moves by the difference, at the weight it was charged with.

    Back only as far as V: what lies beyond was time in which others were served, and is owed to a tenant that still waits.
    """
    over = (virtual(charged, weight) if charged else 0) - virtual(used, weight)
    work = Work(account.work + used - charged)
    if over <= 0:
        paid = min(account.owed, -over)
        return Account(Virtual(account.finish - over - paid), account.seen, Virtual(account.owed - paid), work)
    back = min(over, max(0, account.finish - now))
    most = max(account.owed, min(account.owed + over - back, virtual(charged, weight)))
    return Account(Virtual(account.finish - back), account.seen, Virtual(most if is_waiting else 0), work)


class Ledger:
    """The accounts, and V: a function of them alone, also after an undo has put older ones back."""

    def __init__(self) -> None:
        self._accounts: dict[TenantId, Account] = {}
        self._now: Virtual | None = Virtual(0)
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
            self._now = max((account.seen for account in self._accounts.values()), default=Virtual(0))
        return self._now

    def replace(self, tenant: TenantId, new: Account | None) -> Account | None:
        old = self._accounts.get(tenant)
        if new is None:
            self._accounts.pop(tenant, None)
        else:
            self._accounts[tenant] = new
        seen, now = new.seen if new is not None else 0, self._now
        if now is not None:
            if seen > now:
                self._now = Virtual(seen)
            elif old is not None and old.seen == now and seen < now:
                self._now = None
        return old
