"""DescribeGroups of a classic group."""

from coordinator_server.group.classic.state import ClassicGroup, ClassicGroupState
from coordinator_server.group.effects import Described, DescribedMember


def describe(group: ClassicGroup) -> Described:
    """The group as Kafka shows it: metadata and protocol only of a Stable group."""
    stable = group.state is ClassicGroupState.STABLE
    name = group.protocol_name if stable else None
    return Described(
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_name=name or "",
        members=[
            DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                b"" if name is None else member.metadata(name),
                member.assignment,
            )
            for member in group.members.values()
        ],
    )
