"""The pytest plugin: a Kafka group coordinator as a fixture.

    def test_my_consumer(coordinator):
        ...                                                  # a client of coordinator.bootstrap
        coordinator.fail("OffsetCommit", "NOT_COORDINATOR")  # or delay, hold, disconnect
        coordinator.advance(45)                              # its session expires
        coordinator.wait_for_rebalance("session_expired")

README.md has one that can be run. `session_coordinator` is one for all tests. Settings are what
the fixture `coordinator_settings` returns, with those of the test's
`@pytest.mark.coordinator({"group.max.size": "2"})`. With `--coordinator-address HOST:PORT` both are
the broker there.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Union

import pytest

if TYPE_CHECKING:
    from coordinator_server.testing.external import ExternalCoordinator
    from coordinator_server.testing.server import TestCoordinator

Coordinator = Union["TestCoordinator", "ExternalCoordinator"]

_OPTION = "--coordinator-address"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where another broker is."""
    parser.getgroup("coordinator").addoption(
        _OPTION,
        metavar="HOST:PORT",
        help="give tests this broker instead of coordinators of their own",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker."""
    config.addinivalue_line(
        "markers", "coordinator(settings): Kafka properties for the `coordinator` fixture"
    )


# What is imported in the fixtures costs every pytest run on the machine otherwise.


@pytest.fixture(scope="session")
def coordinator_settings() -> Mapping[str, str]:
    """Kafka properties of all coordinators; define it in a conftest.py to have other ones."""
    return {}


@pytest.fixture(scope="session")
def _external_coordinator(pytestconfig: pytest.Config) -> "ExternalCoordinator | None":
    """The broker at the address that was given, which answers."""
    given = pytestconfig.getoption(_OPTION)
    if given is None:
        return None
    from coordinator_server.cli.groups.kafka import KafkaProblem
    from coordinator_server.config.listeners import parse_address
    from coordinator_server.testing.external import ExternalCoordinator

    try:
        address = parse_address(given)
        return ExternalCoordinator(address.host, address.port)
    except (ValueError, KafkaProblem) as error:
        pytest.fail(f"{_OPTION}: {error}", pytrace=False)


@pytest.fixture(scope="session")
def session_coordinator(
    _external_coordinator: "ExternalCoordinator | None",
    coordinator_settings: Mapping[str, str],
) -> "Iterator[Coordinator]":
    """One coordinator for all tests: what a test plans, makes and moves stays for the next."""
    if _external_coordinator is not None:
        yield _external_coordinator
        return
    yield from _serve(coordinator_settings)


@pytest.fixture
def coordinator(
    request: pytest.FixtureRequest,
    _external_coordinator: "ExternalCoordinator | None",
    coordinator_settings: Mapping[str, str],
) -> "Iterator[Coordinator]":
    """A coordinator of the test's own: `bootstrap`, `advance`, `wait_for_rebalance`, faults."""
    marker = request.node.get_closest_marker("coordinator")
    if _external_coordinator is not None:
        if marker:
            where = _external_coordinator.bootstrap
            pytest.fail(f"{_OPTION}: {where} takes no settings from a marker", pytrace=False)
        yield _external_coordinator
        return
    yield from _serve({**coordinator_settings, **(_settings_of(marker) if marker else {})})


def _settings_of(marker: pytest.Mark) -> Mapping[str, str]:
    """The arguments of a marker."""
    given = marker.args[0] if len(marker.args) == 1 and not marker.kwargs else None
    if not isinstance(given, Mapping):
        pytest.fail(
            "@pytest.mark.coordinator: expected one dict of settings, such as "
            '@pytest.mark.coordinator({"group.max.size": "2"})',
            pytrace=False,
        )
    return given


def _serve(settings: Mapping[str, str]) -> "Iterator[TestCoordinator]":
    from coordinator_server.config import ConfigError
    from coordinator_server.testing.server import TestCoordinator

    server = TestCoordinator(settings)
    try:
        server.start()
    except ConfigError as error:
        pytest.fail(str(error), pytrace=False)
    try:
        yield server
    finally:
        server.stop()
