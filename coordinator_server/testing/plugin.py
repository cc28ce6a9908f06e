"""The pytest plugin: a Kafka group coordinator as a fixture.

    def test_my_consumer(coordinator):
        consumer = make_consumer(coordinator.bootstrap)
        ...
        coordinator.advance(45)                             # its session expires
        coordinator.fail("OffsetCommit", "NOT_COORDINATOR")  # or delay, hold, disconnect
        assert coordinator.rebalances[-1].reason == "session_expired"

Settings by marker: `@pytest.mark.coordinator({"group.max.size": "2"})`.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.testing.server import TestCoordinator


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker."""
    config.addinivalue_line(
        "markers", "coordinator(settings): Kafka properties for the `coordinator` fixture"
    )


@pytest.fixture
def coordinator(request: pytest.FixtureRequest) -> "Iterator[TestCoordinator]":
    """A coordinator of the test's own: `bootstrap`, `advance`, `rebalances`, faults."""
    # What is imported here costs every pytest run on the machine otherwise.
    from coordinator_server.testing.server import TestCoordinator

    marker = request.node.get_closest_marker("coordinator")
    with TestCoordinator(marker.args[0] if marker else None) as server:
        yield server
