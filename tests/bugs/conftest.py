"""Fixtures of the tests of other coordinators' bugs."""

from collections.abc import AsyncIterator

import pytest

from tests.support.desk import Desk


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """A coordinator over a log in memory, loaded and empty."""
    made = await Desk().start()
    yield made
    await made.stop()
