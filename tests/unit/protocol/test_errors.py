"""Error codes and API keys against kio's."""

import importlib

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from coordinator_protocol.api_keys import FIRST_FLEXIBLE, NEVER, ApiKey
from coordinator_protocol.errors import ErrorCode, Malformed

REMOVED = {"LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA", "CONTROLLED_SHUTDOWN"}


def test_every_error_code_has_kafkas_number_and_name() -> None:
    assert {code.name: int(code) for code in ErrorCode} == {
        code.name.upper(): int(code) for code in KioErrorCode
    }


def test_the_same_errors_are_retriable() -> None:
    assert {int(code) for code in ErrorCode if code.retriable} == {
        int(code) for code in KioErrorCode if code.retriable
    }


def test_an_error_without_a_text_of_its_own_gives_its_name() -> None:
    assert ErrorCode.NONE.message == "NONE"
    assert ErrorCode.GROUP_ID_NOT_FOUND.message == "The group id does not exist."


def test_every_api_has_kafkas_key_and_name() -> None:
    ours = {int(key): key.name.lower() for key in ApiKey if key.name not in REMOVED}
    assert ours == dict(api_key_map)


@pytest.mark.parametrize("key", sorted(api_key_map))
def test_flexible_versions_begin_where_kafka_says(key: int) -> None:
    versions = schema_name_map[api_key_map[key]]
    for version in (min(versions), *[v for v in versions if v == FIRST_FLEXIBLE[key]]):
        module, name = versions[version][EntityType.request].split(":")
        kio = getattr(importlib.import_module(module), name)
        assert kio.__flexible__ == (version >= FIRST_FLEXIBLE[key])
    assert FIRST_FLEXIBLE[key] in (0, NEVER, *versions)


def test_malformed_is_a_value_error() -> None:
    assert issubclass(Malformed, ValueError)
