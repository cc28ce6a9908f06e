from collections.abc import Iterator

import pytest

from tests.support.canned_http import http_side


@pytest.fixture
def http() -> Iterator[str]:
    """The URL of a server that answers what `httpanswers` has."""
    with http_side() as url:
        yield url
