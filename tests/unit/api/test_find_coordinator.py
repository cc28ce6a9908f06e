"""FindCoordinator."""

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_server.api.find_coordinator import AT_ONCE
from coordinator_server.api.services import Services
from coordinator_server.ports import Operation, Resource
from tests.support.fake_coordinator import HandledRequest, ask, group_services
from tests.support.fake_services import NODE
from tests.support.time_slices import AdvancingClock

GROUP, TRANSACTION, SHARE = 0, 1, 2
OLD, BATCHED = range(4), range(4, 7)


def find(
    version: int, *keys: str, key_type: int = GROUP, services: Services | None = None
) -> HandledRequest:
    return ask(
        ApiKey.FIND_COORDINATOR,
        version,
        services or group_services(),
        key=keys[0] if keys else "",
        key_type=key_type if version else 0,
        coordinator_keys=list(keys),
    )


@pytest.mark.parametrize("version", OLD)
def test_a_single_key_is_answered_with_the_node_of_the_directory(version: int) -> None:
    response = find(version, "g").response
    assert (response.node_id, response.host, response.port) == tuple(NODE)
    assert response.error_code == ErrorCode.NONE
    assert response.error_message == (None if version == 0 else "NONE") or version == 0


@pytest.mark.parametrize("version", BATCHED)
def test_several_keys_are_answered_in_order_even_twice(version: int) -> None:
    found = find(version, "one", "two", "one").response.coordinators
    assert [entry.key for entry in found] == ["one", "two", "one"]
    assert {(entry.node_id, entry.host, entry.port) for entry in found} == {tuple(NODE)}
    assert {(entry.error_code, entry.error_message) for entry in found} == {(0, "")}


def test_an_empty_batch_has_an_empty_answer() -> None:
    assert find(4).response.coordinators == []


@pytest.mark.parametrize("version", range(1, 7))
def test_a_transactional_id_leads_to_this_node(version: int) -> None:
    response = find(version, "t", key_type=TRANSACTION).response
    entry = response if version < 4 else response.coordinators[0]
    assert (entry.error_code, entry.node_id) == (ErrorCode.NONE, NODE.node_id)


@pytest.mark.parametrize("version", range(1, 7))
def test_an_unknown_key_type_is_refused_with_a_message(version: int) -> None:
    response = find(version, "k", key_type=9).response
    entry = response if version < 4 else response.coordinators[0]
    assert entry.error_code == ErrorCode.INVALID_REQUEST
    assert entry.error_message == ErrorCode.INVALID_REQUEST.message
    assert (entry.node_id, entry.host, entry.port) == (-1, "", -1)


@pytest.mark.parametrize("version", range(1, 7))
def test_keys_of_share_groups_are_refused(version: int) -> None:
    response = find(version, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", key_type=SHARE).response
    entry = response if version < 4 else response.coordinators[0]
    assert (entry.error_code, entry.node_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_one_forbidden_key_does_not_hide_the_others() -> None:
    services = group_services(denied=[(Operation.DESCRIBE, Resource.GROUP, "secret")])
    found = find(4, "secret", "g", services=services).response.coordinators
    assert [(entry.key, entry.error_code, entry.node_id) for entry in found] == [
        ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED, -1),
        ("g", ErrorCode.NONE, NODE.node_id),
    ]


def test_a_forbidden_transactional_id_has_an_error_of_its_own() -> None:
    services = group_services(denied=[(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "t")])
    response = find(3, "t", key_type=TRANSACTION, services=services).response
    assert response.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_partition_without_an_owner_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    services = group_services()
    monkeypatch.setattr(services.directory, "coordinator", lambda *_: None)
    response = find(2, "g", services=services).response
    assert (response.error_code, response.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


@pytest.mark.parametrize("version", BATCHED)
async def test_very_many_keys_are_looked_up_in_turns(version: int) -> None:
    services = group_services()
    services.clock = AdvancingClock()
    keys = [f"group-{number}" for number in range(AT_ONCE + 1)]
    call = find(version, *keys, services=services)
    assert call.is_parked
    await call.answered()
    found = call.response.coordinators
    assert [entry.key for entry in found] == keys
    assert {entry.node_id for entry in found} == {NODE.node_id}
