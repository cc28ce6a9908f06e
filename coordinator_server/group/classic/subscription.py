"""What a classic group subscribes to, for those who need to know. The state machine does not."""

from collections.abc import Iterable

from coordinator_server.group.classic.state import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from protocol.errors import Malformed
from protocol.subscription import subscribed_topics as topics_of


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
