"""OffsetDelete: what may go of a group's offsets (KIP-496)."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.subscription import Subscription, encode_subscription
from coordinator_server.group.effects import Deleted, Refuse, Rule
from tests.support.group_harness import GroupHarness, Request, offset

ORDERS = (("range", encode_subscription(Subscription(["orders"]))),)


def deleted(request: Request) -> dict[tuple[str, int], ErrorCode]:
    assert isinstance(request.result, Deleted)
    return {(topic, p): error for topic, found in request.result.topics for p, error in found}


def test_offsets_of_an_empty_group_are_deleted() -> None:
    story = GroupHarness()
    story.commit(offset(1), offset(2, partition=1))
    request = story.delete_offsets(("orders", [0, 7]), ("other", [0]))
    assert set(deleted(request).values()) == {ErrorCode.NONE}
    assert list(story.fetch()) == [("orders", 1)]
    assert len(story.writes) == 3


def test_offsets_of_a_group_that_does_not_exist_cannot_be_deleted() -> None:
    request = GroupHarness().delete_offsets(("orders", [0]))
    assert (request.error, request.rule) == (ErrorCode.GROUP_ID_NOT_FOUND, Rule.GROUP_UNKNOWN)
    assert isinstance(request.result, Refuse)
    assert request.result.detail == "Group group not found."


def test_offsets_of_topics_in_use_stay() -> None:
    story = GroupHarness()
    (a,) = story.stable("a", protocols=ORDERS)
    a.commit(offset(1), offset(2, topic="other"))
    request = story.delete_offsets(("orders", [0]), ("other", [0]))
    assert deleted(request) == {
        ("orders", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("other", 0): ErrorCode.NONE,
    }
    assert list(story.fetch()) == [("orders", 0)]
    assert isinstance(request.result, Deleted)
    assert request.result == Deleted(request.result.topics), "the explanation is for people"
    (refused,) = request.result.refused
    assert (refused.error, refused.rule) == (
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        Rule.TOPIC_SUBSCRIBED,
    )
    assert refused.detail == "members subscribe to 'orders'"


def test_the_first_topic_in_use_is_explained() -> None:
    protocols = (("range", encode_subscription(Subscription(["orders", "payments"]))),)
    story = GroupHarness()
    story.stable("a", protocols=protocols)
    request = story.delete_offsets(("other", [0]), ("payments", [0]), ("orders", [0]))
    assert isinstance(request.result, Deleted)
    assert [refused.detail for refused in request.result.refused] == [
        "members subscribe to 'payments'"
    ]


@pytest.mark.parametrize("blob", [b"", b"\0", b"\0\1\0\0\0\1\0\7or"])
def test_offsets_stay_where_it_cannot_be_told_what_is_in_use(blob: bytes) -> None:
    story = GroupHarness()
    (a,) = story.stable("a", protocols=(("range", blob),))
    a.commit()
    assert set(deleted(story.delete_offsets(("orders", [0]))).values()) == {
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    }


def test_before_the_first_generation_everything_may_be_in_use() -> None:
    story = GroupHarness()
    story.member("a", protocols=ORDERS).enter()
    assert set(deleted(story.delete_offsets(("other", [0]))).values()) == {
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    }


def test_a_newcomer_without_the_groups_protocol_makes_its_topics_uncertain() -> None:
    both = (*ORDERS, ("roundrobin", ORDERS[0][1]))
    story = GroupHarness()
    (a,) = story.stable("a", protocols=both)
    story.member("b", protocols=both[1:]).enter()
    a.commit()
    assert set(deleted(story.delete_offsets(("other", [0]))).values()) == {
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    }


def test_other_groups_with_members_keep_all_their_offsets() -> None:
    story = GroupHarness()
    (a,) = story.stable("a", protocol_type="connect")
    a.commit()
    request = story.delete_offsets(("orders", [0]))
    assert (request.error, request.rule) == (ErrorCode.NON_EMPTY_GROUP, Rule.GROUP_NOT_EMPTY)
    a.leave()
    assert set(deleted(story.delete_offsets(("orders", [0]))).values()) == {ErrorCode.NONE}


def test_a_group_all_members_of_which_left_while_joining_uses_nothing() -> None:
    story = GroupHarness()
    a = story.member("a", protocols=ORDERS)
    a.enter()
    a.leave()
    assert set(deleted(story.delete_offsets(("orders", [0]))).values()) == {ErrorCode.NONE}
