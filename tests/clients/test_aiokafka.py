"""A group of aiokafka consumers over four partitions, each in a process of its own."""

from tests.support.client_processes import ClientGroup
from tests.support.client_scenarios import members_come_and_go
from tests.support.member_commands import aiokafka_members


def test_aiokafka_members_join_leave_die_and_stop_while_nothing_is_lost(
    shared_client_group: ClientGroup,
) -> None:
    members_come_and_go(shared_client_group, aiokafka_members())
