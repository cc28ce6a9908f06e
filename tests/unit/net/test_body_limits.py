"""Requests so large that decoding them must not delay any other client."""

import asyncio
import tracemalloc
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_protocol.decoder import SLICE_ELEMENTS
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.frames import framed
from coordinator_protocol.headers import request_header
from coordinator_protocol.messages.fetch import FetchPartition, FetchTopic
from coordinator_protocol.messages.join_group import JoinGroupRequestProtocol
from coordinator_protocol.messages.leave_group import MemberIdentity
from coordinator_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_protocol.messages.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coordinator_protocol.messages.sync_group import SyncGroupRequestAssignment
from coordinator_server.api import registry
from coordinator_server.net.body_limits import (
    COUNTED_BODY,
    GATHERED_BYTES,
    JOIN_GROUP_OVERHEAD,
    LARGE_BODY,
    MOST_COMMITTED,
    MOST_ELEMENTS,
    MOST_FETCHED,
    MOST_NAMES,
    OBJECT_BYTES,
    SLICES_AT_ONCE,
)
from coordinator_server.net.fair_scheduler import SlicedWork
from tests.support.session_harness import (
    API_VERSIONS,
    FIND_COORDINATOR,
    JOIN_GROUP,
    SessionHarness,
    request,
)

GROUP = "g" * 60
FETCH = 1
LIST_OFFSETS = 2
DELETE_TOPICS = 20
OFFSET_COMMIT = 8
OFFSET_DELETE = 47
CUT = 40
"""Bytes left out of a request's last string, so that it claims more than there is."""


def large(correlation_id: int) -> bytes:
    keys = [GROUP] * (SLICES_AT_ONCE * SLICE_ELEMENTS + 1_000)
    return request(FIND_COORDINATOR, 4, correlation_id, coordinator_keys=keys)


def drive(handling: Coroutine[Any, Any, None]) -> None:
    try:
        handling.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something")


def test_a_large_request_is_served_like_any_other() -> None:
    talk = SessionHarness()
    talk.send(large(7))
    assert talk.answers() == []
    drive(talk.running.pop())
    ((correlation_id, response),) = talk.answered(FIND_COORDINATOR, 4)
    assert correlation_id == 7
    assert {coordinator.key for coordinator in response.coordinators} == {GROUP}


def test_what_comes_behind_a_large_request_waits_for_its_turn() -> None:
    talk = SessionHarness()
    talk.send(large(1) + request(API_VERSIONS, 0, 2))
    assert talk.answers() == []
    drive(talk.running.pop())
    (first,) = talk.answers()
    talk.session.proceed(0)
    (second,) = talk.answers()
    assert (first[:4], second[:4]) == (b"\0\0\0\1", b"\0\0\0\2")


def test_the_answer_to_a_large_request_is_encoded_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = SessionHarness()
    beside: list[str] = []
    aside = talk.aside

    async def noted(work: Any) -> Any:
        beside.append(work.func.__name__)
        return await aside(work)

    monkeypatch.setattr(talk, "aside", noted)

    async def delete(_names: list[str]) -> None:
        return

    monkeypatch.setattr(talk.services, "topics", SimpleNamespace(delete=delete), raising=False)
    names = [f"unknown-topic-{number}" for number in range(9_000)]
    talk.send(request(DELETE_TOPICS, 4, 7, topic_names=names, timeout_ms=1_000))
    drive(talk.running.pop())
    drive(talk.running.pop())
    assert beside == ["encoded"]
    ((correlation_id, response),) = talk.answered(DELETE_TOPICS, 4)
    assert correlation_id == 7
    assert [each.name for each in response.responses] == names


def test_a_small_request_is_decoded_at_once() -> None:
    talk = SessionHarness()
    talk.send(request(FIND_COORDINATOR, 3, key="g"))
    assert talk.running == []
    assert len(talk.answers()) == 1


def test_a_large_request_that_makes_no_sense_ends_its_connection() -> None:
    talk = SessionHarness()
    whole = large(1)
    size = len(whole) - 4 - CUT
    talk.send(size.to_bytes(4, "big") + whole[4:-CUT])
    drive(talk.running.pop())
    assert (talk.answers(), talk.session.ended) == ([], "malformed")


def test_a_client_that_goes_away_meanwhile_is_not_served() -> None:
    talk = SessionHarness()
    talk.send(large(1))
    talk.session.abandon()
    drive(talk.running.pop())
    assert (talk.answers(), talk.session.ended) == ([], "client_gone")


def test_what_is_decoded_for_a_client_that_has_gone_is_not_decoded_any_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = SessionHarness()
    steps: list[bool] = []

    async def noted(step: Callable[[], bool]) -> None:
        steps.append(step())
        talk.session.abandon()
        steps.append(step())

    monkeypatch.setattr(talk, "in_slices", noted)
    talk.send(commit_of(19, 1_000))
    drive(talk.running.pop())
    assert steps == [False, True]


async def test_large_requests_are_decoded_one_after_the_other_and_others_have_turns() -> None:
    work, done = SlicedWork(), []

    def steps(name: str, left: int) -> Callable[[], bool]:
        def step() -> bool:
            nonlocal left
            left -= 1
            done.append(name)
            return not left

        return step

    async def somebody_else() -> None:
        for _ in range(3):
            done.append("turn")
            await asyncio.sleep(0)

    await asyncio.gather(work.run(steps("a", 3)), work.run(steps("b", 2)), somebody_else())
    assert done[:6] == ["a", "turn", "a", "turn", "a", "turn"]
    assert done[6:] == ["b", "b"]


async def test_the_next_large_request_is_decoded_though_one_has_failed_or_was_cancelled() -> None:
    work = SlicedWork()

    def fails() -> bool:
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        await work.run(fails)
    endless = asyncio.create_task(work.run(lambda: False))
    waiting = asyncio.create_task(work.run(lambda: False))
    await asyncio.sleep(0)
    waiting.cancel()
    endless.cancel()
    await asyncio.wait_for(work.run(lambda: True), 10)
    for task in (endless, waiting):
        with pytest.raises(asyncio.CancelledError):
            await task


def refused(talk: SessionHarness, frame: bytes) -> str:
    """What the log says of a request that ends its connection."""
    talk.send(frame)
    if talk.running:
        drive(talk.running.pop())
    assert (talk.answers(), talk.session.ended) == ([], "malformed")
    ((_, said),) = [report for report in talk.reports if report[0] == "session_ended"]
    return str(said["detail"])


def commit_of(topics: int, partitions: int) -> bytes:
    each = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
        for index in range(partitions)
    ]
    named = [OffsetCommitRequestTopic(name="t", partitions=each) for _ in range(topics)]
    return request(OFFSET_COMMIT, 8, group_id="g", topics=named)


def answered(talk: SessionHarness, frame: bytes, api_key: int, version: int) -> tuple[Any, str]:
    """The response to a request that is too large, and what the log says; another is served."""
    talk.send(frame)
    while talk.running:
        drive(talk.running.pop())
    ((_, response),) = talk.answered(api_key, version)
    ((event, said),) = talk.reports
    assert event == "request_too_large"
    talk.send(request(API_VERSIONS, 0, 2))
    assert (len(talk.answers()), talk.session.ended, talk.session.held) == (1, None, 0)
    return response, str(said["limit"])


def test_a_request_of_more_elements_than_can_be_served_ends_its_connection() -> None:
    assert refused(SessionHarness(), commit_of(101, 1_000)) == (
        "OffsetCommitRequest v8: more than 100000 array elements, "
        "at most 100000 are served in one request"
    )


@pytest.mark.parametrize(
    ("topics", "partitions", "limit"),
    [
        (21, 999, "21000 array elements, at most 20000 are served"),
        (5_001, 1, "5001 topics, at most 5000 are served"),
    ],
)
def test_a_commit_of_more_than_a_group_handles_in_one_turn_is_refused_partition_by_partition(
    topics: int, partitions: int, limit: str
) -> None:
    talk = SessionHarness()
    response, said = answered(talk, commit_of(topics, partitions), OFFSET_COMMIT, 8)
    errors = [each.error_code for topic in response.topics for each in topic.partitions]
    assert errors == [ErrorCode.UNKNOWN_SERVER_ERROR] * (topics * partitions)
    assert said == limit
    assert not talk.coordinator.submitted


def test_a_commit_of_as_much_as_a_group_handles_in_one_turn_is_served() -> None:
    talk = SessionHarness()
    talk.send(commit_of(MOST_COMMITTED // 1_000, 999))
    drive(talk.running.pop())
    assert talk.reported() == []
    assert len(talk.answers()) == 1


def test_a_large_refusal_that_cannot_be_encoded_is_tried_without_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = SessionHarness()

    async def fails(_work: Any) -> Any:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(talk, "aside", fails)
    talk.send(commit_of(21, 999))
    while talk.running:
        drive(talk.running.pop())
    ((_, response),) = talk.answered(OFFSET_COMMIT, 8)
    assert response.topics[20].partitions[998].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert talk.reported() == ["request_too_large", "request_failed"]


@pytest.mark.parametrize("name", ["n", "a name of which ten thousand are a large body"])
def test_a_request_of_more_names_than_can_be_looked_up_ends_its_connection(name: str) -> None:
    talk = SessionHarness()
    frame = request(FIND_COORDINATOR, 4, coordinator_keys=[name] * (MOST_NAMES + 1))
    assert (len(frame) > LARGE_BODY) == (len(name) > 1)
    assert refused(talk, frame) == (
        "FindCoordinatorRequest v4: more than 10000 entries, "
        "at most 10000 are served in one request"
    )


@pytest.mark.parametrize("size", [40_000, 94_000_000])
def test_a_body_that_holds_too_much_costs_no_more_than_its_first_elements(size: int) -> None:
    count = size // 18
    head = b"\x02g" + bytes(4) + b"\x01\0\x02\x02t"  # group, generation, member, topics, name
    number = count + 1
    varint = bytes([number & 127 | 128, number >> 7 & 127 | 128, number >> 14 & 127 | 128])
    varint += bytes([number >> 21])
    body = head + varint + bytes(size)
    frame = request_header(OFFSET_COMMIT, 8, 1, "tester") + body
    talk = SessionHarness()
    tracemalloc.start()
    try:
        talk.send(framed(frame)[:-1])
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        talk.send(b"\0")
        for handling in talk.running:
            handling.close()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert (talk.session.ended == "malformed") == (count > MOST_ELEMENTS)
    assert peak < 2_000_000


def test_as_many_names_as_can_be_looked_up_are_served() -> None:
    talk = SessionHarness()
    frame = request(FIND_COORDINATOR, 4, coordinator_keys=["n"] * MOST_NAMES)
    assert COUNTED_BODY < len(frame) < LARGE_BODY
    talk.send(frame)
    drive(talk.running.pop())
    assert (len(talk.answers()), talk.session.ended) == (1, None)


def test_a_deletion_of_more_offsets_than_a_turn_of_the_loop_has_time_for_is_refused() -> None:
    partitions = [OffsetDeleteRequestPartition(number) for number in range(MOST_COMMITTED)]
    topics = [OffsetDeleteRequestTopic(name="t", partitions=partitions)]
    frame = request(OFFSET_DELETE, 0, group_id="g", topics=topics)
    response, said = answered(SessionHarness(), frame, OFFSET_DELETE, 0)
    assert (response.error_code, response.topics) == (ErrorCode.INVALID_REQUEST, [])
    assert said == (
        "OffsetDeleteRequest v0: more than 20000 array elements, "
        "at most 20000 are served in one request"
    )


def test_a_member_of_more_protocols_than_a_group_keeps_is_refused() -> None:
    protocols = [JoinGroupRequestProtocol(name=f"p{number}") for number in range(1_001)]
    frame = request(JOIN_GROUP, 9, group_id="g", protocols=protocols)
    response, said = answered(SessionHarness(), frame, JOIN_GROUP, 9)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert said == (
        "JoinGroupRequest v9: more than 1000 array elements, at most 1000 are served in one request"
    )


@pytest.mark.parametrize(
    ("api_key", "version", "fields"),
    [
        (13, 5, {"members": [MemberIdentity(member_id="m")] * (MOST_NAMES + 1)}),
        (14, 5, {"assignments": [SyncGroupRequestAssignment(member_id="m")] * 100_001}),
    ],
)
def test_what_names_too_much_is_refused_as_a_whole_where_the_response_can_say_so(
    api_key: int, version: int, fields: dict[str, Any]
) -> None:
    frame = request(api_key, version, group_id="g", **fields)
    response, _ = answered(SessionHarness(), frame, api_key, version)
    assert response.error_code == ErrorCode.INVALID_REQUEST


def test_a_fetch_of_more_partitions_than_can_be_read_is_refused() -> None:
    partitions = [FetchPartition(partition=number) for number in range(MOST_FETCHED)]
    frame = request(FETCH, 12, topics=[FetchTopic(topic="t", partitions=partitions)])
    assert refused(SessionHarness(), frame) == (
        "FetchRequest v12: more than 20000 array elements, at most 20000 are served in one request"
    )


def test_what_list_offsets_gathers_for_its_response_is_counted_with_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way = registry.find_route(LIST_OFFSETS, 7)
    assert way is not None
    monkeypatch.setattr(way, "is_async", False)
    monkeypatch.setattr(way, "handle", lambda *_: None)
    count = 20_000
    partitions = [ListOffsetsPartition(partition_index=number) for number in range(count)]
    frame = request(LIST_OFFSETS, 7, topics=[ListOffsetsTopic(name="t", partitions=partitions)])
    talk = SessionHarness()
    talk.send(frame)
    drive(talk.running.pop())
    assert talk.session.current is not None
    assert talk.session.held > len(frame) - 100 + count * (OBJECT_BYTES + GATHERED_BYTES)


def join_of(size: int) -> bytes:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(size))]
    return request(
        JOIN_GROUP,
        9,
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    )


def test_a_join_group_far_above_the_limit_of_metadata_is_refused_without_being_decoded() -> None:
    talk = SessionHarness(group_max_member_metadata_bytes=10_000)
    frame = join_of(JOIN_GROUP_OVERHEAD + 10_001)
    # Were it decoded, the connection would end.
    talk.send(frame[:-CUT] + b"\xff" * CUT)
    ((_, response),) = talk.answered(JOIN_GROUP, 9)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    ((event, fields),) = talk.reports
    assert (event, fields["limit"]) == (
        "request_too_large",
        "group.max.member.metadata.bytes=10000",
    )
    assert talk.ended() is None
    assert not talk.coordinator.submitted


def test_a_join_group_that_is_not_far_above_the_limit_is_for_its_group_to_refuse() -> None:
    talk = SessionHarness(
        group_max_member_metadata_bytes=10_000,
        group_min_session_timeout_ms=6_000,
        group_max_session_timeout_ms=60_000,
    )
    talk.send(join_of(JOIN_GROUP_OVERHEAD))
    ((group_id, _),) = talk.coordinator.submitted
    assert group_id == "g"
