"""Every client with its assignment strategies and protocol versions: joins, reads, commits."""

import pytest

from tests.support.client_processes import ClientGroup
from tests.support.client_scenarios import one_comes_and_goes
from tests.support.member_commands import SaramaMembers, aiokafka_members, confluent_members


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky"])
def test_aiokafka_works_with_strategy(shared_client_group: ClientGroup, strategy: str) -> None:
    one_comes_and_goes(shared_client_group, aiokafka_members(strategy))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_librdkafka_works_with_strategy(shared_client_group: ClientGroup, strategy: str) -> None:
    cooperative = strategy.startswith("cooperative")
    one_comes_and_goes(
        shared_client_group, confluent_members(strategy), same_generation=not cooperative
    )


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky"])
def test_sarama_works_with_strategy(
    shared_client_group: ClientGroup, sarama_members: SaramaMembers, strategy: str
) -> None:
    one_comes_and_goes(shared_client_group, sarama_members(strategy))


@pytest.mark.parametrize("version", ["1.0.0", "4.1.0"])
def test_sarama_works_with_version(
    shared_client_group: ClientGroup, sarama_members: SaramaMembers, version: str
) -> None:
    one_comes_and_goes(shared_client_group, sarama_members(version=version))
