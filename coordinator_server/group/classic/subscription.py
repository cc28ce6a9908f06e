"""The topics that a classic group subscribes to; the state machine does not use them."""

from collections.abc import Iterable, Sequence

from coordinator_protocol.errors import Malformed
from coordinator_protocol.subscription import decode_subscription
from coordinator_protocol.subscription import subscribed_topics as topics_of
from coordinator_server.group.classic.state import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from coordinator_server.group.events import ProtocolMetadata


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """The topics the members subscribe to; None where that cannot be told.

    As `ClassicGroup.computeSubscribedTopics`, of the selected protocol's metadata; what does not
    parse makes the group's subscription unknown and disturbs nothing else.
    """
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    if not group.members:
        return frozenset()
    name = group.protocol_name
    if name is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        metadata = dict(member.protocols).get(name)
        if metadata is None:
            return None
        try:
            topics.update(topics_of(metadata))
        except Malformed:
            return None
    return frozenset(topics)


def topics_in_use(group: ClassicGroup, topics: Iterable[str]) -> frozenset[str]:
    """Those of `topics` whose offsets are in use; in doubt a consumer group uses all of them."""
    subscribed = subscribed_topics(group)
    if subscribed is not None:
        return subscribed.intersection(topics)
    return frozenset(topics if group.protocol_type == CONSUMER_PROTOCOL_TYPE else ())


def subscribes_alike(
    protocol_type: str | None, before: Sequence[ProtocolMetadata], now: Sequence[ProtocolMetadata]
) -> bool:
    """Whether both name the same protocols, and in each the same topics and rack.

    Which is for people to know: a group rebalances if any byte differs, and what the Java consumer
    says always does, with its generation and what it owns. Nor do assignors' user data count. After
    a load one protocol of a member is known, and no other is compared.
    """
    if len(before) == 1:
        now = [each for each in now if each[0] == before[0][0]]
    return len(before) == len(now) and all(
        was[0] == is_now[0]
        and (
            was[1] == is_now[1]
            or (protocol_type == CONSUMER_PROTOCOL_TYPE and _same_topics(was[1], is_now[1]))
        )
        for was, is_now in zip(before, now, strict=True)
    )


def _same_topics(before: bytes, now: bytes) -> bool:
    try:
        was, is_now = decode_subscription(before), decode_subscription(now)
    except Malformed:
        return False
    return set(was.topics) == set(is_now.topics) and was.rack_id == is_now.rack_id
