"""Kafka's directory names and marks; directories of deleted topics are never read."""

import threading
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from coordinator_protocol.batch import build_batch
from coordinator_server.ports import TopicInfo
from coordinator_server.storage.base import LogRecord
from coordinator_server.storage.segments.files import File, SystemFiles
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.recovery import Recovery
from coordinator_server.topics.catalog import CorruptCatalog, TopicCatalog
from coordinator_server.topics.catalog_file import to_base64
from coordinator_server.topics.directories import PartitionDirectories, sweep
from tests.support.fake_services import CountedIds

ORDERS = TopicInfo("orders", UUID(int=77), 2)


@pytest.fixture
def directories(tmp_path: Path) -> PartitionDirectories:
    return PartitionDirectories(tmp_path)


def names(data: Path) -> list[str]:
    return sorted(path.name for path in data.iterdir())


def make(directories: PartitionDirectories, topic: TopicInfo = ORDERS, index: int = 0) -> None:
    log = directories.open_log(topic, index, create=True)
    assert log is not None
    log.close()


def test_nothing_is_made_for_a_reader(directories: PartitionDirectories, tmp_path: Path) -> None:
    assert directories.open_log(ORDERS, 0, create=False) is None
    assert names(tmp_path) == []


def test_a_writer_gets_a_directory_with_the_topic_id(
    directories: PartitionDirectories, tmp_path: Path
) -> None:
    make(directories, index=1)
    assert names(tmp_path) == ["orders-1"]
    metadata = (tmp_path / "orders-1" / "partition.metadata").read_text()
    assert metadata == f"version: 0\ntopic_id: {to_base64(ORDERS.topic_id)}"


def test_a_reader_opens_what_a_writer_made(directories: PartitionDirectories) -> None:
    make(directories)
    log = directories.open_log(ORDERS, 0, create=False)
    assert log is not None
    log.close()


def test_the_directory_of_an_earlier_topic_of_that_name_is_put_aside(
    directories: PartitionDirectories, tmp_path: Path
) -> None:
    make(directories)
    again = ORDERS._replace(topic_id=UUID(int=78))
    assert directories.open_log(again, 0, create=False) is None
    (stray,) = names(tmp_path)
    assert stray.startswith("orders-0.")
    assert stray.endswith("-stray")


def test_an_open_log_of_an_earlier_topic_of_that_name_makes_no_file_in_its_directory(
    tmp_path: Path,
) -> None:
    catalog = TopicCatalog(tmp_path, CountedIds(), offsets_partitions=1)
    journal = Journal(tmp_path)
    directories = PartitionDirectories(tmp_path, journal=journal, segment_bytes=100)
    (old,) = catalog.create([("orders", 1)])
    earlier = directories.open_log(old, 0, create=True)
    assert earlier is not None
    batch = build_batch([LogRecord(b"k", b"v", 1)])
    for _ in range(3):
        earlier.append(batch)
    catalog.delete(["orders"])
    (new,) = catalog.create([("orders", 1)])
    later = directories.open_log(new, 0, create=True)
    assert later is not None
    before = names(tmp_path / "orders-0")
    with pytest.raises(OSError, match="deleted"):
        earlier.write_out()
    assert names(tmp_path / "orders-0") == before
    assert later.end_offset == 0


def test_removal_takes_all_partitions_and_no_other_topics(
    directories: PartitionDirectories, tmp_path: Path
) -> None:
    make(directories, index=0)
    make(directories, index=1)
    make(directories, ORDERS._replace(name="orders-0", topic_id=UUID(int=1)))
    directories.remove(ORDERS)
    assert names(tmp_path) == ["orders-0-0"]


def test_removal_leaves_a_new_topic_of_that_name_and_takes_what_that_has_put_aside(
    directories: PartitionDirectories, tmp_path: Path
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


def test_removal_leaves_a_new_topic_of_that_name_where_a_wrong_mark_is_refused(
    tmp_path: Path,
) -> None:
    catalog = TopicCatalog(tmp_path, CountedIds(), offsets_partitions=1)
    journal = Journal(tmp_path, topic_ids=lambda name: id_in(catalog, name))
    directories = PartitionDirectories(tmp_path, journal=journal)
    (old,) = catalog.create([("orders", 1)])
    catalog.delete(["orders"])
    catalog.removed(old)
    (new,) = catalog.create([("orders", 1)])
    make(directories, new)
    directories.remove(old)
    make(directories, new)
    assert "orders-0" in names(tmp_path)
    journal.close()


def id_in(catalog: TopicCatalog, name: str) -> str | None:
    topic = catalog.get(name)
    return None if topic is None else to_base64(topic.topic_id)


@pytest.mark.parametrize("recovery", list(Recovery))
def test_who_opens_a_deleted_topic_late_leaves_the_directory_to_a_new_one(
    tmp_path: Path, recovery: Recovery
) -> None:
    catalog = TopicCatalog(tmp_path, CountedIds(), offsets_partitions=1)
    journal = Journal(tmp_path, recovery=recovery, topic_ids=lambda name: id_in(catalog, name))
    directories = PartitionDirectories(tmp_path, journal=journal)
    (old,) = catalog.create([("orders", 1)])
    catalog.delete(["orders"])
    (new,) = catalog.create([("orders", 1)])
    make(directories, new)
    assert directories.open_log(old, 0, create=True) is None
    assert names(tmp_path) == ["orders-0", "topics.json"]
    make(directories, new)
    journal.close()


class OpeningFiles(SystemFiles):
    """Calls something, once, before the first segment is opened."""

    meanwhile: Callable[[], None] | None = None

    def open(self, path: Path) -> File:
        """See Files."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().open(path)


def test_a_new_topic_waits_until_the_log_of_the_deleted_one_is_open(tmp_path: Path) -> None:
    catalog = TopicCatalog(tmp_path, CountedIds(), offsets_partitions=1)
    (old,) = catalog.create([("orders", 1)])
    files = OpeningFiles()
    directories = PartitionDirectories(tmp_path, files=files)
    opened: list[str] = []

    def open_new() -> None:
        make(directories, catalog.topics()["orders"])
        opened.append("new")

    thread = threading.Thread(target=open_new)

    def made_anew() -> None:
        catalog.delete(["orders"])
        catalog.create([("orders", 1)])
        thread.start()
        thread.join(0.1)
        opened.append("old")

    files.meanwhile = made_anew
    log = directories.open_log(old, 0, create=True)
    assert log is not None
    thread.join(10)
    assert opened == ["old", "new"]
    log.close()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_failure_to_open_is_logged_unless_the_topic_was_deleted(
    tmp_path: Path, is_there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    known = [to_base64(ORDERS.topic_id)] * (10 if is_there else 1)
    journal = Journal(tmp_path, topic_ids=lambda _name: known.pop() if known else None)
    directories = PartitionDirectories(tmp_path, journal=journal)
    (tmp_path / "orders-0").write_text("no directory")
    with pytest.raises(OSError, match="orders-0"):
        directories.open_log(ORDERS, 0, create=True)
    assert ("partition_open_failed" in capsys.readouterr().out) is is_there
    journal.close()


def test_what_a_crash_left_of_a_removal_is_swept(
    directories: PartitionDirectories, tmp_path: Path
) -> None:
    make(directories)
    (tmp_path / f"payments-0.{'0' * 32}-delete").mkdir()
    sweep(tmp_path)
    assert names(tmp_path) == ["orders-0"]


def catalog_of(data: Path) -> TopicCatalog:
    return TopicCatalog(data, CountedIds(), offsets_partitions=1)


def test_what_a_crash_left_of_a_deleted_topic_is_swept_with_what_was_put_aside(
    directories: PartitionDirectories, tmp_path: Path
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
    directories: PartitionDirectories, tmp_path: Path
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


def test_a_broken_catalog_sweeps_nothing(directories: PartitionDirectories, tmp_path: Path) -> None:
    make(directories)
    (tmp_path / "topics.json").write_text("{")
    with pytest.raises(CorruptCatalog):
        sweep(tmp_path)
    assert names(tmp_path) == ["orders-0", "topics.json"]


def test_the_longest_name_can_be_put_aside(
    directories: PartitionDirectories, tmp_path: Path
) -> None:
    longest = ORDERS._replace(name="x" * 249)
    make(directories, longest)
    assert directories.open_log(longest._replace(topic_id=UUID(int=9)), 0, create=False) is None
    (stray,) = names(tmp_path)
    assert len(stray) == 255
