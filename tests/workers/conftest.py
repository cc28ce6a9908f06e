"""Fixtures of the tests with workers: processes that a module shares unless it kills them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.workers import WorkersProcess


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkersProcess]:
    """Three workers that nobody kills."""
    with WorkersProcess(tmp_path_factory.mktemp("workers")) as server:
        yield server
        assert not server.bugs(), server.bugs()[:5]


@pytest.fixture
def own_three(tmp_path: Path) -> Iterator[WorkersProcess]:
    """Three workers of a test's own."""
    with WorkersProcess(tmp_path / "server") as server:
        yield server
        assert not server.bugs(), server.bugs()[:5]
