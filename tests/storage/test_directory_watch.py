"""The directories of open logs are watched: one that is gone is a loss, unless its topic is."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.storage.segments.directory_watch import DirectoryWatch
from coordinator_server.storage.segments.guard import DirectoryGuard
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.log_identity import PARTITION_METADATA

NAME = "orders-0"
TOPIC_ID = "b3JkZXJzLW9yZGVycy0wMA"
MARK = f"version: 0\ntopic_id: {TOPIC_ID}"


class Watched:
    """A log, and what was said of it."""

    def __init__(self, data: Path) -> None:
        self.topics: dict[str, str] = {"orders": TOPIC_ID}
        self.reports: list[str] = []
        self.lost: list[str] = []
        self.guard = DirectoryGuard(data)
        self.journal = Journal(data, topic_ids=self.topics.get)
        self.log = SegmentLog(data / NAME, journal=self.journal)
        self.watch = DirectoryWatch(
            self.guard, self.journal, lambda name, _error: self.lost.append(name), self._report
        )

    def _report(self, event: str, **_fields: Any) -> None:
        self.reports.append(event)

    def look(self) -> None:
        asyncio.run(self.watch.look())


def make_marked(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / PARTITION_METADATA).write_text(MARK)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    data = tmp_path / "data"
    make_marked(data / NAME)
    watched = Watched(data)
    yield watched
    watched.guard.close()


def test_a_log_whose_directory_is_there_goes_on(watched: Watched) -> None:
    watched.look()
    watched.look()
    assert watched.log.is_open
    assert watched.reports == watched.lost == []


def test_a_log_whose_directory_is_gone_is_given_up(watched: Watched) -> None:
    shutil.rmtree(watched.log.directory)
    watched.look()
    assert not watched.log.is_open
    assert watched.lost == [NAME]
    assert watched.reports == ["log_directory_lost"]


def test_a_log_whose_directory_was_replaced_is_given_up(watched: Watched) -> None:
    watched.look()
    watched.log.directory.rename(watched.log.directory.with_name("elsewhere"))
    make_marked(watched.log.directory)
    watched.look()
    assert watched.lost == [NAME]


def test_a_log_of_a_topic_that_was_deleted_is_no_loss(watched: Watched) -> None:
    del watched.topics["orders"]
    shutil.rmtree(watched.log.directory)
    watched.look()
    assert watched.reports == watched.lost == []


def test_a_log_that_was_closed_while_it_was_looked_at_is_no_loss(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = watched.guard.check

    def check_while_it_is_deleted() -> None:
        check()
        watched.log.close()
        shutil.rmtree(watched.log.directory)

    monkeypatch.setattr(watched.guard, "check", check_while_it_is_deleted)
    watched.look()
    assert watched.reports == watched.lost == []


def test_all_logs_are_given_up_with_the_data_directory(watched: Watched) -> None:
    data = watched.guard.path
    data.rename(data.with_name("elsewhere"))
    watched.look()
    watched.look()
    assert watched.lost == [NAME]
    assert watched.reports == ["data_directory_lost"]
