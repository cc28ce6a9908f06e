"""DeleteGroups."""

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_server.api.chunked_work import AT_ONCE
from coordinator_server.group.effects import DONE, Refuse, Rule
from coordinator_server.ports import Operation, Resource
from tests.support.fake_coordinator import FakeCoordinator, ask, group_services

VERSIONS = pytest.mark.parametrize("version", range(3))


@VERSIONS
def test_each_group_has_its_outcome_when_all_have_come(version: int) -> None:
    coordinator = FakeCoordinator()
    call = ask(
        ApiKey.DELETE_GROUPS, version, group_services(coordinator), groups_names=["a", "", "b"]
    )
    coordinator.resolve(2, Refuse(ErrorCode.NON_EMPTY_GROUP, Rule.GROUP_NOT_EMPTY))
    coordinator.resolve(0, DONE)
    assert call.is_parked
    coordinator.resolve(1, DONE)
    outcomes = [(each.group_id, each.error_code) for each in call.response.results]
    assert outcomes == [("a", 0), ("", 0), ("b", ErrorCode.NON_EMPTY_GROUP)]


def test_a_group_named_twice_is_deleted_once() -> None:
    coordinator = FakeCoordinator(lambda *_: DONE)
    call = ask(ApiKey.DELETE_GROUPS, 2, group_services(coordinator), groups_names=["a", "a"])
    assert [each.group_id for each in call.response.results] == ["a"]
    assert len(coordinator.submitted) == 1


def test_no_group_has_an_empty_answer() -> None:
    assert ask(ApiKey.DELETE_GROUPS, 2, group_services(), groups_names=[]).response.results == []


def test_a_forbidden_group_does_not_hide_the_others() -> None:
    services = group_services(
        FakeCoordinator(lambda *_: DONE), denied=[(Operation.DELETE, Resource.GROUP, "a")]
    )
    call = ask(ApiKey.DELETE_GROUPS, 2, services, groups_names=["a", "b"])
    found = {each.group_id: each.error_code for each in call.response.results}
    assert found == {"a": ErrorCode.GROUP_AUTHORIZATION_FAILED, "b": ErrorCode.NONE}


async def test_many_groups_are_deleted_some_at_a_time() -> None:
    coordinator = FakeCoordinator(lambda *_: DONE)
    groups = [f"g{number}" for number in range(2 * AT_ONCE)]
    call = ask(ApiKey.DELETE_GROUPS, 2, group_services(coordinator), groups_names=groups)
    assert len(coordinator.submitted) == AT_ONCE
    await call.answered()
    assert [each.group_id for each in call.response.results] == groups
