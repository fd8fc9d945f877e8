"""What each tenant has been given, as virtual time: work divided by weight. The queue serves the lowest tag first.

Start-time fair queueing. A placing starts at S = max(V, F) of its tenant and moves the tenant's finish tag to
F = S + work ÷ weight; virtual time V is the start of the newest placing. The end of the run corrects F by what was charged too
much or too little. Integers only: work in nano-units of money, virtual time in nano-units of a single share.
The README beside this file has the picture and the bound.
"""

from bisect import bisect_left, insort
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


class Account(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    return Work(max(1, cost(needs, max(span, LEAST_MS), _NANO_PRICES)))


def virtual(work: Work, weight: int) -> Virtual:
    return Virtual(max(1, work * SHARE // max(1, weight)))


def charge(account: Account, now: Virtual, work: Work, weight: int, *, is_last: bool) -> Account:
    """A run was placed at virtual time `now`. `is_last`: nothing of the tenant waits any more, so nothing is owed to it."""
    start = max(now, account.finish)
    span = virtual(work, weight)
    paid = min(account.owed, span)
    return Account(
        finish=Virtual(start + span - paid),
        seen=start,
        owed=Virtual(0 if is_last else account.owed - paid),
        work=Work(account.work + work),
    )


def true_up(account: Account, now: Virtual, charged: Work, used: Work, weight: int, *, is_waiting: bool) -> Account:
    """The run has ended: F moves by the difference, at the weight it was charged with.

    Back only as far as V: what lies beyond was time in which others were served, and is owed to a tenant that still waits.
    """
    over = (virtual(charged, weight) if charged else 0) - virtual(used, weight)
    work = Work(account.work + used - charged)
    if over <= 0:
        paid = min(account.owed, -over)
        return Account(
            finish=Virtual(account.finish - over - paid),
            seen=account.seen,
            owed=Virtual(account.owed - paid),
            work=work,
        )
    back = min(over, max(0, account.finish - now))
    most = max(account.owed, min(account.owed + over - back, virtual(charged, weight)))
    return Account(
        finish=Virtual(account.finish - back), seen=account.seen, owed=Virtual(most if is_waiting else 0), work=work
    )


class Ledger:
    """The accounts, and V: a function of them alone, also after an undo has put older ones back."""

    def __init__(self) -> None:
        self._accounts: dict[TenantId, Account] = {}
        self._seen: list[tuple[Virtual, TenantId]] = []
        """By V; entries whose account has moved on are dropped when they surface, or when they are too many."""

    def __len__(self) -> int:
        return len(self._accounts)

    def account(self, tenant: TenantId) -> Account:
        return self._accounts.get(tenant, NEW_ACCOUNT)

    def accounts(self) -> dict[TenantId, Account]:
        return dict(self._accounts)

    def now(self) -> Virtual:
        """V."""
        seen, accounts = self._seen, self._accounts
        while seen:
            at, tenant = seen[-1]
            account = accounts.get(tenant)
            if account is not None and account.seen == at:
                return at
            seen.pop()
        return Virtual(0)

    def replace(self, tenant: TenantId, new: Account | None) -> Account | None:
        old = self._accounts.get(tenant)
        if new is None:
            self._accounts.pop(tenant, None)
            return old
        self._accounts[tenant] = new
        if old is None or old.seen != new.seen:
            self._note((new.seen, tenant))
        return old

    def _note(self, entry: tuple[Virtual, TenantId]) -> None:
        seen = self._seen
        if not seen or entry > seen[-1]:
            seen.append(entry)  # the usual case: virtual time goes on
        else:
            at = bisect_left(seen, entry)
            if at == len(seen) or seen[at] != entry:
                insort(seen, entry)
        if len(seen) > 2 * len(self._accounts) + 64:
            self._seen = sorted((account.seen, tenant) for tenant, account in self._accounts.items())
