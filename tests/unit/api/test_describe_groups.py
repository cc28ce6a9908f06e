"""DescribeGroups."""

import asyncio

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_server.api.chunked_work import AT_ONCE
from coordinator_server.group.effects import Described, DescribedMember, Refuse, Rule
from coordinator_server.ports import Operation, Resource
from tests.support.fake_coordinator import FakeCoordinator, ask, group_services

VERSIONS = pytest.mark.parametrize("version", range(7))
NOT_ASKED = -(2**31)

MEMBER = DescribedMember("m", "i", "client", "/1.2.3.4", b"meta", b"mine")
STABLE = Described("Stable", "consumer", "range", [MEMBER])
MISSING = Refuse(ErrorCode.GROUP_ID_NOT_FOUND, Rule.GROUP_UNKNOWN, "Group b not found.")


@VERSIONS
def test_groups_are_described_in_order_whatever_order_they_answer_in(version: int) -> None:
    coordinator = FakeCoordinator()
    call = ask(ApiKey.DESCRIBE_GROUPS, version, group_services(coordinator), groups=["a", "b"])
    coordinator.resolve(1, MISSING)
    assert call.is_parked
    coordinator.resolve(0, STABLE)
    described, missing = call.response.groups
    assert (described.group_id, described.group_state) == ("a", "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    (member,) = described.members
    assert (member.member_id, member.client_id, member.client_host) == ("m", "client", "/1.2.3.4")
    assert (member.member_metadata, member.member_assignment) == (b"meta", b"mine")
    assert member.group_instance_id == ("i" if version >= 4 else None)
    assert described.authorized_operations == NOT_ASKED
    assert (missing.group_id, missing.group_state, missing.members) == ("b", "Dead", [])


@VERSIONS
def test_a_missing_group_is_an_error_only_from_version_6_on(version: int) -> None:
    coordinator = FakeCoordinator(lambda *_: MISSING)
    call = ask(ApiKey.DESCRIBE_GROUPS, version, group_services(coordinator), groups=["b"])
    (missing,) = call.response.groups
    is_error = version >= 6
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE)
    assert missing.error_message == ("Group b not found." if is_error else None)


def test_other_errors_have_no_state() -> None:
    coordinator = FakeCoordinator(lambda *_: Refuse(ErrorCode.NOT_COORDINATOR, Rule.NOT_OWNED))
    call = ask(ApiKey.DESCRIBE_GROUPS, 6, group_services(coordinator), groups=["a"])
    (group,) = call.response.groups
    assert (group.error_code, group.group_state) == (ErrorCode.NOT_COORDINATOR, "")


def test_one_group_may_be_asked_for_twice_and_none_at_all() -> None:
    services = group_services(FakeCoordinator(lambda *_: STABLE))
    twice = ask(ApiKey.DESCRIBE_GROUPS, 6, services, groups=["a", "a"])
    assert [group.group_id for group in twice.response.groups] == ["a", "a"]
    assert ask(ApiKey.DESCRIBE_GROUPS, 6, services, groups=[]).response.groups == []


def test_a_forbidden_group_does_not_hide_the_others() -> None:
    services = group_services(
        FakeCoordinator(lambda *_: STABLE), denied=[(Operation.DESCRIBE, Resource.GROUP, "a")]
    )
    call = ask(ApiKey.DESCRIBE_GROUPS, 5, services, groups=["b", "a"])
    found = {group.group_id: group.error_code for group in call.response.groups}
    assert found == {"a": ErrorCode.GROUP_AUTHORIZATION_FAILED, "b": ErrorCode.NONE}


def test_authorized_operations_are_told_to_those_who_ask() -> None:
    services = group_services(
        FakeCoordinator(lambda *_: STABLE), denied=[(Operation.DELETE, Resource.GROUP, "a")]
    )
    call = ask(
        ApiKey.DESCRIBE_GROUPS, 3, services, groups=["a"], include_authorized_operations=True
    )
    operations = call.response.groups[0].authorized_operations
    assert operations & 1 << Operation.READ
    assert not operations & 1 << Operation.DELETE


async def test_many_groups_are_asked_some_at_a_time() -> None:
    coordinator = FakeCoordinator(lambda *_: STABLE)
    groups = [f"g{number}" for number in range(2 * AT_ONCE + 1)]
    call = ask(ApiKey.DESCRIBE_GROUPS, 5, group_services(coordinator), groups=groups)
    turns = 1
    while call.is_parked:
        assert len(coordinator.submitted) == turns * AT_ONCE
        await asyncio.sleep(0)
        turns += 1
    assert turns == 3
    assert [group.group_id for group in call.response.groups] == groups


@pytest.mark.parametrize("operations", [False, True])
@VERSIONS
async def test_a_large_group_is_written_in_steps_and_has_all_members(
    version: int, operations: bool
) -> None:
    members = [
        DescribedMember(f"m{number}", None, "client", "/1.2.3.4", b"meta", b"mine" * number)
        for number in range(3 * AT_ONCE)
    ]
    large = Described("Stable", "consumer", "range", members)
    results = {"large": large, "small": STABLE}
    coordinator = FakeCoordinator(lambda group_id, _: results[group_id])
    fields = {"include_authorized_operations": operations} if version >= 3 else {}
    services = group_services(coordinator)
    call = ask(ApiKey.DESCRIBE_GROUPS, version, services, groups=["large", "small"], **fields)
    turns = 0
    while call.is_parked:
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 3
    described, small = call.response.groups
    assert (described.group_id, described.group_state) == ("large", "Stable")
    assert [member.member_id for member in described.members] == [m.member_id for m in members]
    assert described.members[-1].member_assignment == members[-1].assignment
    assert (described.authorized_operations != NOT_ASKED) == (operations and version >= 3)
    assert len(small.members) == 1
