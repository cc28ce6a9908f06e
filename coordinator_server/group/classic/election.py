"""The election of the leader, and the members' vote on the protocol."""

from collections import Counter

from coordinator_protocol.java import hash_map_bucket
from coordinator_server.group.classic.state import ClassicGroup
from coordinator_server.group.effects import JoinedMember


def elect_joined_leader(group: ClassicGroup) -> bool:
    """Keep the leader if it has joined, else elect a member that has; whether there is one."""
    if group.leader is None:
        return False
    if group.members[group.leader].join_token is not None:
        return True
    for member in group.members.values():
        if member.join_token is not None:
            group.leader = member.member_id
            return True
    return False


def select_protocol(group: ClassicGroup) -> str:
    """The protocol that all support and most prefer; the group must have members.

    A tie goes as in Kafka, to the first in the order of a Java hash map.
    """
    if len(group.supported_protocols) == 1:
        return next(iter(group.supported_protocols))
    everybody = len(group.members)
    candidates = frozenset(
        name for name, count in group.supported_protocols.items() if count == everybody
    )
    if len(candidates) == 1:
        return next(iter(candidates))
    votes = Counter(member.vote(candidates) for member in group.members.values())
    most = max(votes.values())
    return min(
        (name for name, count in votes.items() if count == most),
        key=lambda name: hash_map_bucket(name, len(votes)),
    )


def joined_members(group: ClassicGroup) -> list[JoinedMember]:
    """The members as the leader's response lists them."""
    name = group.protocol_name
    assert name is not None, "a generation with members has a protocol"
    return [
        (member.member_id, member.group_instance_id, member.metadata(name))
        for member in group.members.values()
    ]
