"""ListGroups."""

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import response_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages import list_groups
from coordinator_protocol.messages.list_groups import ListGroupsRequest
from coordinator_server.api.list_groups import AT_ONCE, handle
from coordinator_server.loop.time_slice import LONGEST_MS
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.coordinator import ListedGroup
from tests.support.fake_coordinator import FakeCoordinator, HandledRequest, ask, group_services
from tests.support.time_slices import AdvancingClock, pieces

GROUPS = (
    ListedGroup("a", "consumer", "Stable", "classic"),
    ListedGroup("b", "connect", "Empty", "classic"),
    ListedGroup("c", "", "Empty", "classic"),
)


def listed(version: int, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[str]:
    services = group_services(FakeCoordinator(listed=GROUPS))
    call = ask(
        ApiKey.LIST_GROUPS, version, services, states_filter=list(states), types_filter=list(types)
    )
    assert call.response.error_code == ErrorCode.NONE
    return [group.group_id for group in call.response.groups]


@pytest.mark.parametrize("version", range(6))
def test_all_groups_are_listed_with_what_the_version_carries(version: int) -> None:
    services = group_services(FakeCoordinator(listed=GROUPS))
    first = ask(ApiKey.LIST_GROUPS, version, services).response.groups[0]
    assert (first.group_id, first.protocol_type) == ("a", "consumer")
    assert first.group_state == ("Stable" if version >= 4 else "")
    assert first.group_type == ("classic" if version >= 5 else "")
    assert listed(version) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("Stable",), "a"),
        (("stable",), "a"),
        (("Empty", "Stable"), "abc"),
        (("Nonsense",), ""),
        (("Stable", "Nonsense"), "a"),
    ],
)
def test_states_filter_without_case(states: tuple[str, ...], expected: str) -> None:
    assert listed(4, states) == list(expected)


@pytest.mark.parametrize(
    ("types", "expected"),
    [(("CLASSIC",), "abc"), (("consumer",), ""), (("consumer", "classic"), "abc")],
)
def test_types_filter_without_case(types: tuple[str, ...], expected: str) -> None:
    assert listed(5, (), types) == list(expected)


def test_both_filters_have_to_match() -> None:
    assert listed(5, ("Empty",), ("classic",)) == ["b", "c"]


def test_who_may_not_describe_the_cluster_sees_the_groups_it_may_describe() -> None:
    denied = [
        (Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster"),
        (Operation.DESCRIBE, Resource.GROUP, "b"),
    ]
    services = group_services(FakeCoordinator(listed=GROUPS), denied=denied)
    response = ask(ApiKey.LIST_GROUPS, 5, services).response
    assert [group.group_id for group in response.groups] == ["a", "c"]


def test_nothing_is_listed_while_a_partition_loads() -> None:
    loading = FakeCoordinator(listed=GROUPS, list_error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    response = ask(ApiKey.LIST_GROUPS, 5, group_services(loading)).response
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert response.groups == []


@pytest.mark.parametrize("version", range(6))
def test_a_list_of_many_pieces_is_written_as_one_would_be(version: int) -> None:
    names = [f"group-{number}" for number in range(3 * AT_ONCE + 1)]
    groups = [ListedGroup(name, "consumer", "Stable", "classic") for name in names]
    services = group_services(FakeCoordinator(listed=groups))
    (body,) = ask(ApiKey.LIST_GROUPS, version, services).answers
    listed = [list_groups.ListedGroup(*group) for group in groups]
    whole = list_groups.ListGroupsResponse(groups=listed)
    assert body == response_encoder(ApiKey.LIST_GROUPS, version)(whole)


async def test_others_have_their_turns_while_a_long_list_is_made() -> None:
    groups = [ListedGroup("group", "consumer", "Stable", "classic")] * (10 * AT_ONCE)
    services = group_services(FakeCoordinator(listed=groups))
    services.clock = AdvancingClock()
    handling = handle(HandledRequest(5, api_key=16), ListGroupsRequest(), services)
    # The clock is looked at once per slice of groups and moves a millisecond each time.
    assert await pieces(handling) > 10 // LONGEST_MS
