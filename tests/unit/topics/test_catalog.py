"""The catalog keeps names, ids and partition counts over restarts, and refuses as Kafka refuses."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.topics import catalog as catalog_module
from coordinator_server.topics.catalog import (
    FILE_NAME,
    CorruptCatalog,
    TopicCatalog,
    deleted,
    forget_deleted,
    from_base64,
)
from coordinator_server.topics.catalog_file import to_base64
from coordinator_server.topics.errors import TopicError


class Ids:
    """Topic ids 1, 2, 3, ..."""

    def __init__(self, first: int = 1) -> None:
        self._next = first

    def member_suffix(self) -> str:
        raise AssertionError("a catalog has no members")

    def topic_id(self) -> UUID:
        self._next += 1
        return UUID(int=self._next - 1)


def one_topic(entry: bytes) -> bytes:
    return b'{"version": 1, "topics": [{' + entry + b"}]}"


def opened(directory: Path, *, first_id: int = 1, offsets_partitions: int = 50) -> TopicCatalog:
    return TopicCatalog(directory, Ids(first_id), offsets_partitions=offsets_partitions)


def test_the_offsets_topic_is_always_there_and_internal(tmp_path: Path) -> None:
    topic = opened(tmp_path, offsets_partitions=7).get("__consumer_offsets")
    assert topic is not None
    assert topic.internal
    assert topic.partitions == 7


def test_the_offsets_topic_follows_the_configured_partition_count_and_keeps_its_id(
    tmp_path: Path,
) -> None:
    before = opened(tmp_path, offsets_partitions=7).get("__consumer_offsets")
    after = opened(tmp_path, first_id=100, offsets_partitions=9).get("__consumer_offsets")
    assert before is not None
    assert after is not None
    assert after == before._replace(partitions=9)


def test_the_partition_count_cannot_change_under_a_log(tmp_path: Path) -> None:
    opened(tmp_path, offsets_partitions=7)
    (tmp_path / "__consumer_offsets-0").mkdir()
    with pytest.raises(ValueError, match=r"7 partitions .*offsets\.topic\.num\.partitions is 9"):
        opened(tmp_path, offsets_partitions=9)
    opened(tmp_path, offsets_partitions=7)


def test_created_topics_are_found_by_name_and_by_id(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    (topic,) = catalog.create([("orders", 4)])
    assert topic.partitions == 4
    assert not topic.internal
    assert catalog.get("orders") == topic
    assert catalog.by_id(topic.topic_id) == topic
    assert set(catalog.topics()) == {"__consumer_offsets", "orders"}


def test_ids_and_counts_survive_a_restart(tmp_path: Path) -> None:
    created = opened(tmp_path).create([("orders", 4), ("payments", 2)])
    again = opened(tmp_path, first_id=1000)
    assert [again.get(topic.name) for topic in created] == created
    assert again.by_id(created[1].topic_id) == created[1]


def test_a_refused_topic_leaves_the_whole_request_undone(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    with pytest.raises(TopicError, match="the empty string is not allowed"):
        catalog.create([("orders", 1), ("", 1)])
    assert catalog.get("orders") is None
    assert opened(tmp_path).get("orders") is None


def test_an_existing_topic_is_not_created_again(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.create([("orders", 1)])
    with pytest.raises(TopicError, match=r"Topic 'orders' already exists\.") as refused:
        catalog.create([("orders", 1)])
    assert refused.value.error is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_name_that_collides_in_metric_names_is_refused(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.create([("a.b", 1)])
    with pytest.raises(
        TopicError, match=r"Topic 'a_b' collides with existing topic: a\.b"
    ) as refused:
        catalog.create([("a_b", 1)])
    assert refused.value.error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_no_partitions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TopicError, match="expected at least 1") as refused:
        opened(tmp_path).create([("orders", 0)])
    assert refused.value.error is ErrorCode.INVALID_PARTITIONS


def test_declared_topics_are_made_once_and_grow(tmp_path: Path) -> None:
    opened(tmp_path).declare([("orders", 2)])
    catalog = opened(tmp_path)
    before = catalog.get("orders")
    catalog.declare([("orders", 6)])
    after = catalog.get("orders")
    assert before is not None
    assert after == before._replace(partitions=6)


def test_a_declared_topic_cannot_shrink(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.declare([("orders", 6)])
    with pytest.raises(TopicError, match="has 6 partitions and cannot shrink to the declared 2"):
        catalog.declare([("orders", 2)])


def test_listeners_hear_of_creation_growth_and_deletion(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    heard: list[tuple[str, int]] = []

    def listener(name: str) -> None:
        topic = catalog.get(name)
        heard.append((name, topic.partitions if topic else 0))

    catalog.on_change(listener)
    catalog.create([("orders", 1)])
    catalog.declare([("orders", 3)])
    catalog.declare([("orders", 3)])
    catalog.delete(["orders"])
    assert heard == [("orders", 1), ("orders", 3), ("orders", 0)]


def test_a_deleted_topic_is_gone_by_name_and_id_and_stays_gone(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    (topic,) = catalog.create([("orders", 1)])
    catalog.delete(["orders"])
    assert catalog.get("orders") is None
    assert catalog.by_id(topic.topic_id) is None
    assert opened(tmp_path).get("orders") is None


def test_a_topic_created_anew_has_a_new_id(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    (before,) = catalog.create([("orders", 1)])
    catalog.delete(["orders"])
    (after,) = catalog.create([("orders", 1)])
    assert after.topic_id != before.topic_id


def test_a_deleted_topic_is_remembered_until_its_records_are_removed(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    topics = catalog.create([("orders", 1), ("payments", 1)])
    ids = [to_base64(topic.topic_id) for topic in topics]
    catalog.delete(["orders", "payments"])
    assert deleted(tmp_path) == ids
    catalog.removed(topics[0])
    catalog.create([("new", 1)])
    assert deleted(tmp_path) == ids[1:]
    opened(tmp_path, first_id=100).create([("newer", 1)])
    assert deleted(tmp_path) == ids[1:]
    forget_deleted(tmp_path)
    assert deleted(tmp_path) == []
    assert opened(tmp_path).get("newer") is not None


def test_so_many_deleted_topics_are_remembered_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_module, "MOST_DELETED", 2)
    catalog = opened(tmp_path)
    topics = catalog.create([("a", 1), ("b", 1), ("c", 1)])
    catalog.delete(["a", "b"])
    catalog.delete(["c"])
    assert deleted(tmp_path) == [to_base64(topic.topic_id) for topic in topics[1:]]


def test_a_deletion_that_cannot_be_stored_is_none(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.create([("orders", 1)])
    (tmp_path / "topics.json.tmp").mkdir()
    with pytest.raises(OSError, match=r"topics\.json\.tmp"):
        catalog.delete(["orders"])
    (tmp_path / "topics.json.tmp").rmdir()
    assert catalog.get("orders") is not None
    catalog.create([("new", 1)])
    assert deleted(tmp_path) == []


def test_the_offsets_topic_cannot_be_deleted(tmp_path: Path) -> None:
    with pytest.raises(TopicError, match="is internal") as refused:
        opened(tmp_path).delete(["__consumer_offsets"])
    assert refused.value.error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_an_unknown_topic_cannot_be_deleted(tmp_path: Path) -> None:
    with pytest.raises(TopicError) as refused:
        opened(tmp_path).delete(["nothing"])
    assert refused.value.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unfinished_replacement_of_the_file_is_ignored(tmp_path: Path) -> None:
    created = opened(tmp_path).create([("orders", 4)])
    (tmp_path / "topics.json.tmp").write_bytes(b'{"version": 1, "top')
    assert opened(tmp_path).get("orders") == created[0]


def test_nothing_changes_when_the_file_cannot_be_written(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    (tmp_path / "topics.json.tmp").mkdir()
    with pytest.raises(OSError, match="directory"):
        catalog.create([("orders", 4)])
    assert catalog.get("orders") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"version": 1}',
        b'{"version": 2, "topics": []}',
        one_topic(b'"name": "a", "topic_id": "x", "partitions": 1'),
        one_topic(b'"name": "a/b", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 1'),
        one_topic(b'"name": "a", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 0'),
        one_topic(b'"name": "a", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"'),
        b"\xff\xfe",
    ],
)
def test_a_corrupt_catalog_is_reported_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    with pytest.raises(CorruptCatalog, match=r"topics\.json"):
        opened(tmp_path)
    assert path.read_bytes() == content


def test_the_file_holds_ids_as_kafka_writes_them(tmp_path: Path) -> None:
    opened(tmp_path).create([("orders", 4)])
    document = json.loads((tmp_path / FILE_NAME).read_bytes())
    assert document["topics"][1] == {
        "name": "orders",
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAg",
        "partitions": 4,
    }


def test_topic_ids_read_back_as_they_were_written() -> None:
    topic_id = UUID("3f2504e0-4f89-41d3-9a0c-0305e82c3301")
    assert from_base64(to_base64(topic_id)) == topic_id
