"""The pure core: what a group is and does, without a clock, a socket or a log of its own.

Events go in, effects come out; `docs/core.md` shows how to use it on its own. Nothing here
imports asyncio, uvloop or any input or output.
"""

from coordinator_server.group.context import Context, Limits, MemberIds
from coordinator_server.group.effects import Effects, Refuse, Reply, Result, Write
from coordinator_server.group.events import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    Event,
    ExpireOffsets,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    Loaded,
    Released,
    Sync,
    Tick,
    TopicsDeleted,
)
from coordinator_server.group.group import Group
from coordinator_server.group.purgatory import NEVER
from coordinator_server.group.rebalance_events import (
    Culprit,
    MemberRemoved,
    Observation,
    OffsetsRemoved,
    RebalanceEvent,
    RebalanceReason,
    RebalanceStarted,
)
from coordinator_server.group.replay import apply

__all__ = [
    "NEVER",
    "CommitOffsets",
    "Context",
    "Culprit",
    "DeleteGroup",
    "DeleteOffsets",
    "Describe",
    "Effects",
    "Event",
    "ExpireOffsets",
    "FetchOffsets",
    "Group",
    "Heartbeat",
    "Join",
    "Leave",
    "LeavingMember",
    "Limits",
    "Loaded",
    "MemberIds",
    "MemberRemoved",
    "Observation",
    "OffsetsRemoved",
    "RebalanceEvent",
    "RebalanceReason",
    "RebalanceStarted",
    "Refuse",
    "Released",
    "Reply",
    "Result",
    "Sync",
    "Tick",
    "TopicsDeleted",
    "Write",
    "apply",
]
