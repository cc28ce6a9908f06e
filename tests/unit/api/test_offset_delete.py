"""OffsetDelete."""

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coordinator_server.api.offset_delete import AT_ONCE
from coordinator_server.group.effects import Deleted, Refuse, Rule
from coordinator_server.group.events import DeleteOffsets
from coordinator_server.ports import Operation, Resource
from tests.support.fake_coordinator import (
    Denial,
    FakeCoordinator,
    HandledRequest,
    ask,
    group_services,
)


def delete(
    coordinator: FakeCoordinator,
    topics: dict[str, list[int]] | list[tuple[str, list[int]]],
    group_id: str = "g",
    denied: tuple[Denial, ...] = (),
) -> HandledRequest:
    asked = [
        OffsetDeleteRequestTopic(
            name=name,
            partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
        )
        for name, indexes in (topics.items() if isinstance(topics, dict) else topics)
    ]
    services = group_services(coordinator, denied=denied)
    return ask(ApiKey.OFFSET_DELETE, 0, services, group_id=group_id, topics=asked)


def errors(call: HandledRequest) -> set[tuple[str, int, int]]:
    return {
        (topic.name, each.partition_index, each.error_code)
        for topic in call.response.topics
        for each in topic.partitions
    }


def test_the_group_is_asked_for_what_exists() -> None:
    coordinator = FakeCoordinator()
    call = delete(coordinator, {"orders": [0, 2, 9], "missing": [0]})
    assert coordinator.event.topics == [("orders", [0, 2])]
    outcome = [(0, ErrorCode.NONE), (2, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)]
    coordinator.resolve(0, Deleted([("orders", outcome)]))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(call) == {
        ("orders", 0, ErrorCode.NONE),
        ("orders", 2, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        ("orders", 9, unknown),
        ("missing", 0, unknown),
    }


def test_the_group_is_asked_even_if_nothing_exists() -> None:
    coordinator = FakeCoordinator()
    call = delete(coordinator, {"missing": [0]})
    coordinator.resolve(0, Refuse(ErrorCode.GROUP_ID_NOT_FOUND, Rule.GROUP_UNKNOWN))
    assert call.response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert call.response.topics == []


def test_the_empty_group_id_is_invalid() -> None:
    response = delete(FakeCoordinator(), {"orders": [0]}, "").response
    assert response.error_code == ErrorCode.INVALID_GROUP_ID


def test_forbidden_topics_are_told_apart_from_missing_ones() -> None:
    coordinator = FakeCoordinator(lambda *_: Deleted([]))
    denied = ((Operation.READ, Resource.TOPIC, "orders"),)
    call = delete(coordinator, {"orders": [0]}, denied=denied)
    assert errors(call) == {("orders", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)}


MANY = [*range(2 * AT_ONCE + 1)]
WIDE = (("orders", len(MANY)), ("payments", 1))


def delete_many(coordinator: FakeCoordinator) -> HandledRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in MANY]
    asked = [
        OffsetDeleteRequestTopic(name="payments", partitions=partitions[:1]),
        OffsetDeleteRequestTopic(name="orders", partitions=partitions),
    ]
    services = group_services(coordinator, topics=WIDE)
    return ask(ApiKey.OFFSET_DELETE, 0, services, group_id="g", topics=asked)


def deleted(event: DeleteOffsets) -> Deleted:
    return Deleted([(name, [(i, ErrorCode.NONE) for i in some]) for name, some in event.topics])


def test_many_offsets_are_deleted_some_at_a_time() -> None:
    coordinator = FakeCoordinator()
    call = delete_many(coordinator)
    sizes = [sum(len(some) for _, some in event.topics) for _, event in coordinator.submitted]
    assert sizes == [AT_ONCE, AT_ONCE, 2]
    for number, (_, event) in enumerate(coordinator.submitted):
        assert call.is_parked
        coordinator.resolve(number, deleted(event))
    assert errors(call) == {("payments", 0, 0), *(("orders", index, 0) for index in MANY)}


def test_a_group_that_goes_meanwhile_has_no_offset_left() -> None:
    coordinator = FakeCoordinator()
    call = delete_many(coordinator)
    gone = Refuse(ErrorCode.GROUP_ID_NOT_FOUND, Rule.GROUP_UNKNOWN)
    coordinator.resolve(0, deleted(coordinator.submitted[0][1]))
    coordinator.resolve(1, gone)
    coordinator.resolve(2, gone)
    assert call.response.error_code == ErrorCode.NONE
    assert errors(call) == {("payments", 0, 0), *(("orders", index, 0) for index in MANY)}


def test_what_keeps_a_group_from_deleting_the_rest_is_the_answer() -> None:
    coordinator = FakeCoordinator()
    call = delete_many(coordinator)
    coordinator.resolve(0, deleted(coordinator.submitted[0][1]))
    coordinator.resolve(1, Refuse(ErrorCode.NOT_COORDINATOR, Rule.NOT_OWNED))
    assert call.response.error_code == ErrorCode.NOT_COORDINATOR
    assert call.response.topics == []


def names(call: HandledRequest) -> list[tuple[str, int]]:
    return [(topic.name, len(topic.partitions)) for topic in call.response.topics]


def test_a_topic_of_which_no_partition_is_named_is_answered_only_if_it_is_missing() -> None:
    coordinator = FakeCoordinator(lambda *_: Deleted([]))
    call = delete(coordinator, {"orders": [], "missing": []})
    assert names(call) == [("missing", 0)]


def test_a_topic_named_twice_is_one_in_an_answer_that_has_something_missing() -> None:
    verdict = Deleted([("orders", [(0, ErrorCode.NONE)]), ("orders", [(1, ErrorCode.NONE)])])
    coordinator = FakeCoordinator(lambda *_: verdict)
    twice = [("orders", [0]), ("orders", [1])]
    assert names(delete(coordinator, twice)) == [("orders", 1), ("orders", 1)]
    assert names(delete(coordinator, [*twice, ("missing", [0])])) == [("missing", 1), ("orders", 2)]
