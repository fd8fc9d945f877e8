"""Failpoints: armed by name, refused outside tests, struck at the time that was said."""

import pytest

from windlass.adapters.failpoints.environment import from_environment
from windlass.core.errors import Invalid, Unavailable
from windlass.ports.failpoints import NONE

pytestmark = pytest.mark.anyio


async def test_without_the_variable_nothing_is_armed() -> None:
    assert from_environment({}) is NONE


async def test_outside_tests_they_are_refused() -> None:
    with pytest.raises(Invalid):
        from_environment({"WINDLASS_FAILPOINTS": "a=kill"})


@pytest.mark.parametrize("text", ["a", "a=burn", "a=kill@x", "=kill@-1"])
async def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        from_environment({"WINDLASS_FAILPOINTS": text, "WINDLASS_TEST": "1"})


async def test_an_error_strikes_once_at_the_nth_time() -> None:
    points = from_environment({"WINDLASS_FAILPOINTS": "a=error:boom@2; b=sleep:1", "WINDLASS_TEST": "1"})
    await points.reach("a")
    with pytest.raises(Unavailable) as struck:
        await points.reach("a")
    assert struck.value.code == "boom"
    await points.reach("a")
    await points.reach("b")
    await points.reach("unknown")


async def test_what_is_flaky_fails_every_other_time() -> None:
    points = from_environment({"WINDLASS_FAILPOINTS": "a=flaky:1@2", "WINDLASS_TEST": "1"})
    await points.reach("a")
    for _ in range(2):
        with pytest.raises(Unavailable):
            await points.reach("a")
        await points.reach("a")
