"""A group of sarama consumers over four partitions, each in a process of its own."""

from tests.support.client_processes import ClientGroup
from tests.support.client_scenarios import members_come_and_go
from tests.support.member_commands import SaramaMembers


def test_sarama_members_join_leave_die_and_stop_while_nothing_is_lost(
    shared_client_group: ClientGroup, sarama_members: SaramaMembers
) -> None:
    members_come_and_go(shared_client_group, sarama_members())
