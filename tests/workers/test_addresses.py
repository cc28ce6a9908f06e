"""Who answers what: clients are led to the right worker, and the wrong one says so."""

import time
from typing import Any

from tests.support.data_plane import batch_of, values_of
from tests.support.wire import RawConnection, create_topic, unique
from tests.support.workers import WorkersProcess, commit

FIRST_NODE = 1


def metadata(connection: RawConnection, topics: list[str] | None) -> Any:
    names = None if topics is None else [{"name": name} for name in topics]
    return connection.call("Metadata", 4, topics=names, allow_auto_topic_creation=True)


def topic_soon(connection: RawConnection, name: str) -> Any:
    """A topic in the answer of a worker that has yet to hear of it."""
    until = time.monotonic() + 10
    while True:
        (topic,) = metadata(connection, [name])["topics"]
        if topic["error_code"] == "NONE" or time.monotonic() > until:
            return topic
        time.sleep(0.01)


def produced(connection: RawConnection, topic: str, index: int) -> Any:
    data = {"index": index, "records": batch_of((1, b"value"))}
    reply = connection.call(
        "Produce",
        3,
        acks=-1,
        timeout=5_000,
        topic_data=[{"name": topic, "partition_data": [data]}],
    )
    return reply["responses"][0]["partition_responses"][0]


def test_every_worker_names_all_brokers_and_the_first_as_controller(three: WorkersProcess) -> None:
    for index in range(3):
        with three.worker(index) as worker:
            reply = metadata(worker, ["t"])
        addresses = [f"{broker['host']}:{broker['port']}" for broker in reply["brokers"]]
        assert addresses == three.bootstraps
        assert [broker["node_id"] for broker in reply["brokers"]] == [1, 2, 3]
        assert reply["controller_id"] == FIRST_NODE
        leaders = {p["partition_index"]: p["leader_id"] for p in reply["topics"][0]["partitions"]}
        assert leaders == {0: 1, 1: 2, 2: 3, 3: 1, 4: 2, 5: 3}


def test_groups_are_found_at_their_worker_and_refused_by_the_others(three: WorkersProcess) -> None:
    for owner in range(3):
        group = three.group_of(owner)
        assert three.coordinator_of(group) == three.bootstraps[owner]
        for index in range(3):
            with three.worker(index) as worker:
                expected = "NONE" if index == owner else "NOT_COORDINATOR"
                assert commit(worker, group, "t") == expected


def test_records_are_taken_and_read_where_the_partition_is_led(three: WorkersProcess) -> None:
    for index in range(3):
        with three.worker(index) as worker:
            assert produced(worker, "t", index)["error_code"] == "NONE"
            wrong = (index + 1) % 3
            assert produced(worker, "t", wrong)["error_code"] == "NOT_LEADER_OR_FOLLOWER"
            asked = [
                {"partition": p, "fetch_offset": 0, "partition_max_bytes": 1_000}
                for p in (index, wrong)
            ]
            reply = worker.call(
                "Fetch",
                4,
                replica_id=-1,
                max_wait=0,
                min_bytes=1,
                max_bytes=10_000,
                isolation_level=0,
                topics=[{"topic": "t", "partitions": asked}],
            )
            right, refused = reply["responses"][0]["partitions"]
            assert [value for _, value in values_of(right["records"])] == [b"value"]
            assert refused["error_code"] == "NOT_LEADER_OR_FOLLOWER"


def test_topics_are_made_by_the_first_worker_and_known_to_all(three: WorkersProcess) -> None:
    topic = unique("made")
    wanted = {"name": topic, "num_partitions": 2, "replication_factor": 1}
    with three.worker(2) as worker:
        reply = worker.call("CreateTopics", 5, topics=[wanted], timeout=10_000)
        assert reply["topics"][0]["error_code"] == "NOT_CONTROLLER"
        create_topic(three.bootstrap, topic, 2)
        assert len(topic_soon(worker, topic)["partitions"]) == 2


def test_a_topic_made_on_first_use_is_made_wherever_it_is_used(three: WorkersProcess) -> None:
    topic = unique("used")
    with three.worker(1) as worker, three.worker(2) as other:
        assert topic_soon(worker, topic)["error_code"] == "NONE"
        assert topic_soon(other, topic)["error_code"] == "NONE"


def test_a_deleted_topic_is_gone_everywhere_with_records_and_offsets(
    three: WorkersProcess,
) -> None:
    topic = unique("deleted")
    create_topic(three.bootstrap, topic, 3)
    groups = [three.group_of(index) for index in range(3)]
    for index, group in enumerate(groups):
        with three.worker(index) as worker:
            assert topic_soon(worker, topic)["error_code"] == "NONE"
            assert produced(worker, topic, index)["error_code"] == "NONE"
            assert commit(worker, group, topic) == "NONE"
    with three.worker(1) as worker:
        reply = worker.call("DeleteTopics", 4, topic_names=[topic], timeout=10_000)
        assert reply["responses"][0]["error_code"] == "NOT_CONTROLLER"
    with three.worker(0) as worker:
        reply = worker.call("DeleteTopics", 4, topic_names=[topic], timeout=10_000)
        assert reply["responses"][0]["error_code"] == "NONE"
    until = time.monotonic() + 10
    for index, group in enumerate(groups):
        with three.worker(index) as worker:
            while _offset(worker, group, topic) != -1:
                assert time.monotonic() < until, f"worker {index} keeps offsets of {topic}"
    data = three.directory / "data"
    while list(data.glob(f"{topic}-*")):
        assert time.monotonic() < until, sorted(data.glob(f"{topic}-*"))
        time.sleep(0.01)


def _offset(worker: RawConnection, group: str, topic: str) -> int:
    wanted = {"name": topic, "partition_indexes": [0]}
    reply = worker.call("OffsetFetch", 5, group_id=group, topics=[wanted])
    return int(reply["topics"][0]["partitions"][0]["committed_offset"])
