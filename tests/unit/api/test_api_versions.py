"""ApiVersions."""

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_server.api.registry import announced
from tests.support.fake_coordinator import ask, group_services

VERSIONS = pytest.mark.parametrize("version", range(5))


@VERSIONS
def test_the_answer_is_the_registry(version: int) -> None:
    call = ask(
        ApiKey.API_VERSIONS,
        version,
        group_services(),
        client_software_name="some-client",
        client_software_version="1.0",
    )
    ranges = {(r.api_key, r.min_version, r.max_version) for r in call.response.api_keys}
    assert ranges == {(api.key, api.min_version, api.max_version) for api in announced()}
    assert call.response.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "software_version"),
    [("no spaces", "1"), ("", "1"), ("ok", ""), ("-ok", "1"), ("ok", "1."), ("ok\n", "1")],
)
def test_odd_software_names_and_versions_are_refused(name: str, software_version: str) -> None:
    call = ask(
        ApiKey.API_VERSIONS,
        3,
        group_services(),
        client_software_name=name,
        client_software_version=software_version,
    )
    assert call.response.error_code == ErrorCode.INVALID_REQUEST
    assert call.response.api_keys == []


def test_one_letter_is_a_software_name() -> None:
    call = ask(
        ApiKey.API_VERSIONS,
        3,
        group_services(),
        client_software_name="a",
        client_software_version="1",
    )
    assert call.response.error_code == ErrorCode.NONE
