"""The checks of member id, instance id and generation that several requests share."""

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.classic import state as states
from coordinator_server.group.classic.state import ClassicGroup
from coordinator_server.group.effects import Refuse, Rule
from coordinator_server.group.events import CommitOffsets, Sync


def refuse_member(
    group: ClassicGroup, member_id: str, group_instance_id: str | None
) -> Refuse | None:
    """Why this member id is not a member, or is fenced by its successor (KIP-345)."""
    if group_instance_id is not None:
        current = group.static_members.get(group_instance_id)
        if current is None:
            return unknown_instance(member_id, group_instance_id)
        if current != member_id:
            return Refuse(
                ErrorCode.FENCED_INSTANCE_ID,
                Rule.INSTANCE_FENCED,
                f"member {current!r} has taken over {group_instance_id!r} from {member_id!r}",
                member_id,
            )
    if member_id in group.members:
        return None
    return unknown_member(member_id)


def unknown_instance(member_id: str, group_instance_id: str | None) -> Refuse:
    """The answer to a group instance id nobody has."""
    return Refuse(
        ErrorCode.UNKNOWN_MEMBER_ID,
        Rule.INSTANCE_UNKNOWN,
        f"no member has the group instance id {group_instance_id!r}",
        member_id,
    )


def unknown_member(member_id: str) -> Refuse:
    """The answer to a member id nobody has."""
    return Refuse(
        ErrorCode.UNKNOWN_MEMBER_ID,
        Rule.MEMBER_UNKNOWN,
        f"{member_id!r} is no member",
        member_id,
    )


def not_empty(group: ClassicGroup) -> Refuse:
    """The answer to what may only be done to a group without members."""
    return Refuse(
        ErrorCode.NON_EMPTY_GROUP,
        Rule.GROUP_NOT_EMPTY,
        f"the group is {group.state} with {len(group.members)} members",
    )


def refuse_generation(group: ClassicGroup, generation: int) -> Refuse | None:
    """Why a request of this generation comes too late or from nowhere."""
    if generation == group.generation:
        return None
    return Refuse(
        ErrorCode.ILLEGAL_GENERATION,
        Rule.GENERATION_DIFFERS,
        f"it sent generation {generation}, the group is at {group.generation}",
        since_ms=group.generation_since,
    )


def refuse_sync(group: ClassicGroup, event: Sync) -> Refuse | None:
    """Kafka's validateSyncGroup: member, generation, protocol (KIP-559).

    A group that was Empty has no protocol before its members have joined, and none differs.
    """
    refusal = refuse_member(group, event.member_id, event.group_instance_id)
    if refusal is not None:
        return refusal
    refusal = refuse_generation(group, event.generation)
    if refusal is not None:
        return refusal
    if event.protocol_type not in (None, group.protocol_type):
        return _other_protocol(event.protocol_type, group.protocol_type)
    if group.protocol_name is not None and event.protocol_name not in (None, group.protocol_name):
        return _other_protocol(event.protocol_name, group.protocol_name)
    return None


def _other_protocol(sent: str | None, ours: str | None) -> Refuse:
    return Refuse(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        Rule.PROTOCOL_INCONSISTENT,
        f"protocol {sent!r} was sent, the group uses {ours!r}",
    )


def refuse_commit(group: ClassicGroup, event: CommitOffsets) -> Refuse | None:
    """ClassicGroup.validateOffsetCommit, for commits outside of transactions."""
    if event.generation < 0 and group.state is states.EMPTY:
        return None
    if event.generation >= 0 or event.member_id or event.group_instance_id is not None:
        refusal = refuse_member(group, event.member_id, event.group_instance_id)
        if refusal is None:
            refusal = refuse_generation(group, event.generation)
        if refusal is not None:
            return refusal
    else:
        return Refuse(
            ErrorCode.UNKNOWN_MEMBER_ID,
            Rule.COMMIT_WITHOUT_MEMBERSHIP,
            f"only members may commit, and it has {len(group.members)}",
        )
    if group.state is states.COMPLETING_REBALANCE:
        return Refuse(
            ErrorCode.REBALANCE_IN_PROGRESS,
            Rule.REBALANCE_UNDER_WAY,
            f"generation {group.generation} awaits its assignment",
        )
    return None
