"""Why a member joined again: something new to say, or the same with other partitions."""

import pytest

from coordinator_protocol.subscription import Subscription, encode_subscription
from coordinator_server.group.rebalance_events import Culprit
from tests.support.group_harness import GroupHarness, Member


def java(generation: int, *owned: int, topics: tuple[str, ...] = ("t",), rack: str = "r") -> bytes:
    """What ConsumerCoordinator says: its generation and what it owns are in it."""
    return encode_subscription(Subscription(topics, None, {"t": owned}, generation, rack))


def spoken(blob: bytes) -> tuple[tuple[str, bytes], ...]:
    return (("range", blob), ("cooperative-sticky", blob))


def pair() -> tuple[GroupHarness, Member, Member]:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b")
    a.protocols = b.protocols = spoken(java(-1))
    story.settle(a, b)
    return story, a, b


def test_a_java_leader_that_joins_again_for_its_topics_has_not_changed_its_subscription() -> None:
    story, a, b = pair()
    a.protocols = spoken(java(1, 0, 1))
    a.join("cached metadata has changed")
    b.join()
    story.sync_all(a, b)
    assert story.rebalances[-1].reason == "leader_rejoined"


def test_a_follower_that_gives_up_partitions_joins_again() -> None:
    story, a, b = pair()
    b.protocols = spoken(java(1, 1))
    b.join("need to revoke partitions and re-join")
    a.join()
    story.sync_all(a, b)
    assert story.rebalances[-1].reason == "follower_rejoined"


@pytest.mark.parametrize(
    "news",
    [
        spoken(java(1, topics=("t", "u"))),
        spoken(java(1, rack="another")),
        spoken(java(1))[::-1],
        spoken(java(1))[:1],
        (*spoken(java(1)), ("third", b"")),
        spoken(b"no subscription"),
    ],
)
@pytest.mark.parametrize("leads", [True, False])
def test_other_topics_racks_or_protocols_are_a_change(
    news: tuple[tuple[str, bytes], ...], leads: bool
) -> None:
    story, a, b = pair()
    who, other = (a, b) if leads else (b, a)
    who.protocols = news
    who.join()
    other.join()
    story.sync_all(a, b)
    assert story.rebalances[-1].reason == "metadata_changed"


def test_what_a_member_of_another_type_says_is_compared_byte_by_byte() -> None:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b")
    for each in (a, b):
        each.protocol_type, each.protocols = "connect", spoken(java(-1))
    story.settle(a, b)
    b.protocols = spoken(java(1))
    b.join()
    a.join()
    story.sync_all(a, b)
    assert story.rebalances[-1].reason == "metadata_changed"


def test_after_a_load_a_member_that_says_the_same_has_changed_nothing() -> None:
    story, a, b = pair()
    story.restart()
    b.join()
    a.join()
    story.sync_all(a, b)
    assert story.rebalances[-1].reason == "follower_rejoined"
    story.restart()
    a.join("cached metadata has changed")
    b.join()
    story.sync_all(a, b)
    assert story.rebalances[-1].reason == "leader_rejoined"


def test_the_culprit_of_a_replacement_is_who_came_not_who_it_was() -> None:
    story = GroupHarness()
    a, b = story.member("a", "one"), story.member("b", "two")
    a.protocols = b.protocols = (("range", b""), ("roundrobin", b""))
    story.settle(a, b)
    new = b.restarted()
    new.protocols = (("roundrobin", b""),)
    new.join("moved", client_id="b-v2", client_host="/10.0.0.9")
    a.join()
    story.sync_all(a, new)
    event = story.rebalances[-1]
    assert event.reason == "static_replaced"
    assert event.culprit == Culprit(new.member_id, "two", "b-v2", "/10.0.0.9")
