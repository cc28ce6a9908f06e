"""Topics keep records over restarts, delete them with their topic, and survive failing disks."""

import asyncio
import errno
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.storage.segments.files import File, SystemFile, SystemFiles
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.shares import Share
from coordinator_server.topics import service
from coordinator_server.topics.catalog import deleted
from coordinator_server.topics.catalog_file import to_base64
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.partition import TopicPartitionLog
from coordinator_server.topics.service import INLINE_CHECK_BYTES, FetchWant, Topics
from coordinator_server.topics.validation import validated
from tests.support.data_plane import batch_of, make_topics, produced, records_in

NOW = 1_700_000_000_000


@pytest.fixture
def topics(tmp_path: Path) -> Topics:
    topics = make_topics(tmp_path)
    topics.catalog.create([("orders", 2)])
    return topics


def files_of(data: Path, topic: str) -> list[Path]:
    return list(data.glob(f"{topic}*"))


async def test_records_and_offsets_survive_a_restart(tmp_path: Path, topics: Topics) -> None:
    await produced(topics, "orders", 1, (NOW, b"a"), (NOW, b"b"))
    topics.close()
    again = make_topics(tmp_path)
    assert await records_in(again, "orders", 1) == [(0, b"a"), (1, b"b")]
    assert await produced(again, "orders", 1, (NOW, b"c")) == 2


async def test_a_deleted_topic_loses_its_records_and_its_files(
    tmp_path: Path, topics: Topics
) -> None:
    await produced(topics, "orders", 0, (NOW, b"a"))
    await topics.delete(["orders"])
    assert not files_of(tmp_path, "orders")
    topics.catalog.create([("orders", 2)])
    assert await records_in(topics, "orders", 0) == []
    assert await produced(topics, "orders", 0, (NOW, b"b")) == 0


async def test_topics_are_deleted_though_who_asked_for_it_goes_away(
    tmp_path: Path, topics: Topics
) -> None:
    topics.catalog.create([("payments", 1)])
    await produced(topics, "orders", 0, (NOW, b"a"))
    await produced(topics, "payments", 0, (NOW, b"a"))
    deleting = asyncio.create_task(topics.delete(["orders", "payments"]))
    await asyncio.sleep(0)
    deleting.cancel()
    await topics.removals()
    assert deleting.cancelled()
    assert not files_of(tmp_path, "orders")
    assert not files_of(tmp_path, "payments")
    assert not topics._partitions
    topics.catalog.create([("new", 1)])
    assert not deleted(tmp_path)


class Watched(SystemFiles):
    """Notes in which thread files are synced and closed."""

    def __init__(self) -> None:
        self.threads: dict[str, list[threading.Thread]] = {"sync": [], "close": []}

    def open(self, path: Path) -> File:
        return _WatchedFile(path, self.threads)


class _WatchedFile(SystemFile):
    def __init__(self, path: Path, threads: dict[str, list[threading.Thread]]) -> None:
        super().__init__(path)
        self._threads = threads

    def sync(self) -> None:
        self._threads["sync"].append(threading.current_thread())
        super().sync()

    def close(self) -> None:
        self._threads["close"].append(threading.current_thread())
        super().close()


async def test_a_deletion_syncs_nothing_and_holds_nobody_up(tmp_path: Path) -> None:
    files = Watched()
    topics = make_topics(tmp_path, files=files, flusher=Flusher(FlushPolicy.OS))
    topics.catalog.create([("orders", 2)])
    await produced(topics, "orders", 0, (NOW, b"a"))
    await produced(topics, "orders", 1, (NOW, b"a"))
    for threads in files.threads.values():
        threads.clear()
    await topics.delete(["orders"])
    assert not files.threads["sync"]
    assert len(files.threads["close"]) == 2
    assert threading.main_thread() not in files.threads["close"]


async def test_records_that_are_not_durable_when_their_topic_is_deleted_are_refused(
    topics: Topics,
) -> None:
    topic = topics.catalog.topics()["orders"]
    appended = await topics.produce(topic, 0, batch_of((NOW, b"a")))
    partition = topics._partition(topic, 0)
    assert isinstance(partition, TopicPartitionLog)
    partition.discard()
    with pytest.raises(OSError, match="deleted"):
        await appended.durable
    await topics.delete(["orders"])


async def test_a_topic_of_which_another_worker_has_partitions_is_remembered_as_deleted(
    tmp_path: Path,
) -> None:
    topics = make_topics(tmp_path, share=Share(0, 2))
    (orders,) = topics.catalog.create([("orders", 2)])
    await topics.delete(["orders"])
    topics.catalog.create([("new", 1)])
    assert deleted(tmp_path) == [to_base64(orders.topic_id)]


async def test_a_topic_is_deleted_while_its_log_is_being_opened(
    tmp_path: Path, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_opening, may_go_on = threading.Event(), threading.Event()
    make_directory = SystemFiles.make_directory

    def slowly(files: SystemFiles, path: Path) -> None:
        make_directory(files, path)
        if path.name == "orders-0":
            is_opening.set()
            may_go_on.wait(10)

    monkeypatch.setattr(SystemFiles, "make_directory", slowly)
    producing = asyncio.create_task(produced(topics, "orders", 0, (NOW, b"a")))
    await asyncio.to_thread(is_opening.wait, 10)
    deleting = asyncio.create_task(topics.delete(["orders"]))
    # It is deleted once that is durable, and its partitions are closed in the next turns.
    gone = asyncio.Event()
    topics.catalog.on_change(lambda name: gone.set() if name == "orders" else None)
    await gone.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    may_go_on.set()
    await deleting
    with pytest.raises(TopicError) as caught:
        await producing
    assert caught.value.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not files_of(tmp_path, "orders")


async def test_a_request_that_began_before_its_topic_was_deleted_makes_no_files(
    tmp_path: Path, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.catalog.topics()["orders"]
    large = batch_of((NOW, b"a" * 2 * INLINE_CHECK_BYTES))
    is_deleted = threading.Event()

    # The check runs in a thread: without waiting it may be done before the deletion is.
    def after_the_deletion(*args: Any, **options: Any) -> bytes:
        assert is_deleted.wait(10)
        return validated(*args, **options)

    monkeypatch.setattr(service, "validated", after_the_deletion)
    producing = asyncio.create_task(topics.produce(topic, 0, large))
    await asyncio.sleep(0)
    await topics.delete(["orders"])
    is_deleted.set()
    with pytest.raises(TopicError) as caught:
        await producing
    assert caught.value.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not files_of(tmp_path, "orders")


async def test_a_failure_to_open_is_no_bug_when_who_asked_has_gone(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_args: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(topics._directories, "open_log", failing)
    bugs: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, bug: bugs.append(bug))
    topic = topics.catalog.topics()["orders"]
    asking = asyncio.create_task(topics.produce(topic, 0, batch_of((NOW, b"a"))))
    await asyncio.sleep(0)
    partition = topics._partition(topic, 0)
    assert isinstance(partition, TopicPartitionLog)
    asking.cancel()
    await partition.wait_closed()
    await asyncio.sleep(0)
    gc.collect()
    assert asking.cancelled()
    assert not bugs


async def test_a_log_is_opened_once_however_many_ask(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    directories = topics._directories
    real = directories.open_log

    def counting(*args: object) -> object:
        opened.append(1)
        return real(*args)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(directories, "open_log", counting)
    await asyncio.gather(*(produced(topics, "orders", 0, (NOW, b"x")) for _ in range(10)))
    assert opened == [1]
    assert len(await records_in(topics, "orders", 0)) == 10


async def test_a_caller_that_gives_up_does_not_spoil_the_opening_for_others(
    topics: Topics,
) -> None:
    topic = topics.catalog.topics()["orders"]
    batch = batch_of((NOW, b"a"))
    given_up = asyncio.create_task(topics.produce(topic, 0, batch))
    other = asyncio.create_task(topics.produce(topic, 0, batch))
    await asyncio.sleep(0)
    given_up.cancel()
    appended = await other
    assert appended.base_offset == 0
    assert given_up.cancelled()


async def test_a_disk_that_fails_at_opening_is_a_storage_error_and_is_tried_again(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.catalog.topics()["orders"]

    def failing(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(topics._directories, "open_log", failing)
        with pytest.raises(TopicError, match="Too many open files") as refused:
            await topics.produce(topic, 0, batch_of((NOW, b"a")))
        assert refused.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    topics._partitions.clear()
    assert await produced(topics, "orders", 0, (NOW, b"a")) == 0


async def test_one_partition_that_cannot_be_opened_does_not_spoil_a_fetch(
    topics: Topics, tmp_path: Path
) -> None:
    await produced(topics, "orders", 0, (NOW, b"a"))
    (tmp_path / "orders-1").write_bytes(b"in the way")
    topic = topics.catalog.topics()["orders"]
    wants = [FetchWant(topic, 1, 0, 1000), FetchWant(topic, 0, 0, 1000)]
    failed, found = await topics.fetch(wants, max_wait_ms=60_000, min_bytes=1, max_bytes=1000)
    assert failed.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert found.error is ErrorCode.NONE
    assert found.records


async def test_after_closing_partitions_are_unknown(topics: Topics) -> None:
    topic = topics.catalog.topics()["orders"]
    await produced(topics, "orders", 0, (NOW, b"a"))
    partition = topics._partition(topic, 0)
    assert isinstance(partition, TopicPartitionLog)
    topics.close()
    with pytest.raises(TopicError) as refused:
        await partition.append(batch_of((NOW, b"b")))
    assert refused.value.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_that_cannot_be_stored_is_not_created_on_first_use(
    topics: Topics, tmp_path: Path
) -> None:
    (tmp_path / "topics.json.tmp").mkdir()
    await topics.auto_creation.create(["new"], 1)
    assert topics.catalog.get("new") is None


async def test_a_colliding_topic_does_not_keep_others_from_being_created(topics: Topics) -> None:
    topics.catalog.create([("a.b", 1)])
    await topics.auto_creation.create(["a_b", "new"], 1)
    assert topics.catalog.get("a_b") is None
    assert topics.catalog.get("new") is not None
