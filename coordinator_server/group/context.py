"""The context of every event: time, ids and limits, the only inputs beside the event."""

from dataclasses import dataclass
from typing import Final, Protocol

RECORD_OVERHEAD: Final = 128
"""More bytes than a record, or a batch of one, has beside its key, value and headers."""


class MemberIds(Protocol):
    """Generates the random part of member ids."""

    def member_suffix(self) -> str:
        """The `<uuid>` of `<client id>-<uuid>`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Kafka's settings that bound a group; durations in milliseconds."""

    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000
    """ClassicGroup's CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS: not configurable in Kafka."""
    group_max_size: int = 2_147_483_647
    member_metadata_max_bytes: int = 4 * 1024 * 1024
    """The most metadata of a member, in bytes of all its protocols together."""
    max_groups: int = 1_000_000
    """How many groups may be in memory; kept by the runtime, no group knows of the others."""
    offset_metadata_max_chars: int = 4_096
    """UTF-16 units, whatever `offset.metadata.max.bytes` is called."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    max_append_bytes: int = 16 * 1024 * 1024
    """The most bytes of one atomic append."""
    history_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """How long the log keeps finished rebalances; 0: it gets none."""
    history_max_rebalances: int = 1_000
    """How many of a group it keeps at most."""


@dataclass(slots=True)
class Context:
    """Time, ids and limits for one turn."""

    now: int
    """Monotonic milliseconds: deadlines."""
    wall: int
    """Wall-clock milliseconds since the epoch: record timestamps, retention."""
    ids: MemberIds
    limits: Limits
