"""What is taken for too large for the log: assignments, static members, commits."""

from dataclasses import replace

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.record_headers import NO_HEADERS
from coordinator_protocol.records import GroupMetadataKey, encode_key
from coordinator_server.group.classic.rebalance import record_bytes
from coordinator_server.group.context import Limits
from tests.support.group_harness import GroupHarness, Member, Request, offset


def completing(limits: Limits) -> tuple[GroupHarness, Member]:
    """A group whose leader has to assign."""
    story = GroupHarness(limits=limits)
    a = story.member("a", "i")
    a.enter()
    story.advance(6_000)
    return story, a


def group_record(story: GroupHarness) -> bytes:
    values = [write.value for write in story.writes if isinstance(write.key, GroupMetadataKey)]
    assert isinstance(values[-1], bytes)
    return values[-1]


def assigned_with(max_append_bytes: int) -> Request:
    _, a = completing(Limits(max_append_bytes=max_append_bytes))
    return a.sync({a: bytes(1_000)})


def test_an_assignment_may_be_just_as_large_as_the_log_takes() -> None:
    story, a = completing(Limits())
    a.sync({a: bytes(1_000)})
    size = record_bytes(story.classic, group_record(story))
    assert assigned_with(size).error is ErrorCode.NONE
    assert assigned_with(size - 1).error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_record_is_taken_for_its_key_and_value_and_128_bytes() -> None:
    story, a = completing(Limits())
    a.sync({a: bytes(10)})
    value = group_record(story)
    key = encode_key(GroupMetadataKey("group"))
    assert record_bytes(story.classic, value) == 128 + len(key) + len(value)


def restarted_with(max_append_bytes: int) -> Request:
    story, a = completing(Limits())
    a.sync({a: bytes(1_000)})
    story.limits = replace(story.limits, max_append_bytes=max_append_bytes)
    return a.restarted().join()


def test_a_static_member_may_return_if_its_group_is_just_as_large_as_the_log_takes() -> None:
    story, a = completing(Limits())
    a.sync({a: bytes(1_000)})
    a.restarted().join()
    size = record_bytes(story.classic, group_record(story))
    assert restarted_with(size).joined.generation == 1
    # It rebalances, alone: the next generation begins at once.
    assert restarted_with(size - 1).joined.generation == 2


def committed_with(max_append_bytes: int, partitions: int) -> ErrorCode:
    story = GroupHarness(limits=Limits(max_append_bytes=max_append_bytes))
    offsets = [offset(1, partition, metadata="xyz") for partition in range(partitions)]
    return story.commit(*offsets).error


def test_a_commit_is_taken_for_128_bytes_a_record_and_four_a_character() -> None:
    one = 128 + 4 * len("orders" + "xyz" + "group")
    for partitions in (1, 2, 3):
        assert committed_with(partitions * one, partitions) is ErrorCode.NONE
        assert committed_with(partitions * one - 1, partitions) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_story_is_written_where_the_append_holds_just_as_much_as_it_may_take() -> None:
    story, a = completing(Limits())
    a.sync({a: b"1"})
    group = record_bytes(story.classic, group_record(story))
    headers, history, overhead, group_id = 1_024, 8_192, 128, 4 * len("group")
    enough = group + headers + history + overhead + group_id
    for limit, written in ((enough, True), (enough - 1, False)):
        again, a = completing(Limits(max_append_bytes=limit))
        a.sync({a: b"1"})
        (closed,) = [write for write in again.writes if write.value == group_record(again)]
        found = (closed.headers != NO_HEADERS, len(again.group.past))
        assert found == (written, int(written))
