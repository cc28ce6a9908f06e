"""Directories are named and marked as Kafka's, and those of deleted topics are never read."""

from pathlib import Path
from uuid import UUID

import pytest

from coordinator_server.ports import TopicInfo
from coordinator_server.topics.catalog import to_base64
from coordinator_server.topics.directories import Directories, sweep

ORDERS = TopicInfo("orders", UUID(int=77), 2)


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return Directories(tmp_path)


def names(data: Path) -> list[str]:
    return sorted(path.name for path in data.iterdir())


def make(directories: Directories, topic: TopicInfo = ORDERS, index: int = 0) -> None:
    log = directories.open_log(topic, index, create=True)
    assert log is not None
    log.close()


def test_nothing_is_made_for_a_reader(directories: Directories, tmp_path: Path) -> None:
    assert directories.open_log(ORDERS, 0, create=False) is None
    assert names(tmp_path) == []


def test_a_writer_gets_a_directory_with_the_topic_id(
    directories: Directories, tmp_path: Path
) -> None:
    make(directories, index=1)
    assert names(tmp_path) == ["orders-1"]
    metadata = (tmp_path / "orders-1" / "partition.metadata").read_text()
    assert metadata == f"version: 0\ntopic_id: {to_base64(ORDERS.topic_id)}"


def test_a_reader_opens_what_a_writer_made(directories: Directories) -> None:
    make(directories)
    log = directories.open_log(ORDERS, 0, create=False)
    assert log is not None
    log.close()


def test_the_directory_of_an_earlier_topic_of_that_name_is_put_aside(
    directories: Directories, tmp_path: Path
) -> None:
    make(directories)
    again = ORDERS._replace(topic_id=UUID(int=78))
    assert directories.open_log(again, 0, create=False) is None
    (stray,) = names(tmp_path)
    assert stray.startswith("orders-0.")
    assert stray.endswith("-stray")


def test_removal_takes_all_partitions_and_no_other_topics(
    directories: Directories, tmp_path: Path
) -> None:
    make(directories, index=0)
    make(directories, index=1)
    make(directories, ORDERS._replace(name="orders-0", topic_id=UUID(int=1)))
    directories.remove(ORDERS)
    assert names(tmp_path) == ["orders-0-0"]


def test_removal_leaves_a_new_topic_of_that_name_and_takes_what_that_has_put_aside(
    directories: Directories, tmp_path: Path
) -> None:
    make(directories, index=0)
    make(directories, index=1)
    make(directories, ORDERS._replace(topic_id=UUID(int=78)))
    (tmp_path / f"other-0.{'0' * 32}-stray").mkdir()
    directories.remove(ORDERS)
    assert names(tmp_path) == ["orders-0", f"other-0.{'0' * 32}-stray"]
    log = directories.open_log(ORDERS._replace(topic_id=UUID(int=78)), 0, create=False)
    assert log is not None
    log.close()


def test_what_a_crash_left_of_a_removal_is_swept(directories: Directories, tmp_path: Path) -> None:
    make(directories)
    (tmp_path / f"payments-0.{'0' * 32}-delete").mkdir()
    sweep(tmp_path)
    assert names(tmp_path) == ["orders-0"]


def test_the_longest_name_can_be_put_aside(directories: Directories, tmp_path: Path) -> None:
    longest = ORDERS._replace(name="x" * 249)
    make(directories, longest)
    assert directories.open_log(longest._replace(topic_id=UUID(int=9)), 0, create=False) is None
    (stray,) = names(tmp_path)
    assert len(stray) == 255
