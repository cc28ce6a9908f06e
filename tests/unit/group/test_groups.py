"""DescribeGroups and DeleteGroups, and what a group id is when its group is gone."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import DescribedMember, Refuse, Rule
from coordinator_server.group.events import Describe
from tests.support.group_harness import DELAY_MS, GroupHarness, Request, offset


def test_a_group_that_does_not_exist_cannot_be_described() -> None:
    story = GroupHarness()
    request = Request("DescribeGroups")
    story.send(Describe(request), request)
    assert (request.error, request.rule) == (ErrorCode.GROUP_ID_NOT_FOUND, Rule.GROUP_UNKNOWN)


def test_a_simple_group_is_described_as_empty() -> None:
    story = GroupHarness()
    story.commit()
    found = story.describe()
    assert (found.state, found.protocol_type, found.protocol_name) == ("Empty", "", "")
    assert found.members == []


def test_a_stable_group_shows_what_its_members_said_and_got() -> None:
    story = GroupHarness()
    a = story.member("a", "one")
    story.settle(a)
    found = story.describe()
    assert (found.state, found.protocol_type, found.protocol_name) == (
        "Stable",
        "consumer",
        "range",
    )
    assert found.members == [DescribedMember(a.member_id, "one", "a", "/a", b"r", b"a")]


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_a_rebalancing_group_shows_no_protocol_and_no_metadata(state: str) -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join()
    if state == "CompletingRebalance":
        b.join()
    found = story.describe()
    assert (found.state, found.protocol_type, found.protocol_name) == (state, "consumer", "")
    assert {member.metadata for member in found.members} == {b""}


def test_an_assignment_that_was_given_up_is_not_shown() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.join()
    story.member("b").enter()
    assert [member.assignment for member in story.describe().members] == [b"", b""]


# --- the end of groups ---


def test_an_empty_group_goes_with_all_its_offsets() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.commit(offset(1), offset(2, partition=1))
    a.leave()
    assert story.delete().error is ErrorCode.NONE
    assert [write.value for write in story.writes[-3:]] == [None, None, None]
    assert story.group.is_vacant
    story.restart()
    assert story.group.is_vacant


def test_a_simple_group_goes_too() -> None:
    story = GroupHarness()
    story.commit()
    assert story.delete().error is ErrorCode.NONE
    assert story.group.is_vacant


def test_a_group_with_members_stays() -> None:
    story = GroupHarness()
    story.stable("a")
    request = story.delete()
    assert (request.error, request.rule) == (ErrorCode.NON_EMPTY_GROUP, Rule.GROUP_NOT_EMPTY)
    assert story.state == "Stable"


def test_a_group_that_members_are_joining_stays() -> None:
    story = GroupHarness()
    story.member("a").enter()
    assert story.delete().error is ErrorCode.NON_EMPTY_GROUP


def test_a_deleted_group_cannot_be_deleted_again() -> None:
    story = GroupHarness()
    story.commit()
    story.delete()
    request = story.delete()
    assert request.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(request.result, Refuse)


def test_a_deleted_group_forgets_its_pending_members() -> None:
    story = GroupHarness()
    pending = story.member("a")
    pending.join()
    story.delete()
    assert pending.join().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.advance(60_000) == []
    assert story.group.is_vacant


def test_the_id_of_a_deleted_group_begins_anew() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    story.delete()
    (b,) = story.stable("b")
    assert b.generation == 1
    story.restart()
    assert b.heartbeat().error is ErrorCode.NONE
    assert story.advance(DELAY_MS) == []


def test_what_a_member_was_assigned_is_shown_while_others_join() -> None:
    story = GroupHarness()
    story.stable("a", "b")
    story.member("c", known=False).join()
    shown = story.describe()
    assert shown.state == "PreparingRebalance"
    assert sorted(member.assignment for member in shown.members) == [b"", b"a", b"b"]
