"""Quota is never exceeded and never leaked, money adds up, a restart equals the live World, a trial leaves nothing."""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.core.quota_home import STEPS, QuotaHome

_STEPS_A_SEED = 12_500


@pytest.mark.parametrize("seed", range(4))
def test_fifty_thousand_random_steps_exceed_leak_and_lose_nothing(seed: int) -> None:
    chance = Random(seed)
    home = QuotaHome()
    for number in range(_STEPS_A_SEED):
        home.step(chance.choice(STEPS), chance)
        if number % 50 == 0:
            home.check_books()
            home.commit(chance)
            home.check_money()
    home.settle(chance)
    assert home.accepted > 500
    assert home.placed > 500
    assert {"quota-cpu", "queue-full", "burst-cooldown", "burst-per-day", "exceeds-quota"} <= set(home.refusals)


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.home = QuotaHome()

    @rule(step=st.sampled_from(sorted(set(STEPS))), choice=st.integers(0, 1 << 32))
    def step(self, step: str, choice: int) -> None:
        self.home.step(step, Random(choice))
        self.home.check_books()

    def teardown(self) -> None:
        self.home.settle(Random(0))


AnyOrder.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
test_any_order_of_steps_keeps_every_promise = AnyOrder.TestCase
