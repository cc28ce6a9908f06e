"""Every client with its assignment strategies and protocol versions: joins, reads, commits."""

import pytest

from tests.support.members import SaramaMembers, aiokafka_members, confluent_members
from tests.support.processes import Room
from tests.support.stories import one_comes_and_goes


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky"])
def test_aiokafka_works_with_strategy(shared_room: Room, strategy: str) -> None:
    one_comes_and_goes(shared_room, aiokafka_members(strategy))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_librdkafka_works_with_strategy(shared_room: Room, strategy: str) -> None:
    cooperative = strategy.startswith("cooperative")
    one_comes_and_goes(shared_room, confluent_members(strategy), same_generation=not cooperative)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky"])
def test_sarama_works_with_strategy(
    shared_room: Room, sarama_members: SaramaMembers, strategy: str
) -> None:
    one_comes_and_goes(shared_room, sarama_members(strategy))


@pytest.mark.parametrize("version", ["1.0.0", "4.1.0"])
def test_sarama_works_with_version(
    shared_room: Room, sarama_members: SaramaMembers, version: str
) -> None:
    one_comes_and_goes(shared_room, sarama_members(version=version))
