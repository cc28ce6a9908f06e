"""A group of sarama consumers over four partitions, each in a process of its own."""

from tests.support.members import SaramaMembers
from tests.support.processes import Room
from tests.support.stories import members_come_and_go


def test_sarama_members_join_leave_die_and_stop_while_nothing_is_lost(
    shared_room: Room, sarama_members: SaramaMembers
) -> None:
    members_come_and_go(shared_room, sarama_members())
