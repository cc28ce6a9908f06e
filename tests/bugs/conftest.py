"""Fixtures of the tests of other coordinators' bugs."""

from collections.abc import AsyncIterator

import pytest

from tests.support.coordinator_harness import CoordinatorHarness


@pytest.fixture
async def harness() -> AsyncIterator[CoordinatorHarness]:
    """A coordinator over a log in memory, loaded and empty."""
    made = await CoordinatorHarness().start()
    yield made
    await made.stop()
