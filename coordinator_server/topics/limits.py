"""How many partitions topics may have: `max.partitions.per.topic` and `max.partitions.total`.

Kafka leaves such limits to a `create.topic.policy.class.name`, whose refusals clients see as
POLICY_VIOLATION. Without a limit a few hundred requests make answers about all topics so large
that making one takes seconds.
"""

from typing import Final, NamedTuple

from coordinator_protocol.errors import ErrorCode
from coordinator_server.topics.errors import TopicError

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""As in Kafka, no request makes more partitions than this."""


class PartitionLimits(NamedTuple):
    """The most partitions of one topic, and of all topics but the internal ones together."""

    per_topic: int
    total: int

    def check(self, name: str, partitions: int, there_are: int, added: int) -> None:
        """Raise the TopicError with which a topic of so many partitions is refused.

        Args:
            name: of the topic.
            partitions: how many it is to have.
            there_are: partitions of all topics.
            added: how many more there would be.
        """
        if partitions > self.per_topic:
            raise TopicError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic '{name}' is to have {partitions} partitions; "
                f"max.partitions.per.topic allows {self.per_topic}.",
            )
        if there_are + added > self.total:
            raise TopicError(
                ErrorCode.POLICY_VIOLATION,
                f"Topic '{name}' would add {added} partitions to the {there_are} of all topics; "
                f"max.partitions.total allows {self.total}.",
            )


DEFAULT_LIMITS: Final = PartitionLimits(10_000, 200_000)
