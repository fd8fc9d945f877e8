"""Quantities are exact or refused."""

from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.wire import quantities as q

CPU = {"500m": 500, "1": 1000, "1.5": 1500, "0.25": 250, 2: 2000, Decimal("0.1"): 100, "10m": 10, "4096": 4_096_000}
MEMORY = {
    "512Mi": 512 << 20, "1Gi": 1 << 30, "1.5Gi": 3 << 29, "6Mi": 6 << 20, "10M": 10**7, "1G": 10**9, 10**8: 10**8,
    "64Ti": 64 << 40, "8192Ki": 8 << 20, "0.5Gi": 1 << 29,
}  # fmt: skip
DURATIONS = {"90s": 90_000, "10m": 600_000, "1h30m": 5_400_000, "250ms": 250, "1d": 86_400_000, 600: 600_000, 0: 0}


@pytest.mark.parametrize("text", CPU)
def test_cpu_is_millicores(text: object) -> None:
    assert q.read_cpu(text) == CPU[text]  # type: ignore[index]


@pytest.mark.parametrize("text", MEMORY)
def test_memory_is_bytes(text: object) -> None:
    assert q.read_memory(text) == MEMORY[text]  # type: ignore[index]


@pytest.mark.parametrize("text", DURATIONS)
def test_durations_are_milliseconds(text: object) -> None:
    assert q.read_duration(text) == DURATIONS[text]  # type: ignore[index]


@pytest.mark.parametrize(
    "value",
    [
        "", " ", "1 ", " 1", "1\n", "-1", "+1", "1e3", "0x10", "1,5", "1.", ".5", "NaN", "inf", "１", "1m5", "1mm", "m",
        "0", "0m", "9m", "4097", "0.0005", "1.0001", 0, -1, 10**400, True, False, None, [], {}, 1.5,
        Decimal("-1"), Decimal("1e30"), Decimal("NaN"), Decimal("0.00001"), "9" * 400, "1k", "1Mi",
    ],
)  # fmt: skip
def test_cpu_that_cannot_be_meant_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected cores"):
        q.read_cpu(value)


@pytest.mark.parametrize(
    "value",
    [
        "", "1", "5Mi", "512mi", "512MiB", "512 Mi", "512Mi\n", "-1Gi", "1e9", "65Ti", "0.3", "1.5", "1Pi", "Gi",
        0, -1, 10**400, True, None, [], Decimal("1e25"), Decimal("0.5"), "500m",
    ],
)  # fmt: skip
def test_memory_that_cannot_be_meant_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected bytes"):
        q.read_memory(value)


@pytest.mark.parametrize(
    "value", ["", "10", "10 m", "m", "1h-5m", "10y", "1.5h", -1, Decimal("0.0001"), True, None, "1s" * 6, 10**12]
)
def test_durations_that_cannot_be_meant_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected seconds"):
        q.read_duration(value)


@given(st.integers(q.CPU_MILLIS_MIN, q.CPU_MILLIS_MAX))
def test_cpu_written_is_read_back(millis: int) -> None:
    assert q.read_cpu(q.write_cpu(millis)) == millis


@given(st.integers(q.MEMORY_BYTES_MIN, q.MEMORY_BYTES_MAX))
def test_memory_written_is_read_back(size: int) -> None:
    assert q.read_memory(q.write_bytes(size)) == size


@given(st.integers(0, q.DURATION_MS_MAX))
def test_durations_written_are_read_back(millis: int) -> None:
    assert q.read_duration(q.write_seconds(millis)) == millis


@given(st.integers(0, 64), st.text("0123456789", min_size=9, max_size=9))
def test_a_fraction_of_a_terabyte_is_exact_or_refused(whole: int, fraction: str) -> None:
    exact = whole * (1 << 40) * 10**9 + int(fraction) * (1 << 40)
    try:
        read = q.read_memory(f"{whole}.{fraction}Ti")
    except ValueError:
        assert exact % 10**9 or not q.MEMORY_BYTES_MIN <= exact // 10**9 <= q.MEMORY_BYTES_MAX
    else:
        assert read * 10**9 == exact


@given(st.one_of(st.text(), st.integers(), st.decimals(), st.booleans(), st.none(), st.floats()))
def test_nothing_but_a_value_error_comes_of_anything(value: object) -> None:
    for read in (q.read_cpu, q.read_memory, q.read_volume_size, q.read_duration):
        with suppress(ValueError):
            assert read(value) >= 0
