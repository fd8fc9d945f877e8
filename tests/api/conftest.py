"""Fixtures of the API's tests."""

from collections.abc import AsyncIterator

import pytest

from tests.api.home import ApiHome, api_home


@pytest.fixture
async def api() -> AsyncIterator[ApiHome]:
    async with api_home() as home:
        yield home
