"""Amounts as people say them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.model.amounts import BYTES, MICROS, MILLICORES, cores, money, size, spoken

GIB = 1 << 30


@pytest.mark.parametrize(
    ("amounts", "unit", "said"),
    [
        ([2000, 1000, 250], MILLICORES, (["2", "1", "0.25"], "cores")),
        ([1000], MILLICORES, (["1"], "core")),
        ([GIB // 2, 4 * GIB], BYTES, (["512", "4096"], "MiB")),
        ([0, 4 * GIB, 2 * GIB], BYTES, (["0", "4", "2"], "GiB")),
        ([25_233_190_912, 24 * GIB], BYTES, (["23.5", "24"], "GiB")),
        ([GIB, GIB + 1], BYTES, (["1073741824", "1073741825"], "bytes")),
        ([GIB, GIB + (2 << 20)], BYTES, (["1", "1.002"], "GiB")),
        ([12], BYTES, (["12"], "bytes")),
        ([0], BYTES, (["0"], "bytes")),
        ([1_500_000, 3], MICROS, (["1.5", "0.000003"], "")),
        ([3, 10], "jobs", (["3", "10"], "jobs")),
    ],
)
def test_amounts_are_said_in_one_unit_that_people_use(
    amounts: list[int], unit: str, said: tuple[list[str], str]
) -> None:
    assert spoken(amounts, unit) == said


def test_one_amount_is_said_with_its_unit_and_money_without() -> None:
    assert (cores(1000), cores(1500), size(512 << 20), money(250_000_000), money(-1)) == (
        "1 core",
        "1.5 cores",
        "512 MiB",
        "250",
        "-0.000001",
    )


@given(st.lists(st.integers(0, 1 << 50), min_size=1, max_size=4), st.sampled_from([MILLICORES, BYTES, MICROS]))
def test_different_amounts_never_look_alike(amounts: list[int], unit: str) -> None:
    texts, _ = spoken(amounts, unit)
    assert len(set(texts)) == len(set(amounts))
