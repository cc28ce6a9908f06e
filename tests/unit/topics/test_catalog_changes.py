"""Topics are created and deleted beside the event loop, several with one write."""

import asyncio
import threading
from pathlib import Path

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.clock import ManualClock
from coordinator_server.storage.segments.files import SYSTEM_FILES, SystemFiles
from coordinator_server.topics.auto_creation import AutoCreation
from coordinator_server.topics.catalog import TopicCatalog, deleted, load
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.limits import PartitionLimits
from tests.support.fake_services import CountedIds


class GatedFiles(SystemFiles):
    """Files whose replacement waits for `gate`, fails with `failure`, and is counted."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None
        self.threads: list[int] = []

    def replace(self, path: Path, data: bytes) -> None:
        self.threads.append(threading.get_ident())
        assert self.gate.wait(30)
        if self.failure is not None:
            raise self.failure
        SYSTEM_FILES.replace(path, data)


def opened(tmp_path: Path, files: SystemFiles, total: int = 1_000) -> TopicCatalog:
    limits = PartitionLimits(100, total)
    return TopicCatalog(tmp_path, CountedIds(), offsets_partitions=3, files=files, limits=limits)


async def create(catalog: TopicCatalog, name: str, partitions: int = 1) -> None:
    await catalog.create_reserved([catalog.reserve(name, partitions)])


async def test_the_loop_does_not_write(tmp_path: Path) -> None:
    files = GatedFiles()
    catalog = opened(tmp_path, files)
    files.threads.clear()
    await create(catalog, "orders")
    assert catalog.get("orders") == load(tmp_path / "topics.json")["orders"]
    assert files.threads
    assert threading.get_ident() not in files.threads


class HurriedClock(ManualClock):
    """Every look at it is later than a turn may last."""

    def monotonic_ms(self) -> int:
        self.advance(1_000)
        return super().monotonic_ms()


async def test_nothing_stays_reserved_for_a_client_that_goes_away(tmp_path: Path) -> None:
    catalog = opened(tmp_path, GatedFiles())
    creation = AutoCreation(catalog, HurriedClock(), 1_000)
    asked = asyncio.create_task(creation.create([f"new-{n}" for n in range(100)], 1))
    while not catalog.reserved:  # noqa: ASYNC110 - a few turns of the loop
        await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])
    assert catalog.reserved == 0
    await creation.create(["new-0"], 1)
    assert catalog.get("new-0") is not None


async def test_creations_during_a_write_share_the_next_one(tmp_path: Path) -> None:
    files = GatedFiles()
    catalog = opened(tmp_path, files)
    files.gate.clear()
    files.threads.clear()
    first = asyncio.create_task(create(catalog, "first"))
    await asyncio.sleep(0)
    others = [asyncio.create_task(create(catalog, f"other-{n}")) for n in range(20)]
    await asyncio.sleep(0.05)
    assert catalog.get("first") is None
    assert not any(task.done() for task in (first, *others))
    files.gate.set()
    await asyncio.gather(first, *others)
    assert len(files.threads) == 2
    assert set(load(tmp_path / "topics.json")) == set(catalog.topics())
    assert len(catalog.topics()) == 22


async def test_a_topic_that_is_being_created_keeps_its_name_and_partitions(
    tmp_path: Path,
) -> None:
    files = GatedFiles()
    catalog = opened(tmp_path, files, total=10)
    files.gate.clear()
    creation = asyncio.create_task(create(catalog, "a.b", 8))
    await asyncio.sleep(0)
    with pytest.raises(TopicError, match="already exists"):
        catalog.reserve("a.b", 1)
    with pytest.raises(TopicError, match="collides"):
        catalog.reserve("a_b", 1)
    with pytest.raises(TopicError, match=r"max\.partitions\.total allows 10") as refused:
        catalog.reserve("c", 3)
    assert refused.value.error is ErrorCode.POLICY_VIOLATION
    files.gate.set()
    await creation


@pytest.mark.parametrize(
    "failure", [OSError("the disk is full"), RuntimeError("can't start new thread")]
)
async def test_what_cannot_be_written_is_reported_to_all_and_leaves_no_trace(
    tmp_path: Path, failure: Exception
) -> None:
    files = GatedFiles()
    catalog = opened(tmp_path, files, total=10)
    await create(catalog, "there", 1)
    files.failure = failure
    results = await asyncio.gather(
        create(catalog, "a", 4),
        create(catalog, "b", 4),
        catalog.delete_durably(["there"]),
        return_exceptions=True,
    )
    assert all(isinstance(result, OSError) for result in results)
    assert set(catalog.topics()) == {"__consumer_offsets", "there"}
    files.failure = None
    # Names and partitions are free again.
    await create(catalog, "a", 9)
    await catalog.delete_durably(["there"])
    assert (
        set(load(tmp_path / "topics.json")) == {"__consumer_offsets", "a"} == set(catalog.topics())
    )


async def test_a_creation_goes_on_when_its_client_has_gone(tmp_path: Path) -> None:
    files = GatedFiles()
    catalog = opened(tmp_path, files)
    files.gate.clear()
    creation = asyncio.create_task(create(catalog, "orders"))
    await asyncio.sleep(0)
    creation.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creation
    files.gate.set()
    await catalog.settle()
    assert catalog.get("orders") is not None


async def test_a_topic_is_deleted_once(tmp_path: Path) -> None:
    files = GatedFiles()
    catalog = opened(tmp_path, files)
    await create(catalog, "orders", 100)
    files.gate.clear()
    deletion = asyncio.create_task(catalog.delete_durably(["orders"]))
    await asyncio.sleep(0)
    with pytest.raises(TopicError) as refused:
        await catalog.delete_durably(["orders"])
    assert refused.value.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert catalog.get("orders") is not None
    files.gate.set()
    await deletion
    assert catalog.get("orders") is None
    await create(catalog, "orders", 100)


async def test_records_removed_during_a_write_are_not_remembered(tmp_path: Path) -> None:
    files = GatedFiles()
    catalog = opened(tmp_path, files)
    for name in ("a", "b"):
        await create(catalog, name)
    a = catalog.topics()["a"]
    await catalog.delete_durably(["a"])
    files.gate.clear()
    deletion = asyncio.create_task(catalog.delete_durably(["b"]))
    await asyncio.sleep(0)
    catalog.removed(a)
    files.gate.set()
    await deletion
    await create(catalog, "c")
    assert len(deleted(tmp_path)) == 1


async def test_others_go_over_the_topics_while_some_are_created(tmp_path: Path) -> None:
    catalog = opened(tmp_path, SYSTEM_FILES)
    going = iter(catalog.topics().values())
    await create(catalog, "orders")
    assert [topic.name for topic in going] == ["__consumer_offsets"]


def test_one_topic_has_its_limit(tmp_path: Path) -> None:
    catalog = opened(tmp_path, SYSTEM_FILES)
    with pytest.raises(TopicError, match=r"max\.partitions\.per\.topic allows 100") as refused:
        catalog.reserve("orders", 101)
    assert refused.value.error is ErrorCode.INVALID_PARTITIONS


def test_declared_topics_have_the_limits_too(tmp_path: Path) -> None:
    catalog = opened(tmp_path, SYSTEM_FILES, total=10)
    catalog.declare([("orders", 4)])
    with pytest.raises(TopicError, match=r"max\.partitions\.total allows 10"):
        catalog.declare([("orders", 6), ("payments", 5)])
    catalog.declare([("orders", 6), ("payments", 4)])


def test_topics_beyond_a_limit_that_was_lowered_are_served(tmp_path: Path) -> None:
    opened(tmp_path, SYSTEM_FILES).create([("orders", 90)])
    catalog = opened(tmp_path, SYSTEM_FILES, total=10)
    assert catalog.topics()["orders"].partitions == 90
    with pytest.raises(TopicError, match=r"90 of all topics"):
        catalog.reserve("payments", 1)


FAILURES = [MemoryError("no room"), RuntimeError("a bug"), asyncio.CancelledError()]


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
async def test_a_listener_that_fails_keeps_nobody_waiting(
    tmp_path: Path, failure: BaseException
) -> None:
    bugs: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: bugs.append(context["exception"]))
    catalog = opened(tmp_path, SYSTEM_FILES)
    told: list[str] = []

    def fail(_topic: str) -> None:
        raise failure

    catalog.on_change(fail)
    catalog.on_change(told.append)
    await asyncio.wait_for(create(catalog, "a"), 30)
    await asyncio.wait_for(catalog.delete_durably(["a"]), 30)
    assert told == ["a", "a"]
    assert bugs == [failure, failure]


@pytest.mark.interpreted
@pytest.mark.parametrize("failure", FAILURES, ids=repr)
async def test_a_writer_that_fails_is_followed_by_another(
    tmp_path: Path, failure: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = opened(tmp_path, SYSTEM_FILES)

    async def fail(_changes: object) -> None:
        raise failure

    monkeypatch.setattr(catalog, "_write", fail)
    creation = asyncio.create_task(create(catalog, "a"))
    with pytest.raises(OSError, match="cannot be written"):
        await asyncio.wait_for(creation, 30)
    monkeypatch.undo()
    await asyncio.wait_for(create(catalog, "a"), 30)
    assert "a" in load(tmp_path / "topics.json")
