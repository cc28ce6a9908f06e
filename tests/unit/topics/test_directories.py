"""Directories are named and marked as Kafka's, and those of deleted topics are never read."""

from pathlib import Path
from uuid import UUID

import pytest

from coordinator_server.ports import TopicInfo
from coordinator_server.topics.catalog import CorruptCatalog, TopicCatalog, to_base64
from coordinator_server.topics.directories import Directories, sweep
from tests.support.api import CountedIds

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


def catalog_of(data: Path) -> TopicCatalog:
    return TopicCatalog(data, CountedIds(), offsets_partitions=1)


def test_what_a_crash_left_of_a_deleted_topic_is_swept_with_what_was_put_aside(
    directories: Directories, tmp_path: Path
) -> None:
    catalog = catalog_of(tmp_path)
    orders, other, kept = catalog.create([("orders", 3), ("other", 1), ("kept", 1)])
    for index in range(3):
        make(directories, orders, index)
    make(directories, other)
    make(directories, kept)
    catalog.delete(["orders", "other"])
    (again,) = catalog.create([("orders", 3)])
    make(directories, again, 1)
    sweep(tmp_path)
    assert names(tmp_path) == ["kept-0", "orders-1", "topics.json"]
    assert "deleted" not in (tmp_path / "topics.json").read_text()
    assert directories.open_log(again, 1, create=False) is not None


def test_the_sweep_leaves_what_no_topic_of_ours_has_left(
    directories: Directories, tmp_path: Path
) -> None:
    catalog = catalog_of(tmp_path)
    (gone,) = catalog.create([("gone", 1)])
    catalog.delete(["gone"])
    make(directories)
    make(directories, TopicInfo("__consumer_offsets", gone.topic_id, 1))
    (tmp_path / "unmarked-0").mkdir()
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "empty-0" / "partition.metadata").write_text("version: 0\n")
    make(directories, gone)
    (tmp_path / "elsewhere").symlink_to(tmp_path / "gone-0")
    sweep(tmp_path)
    left = ["__consumer_offsets-0", "elsewhere", "empty-0", "orders-0", "topics.json", "unmarked-0"]
    assert names(tmp_path) == left


def test_a_broken_catalog_sweeps_nothing(directories: Directories, tmp_path: Path) -> None:
    make(directories)
    (tmp_path / "topics.json").write_text("{")
    with pytest.raises(CorruptCatalog):
        sweep(tmp_path)
    assert names(tmp_path) == ["orders-0", "topics.json"]


def test_the_longest_name_can_be_put_aside(directories: Directories, tmp_path: Path) -> None:
    longest = ORDERS._replace(name="x" * 249)
    make(directories, longest)
    assert directories.open_log(longest._replace(topic_id=UUID(int=9)), 0, create=False) is None
    (stray,) = names(tmp_path)
    assert len(stray) == 255
