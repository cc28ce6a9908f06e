"""Which protocol a group uses, and who cannot take part in it."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.subscription import Subscription, encode_subscription
from coordinator_server.group.classic.subscription import subscribed_topics
from coordinator_server.group.effects import Rule
from tests.support.group_harness import DELAY_MS, GroupHarness

PROTOCOLS = [("range", encode_subscription(Subscription(["orders"])))]


def offers(names: str) -> list[tuple[str, bytes]]:
    return [(name, name.encode()) for name in names.split()]


@pytest.mark.parametrize(
    ("preferences", "elected"),
    [
        (["range"], "range"),
        (["range roundrobin", "roundrobin"], "roundrobin"),
        (["range roundrobin", "roundrobin range", "roundrobin range"], "roundrobin"),
        (["a b c", "b c a", "c b a", "c a b"], "c"),
        (["a b", "x b", "b y"], "b"),
        # Ties go as Java's hash map has it: by hash, not by order.
        (["roundrobin range", "range roundrobin"], "range"),
        (["range sticky", "sticky range"], "sticky"),
        (["cooperative-sticky roundrobin", "roundrobin cooperative-sticky"], "roundrobin"),
        (["b a", "a b"], "a"),
    ],
)
def test_the_protocol_all_support_and_most_prefer_is_elected(
    preferences: list[str], elected: str
) -> None:
    story = GroupHarness()
    requests = [
        story.member(f"m{i}", protocols=offers(names)).enter()
        for i, names in enumerate(preferences)
    ]
    story.advance(10 * DELAY_MS)
    assert {request.joined.protocol_name for request in requests} == {elected}
    assert {metadata for _, _, metadata in requests[0].joined.members} == {elected.encode()}


def test_the_vote_is_taken_anew_in_every_generation() -> None:
    story = GroupHarness()
    a, b = story.member("a", protocols=offers("x y")), story.member("b", protocols=offers("x"))
    story.settle(a, b)
    assert story.classic.protocol_name == "x"
    b.leave()
    a.protocols = offers("y x")
    assert a.join().joined.protocol_name == "y"


def test_a_protocol_named_twice_counts_once() -> None:
    story = GroupHarness()
    a = story.member("a", protocols=offers("x x y"))
    b = story.member("b", protocols=offers("y"))
    story.settle(a, b)
    assert story.classic.protocol_name == "y"


@pytest.mark.parametrize(("protocol_type", "names"), [("", "range"), ("consumer", ""), ("", "")])
def test_the_first_member_has_to_offer_something(protocol_type: str, names: str) -> None:
    story = GroupHarness()
    poor = story.member("a", protocol_type=protocol_type, protocols=offers(names))
    request = poor.join()
    assert request.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert request.rule is Rule.PROTOCOL_INCONSISTENT
    story.stable("b")
    assert story.state == "Stable"


@pytest.mark.parametrize(
    ("protocol_type", "names"), [("connect", "range"), ("consumer", "other"), ("consumer", "")]
)
@pytest.mark.parametrize("known", [True, False])
def test_a_newcomer_without_anything_in_common_is_refused(
    protocol_type: str, names: str, known: bool
) -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    stranger = story.member("b", protocol_type=protocol_type, protocols=offers(names), known=known)
    assert stranger.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert a.heartbeat().error is ErrorCode.NONE


def test_a_member_cannot_leave_the_common_ground() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    b.protocols = offers("other")
    assert b.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert story.state == "Stable"
    assert a.heartbeat().error is ErrorCode.NONE


def test_a_newcomer_has_to_support_what_everybody_does_even_if_it_is_not_in_use() -> None:
    story = GroupHarness()
    a = story.member("a", protocols=offers("x y"))
    story.settle(a)
    b = story.member("b", protocols=offers("y"))
    b.enter()
    assert a.join().joined.protocol_name == "y"


def test_an_empty_group_may_change_its_type() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    story.stable("b", protocol_type="connect", protocols=offers("v1"))
    assert story.describe().protocol_type == "connect"


def test_members_vote_only_for_what_all_support() -> None:
    story = GroupHarness()
    offers = ("x", "range", "sticky"), ("y", "sticky", "range"), ("z", "sticky", "range")
    members = [
        story.member(f"m{number}", protocols=[(name, b"") for name in names])
        for number, names in enumerate(offers)
    ]
    requests = [member.enter() for member in members]
    story.advance(6_000)
    assert {request.joined.protocol_name for request in requests} == {"sticky"}


def test_members_that_are_no_consumers_subscribe_to_nothing_that_is_known() -> None:
    story = GroupHarness()
    story.stable("a", protocols=PROTOCOLS, protocol_type="connect")
    assert subscribed_topics(story.classic) is None


def test_nothing_is_known_of_a_protocol_that_a_member_does_not_support() -> None:
    (a,) = (story := GroupHarness()).stable("a", protocols=offers("range"))
    member = story.classic.members[a.member_id]
    assert member.metadata("range") == b"range"
    with pytest.raises(LookupError, match="does not support 'sticky'"):
        member.metadata("sticky")
