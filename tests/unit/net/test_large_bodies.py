"""Requests so large that decoding them must not hold up anybody else."""

from collections.abc import Coroutine
from typing import Any

import pytest

from coordinator_server.net.large import COUNTED_BODY, LARGE_BODY, MOST_ELEMENTS, MOST_NAMES
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.conversation import API_VERSIONS, FIND_COORDINATOR, Conversation, request

GROUP = "g" * 1_000
LIST_OFFSETS = 2
OFFSET_COMMIT = 8
CUT = 40
"""Bytes left out of a request's last string, so that it claims more than there is."""


def large(correlation_id: int) -> bytes:
    keys = [GROUP] * (LARGE_BODY // len(GROUP) + 1)
    return request(FIND_COORDINATOR, 4, correlation_id, coordinator_keys=keys)


def drive(handling: Coroutine[Any, Any, None]) -> None:
    try:
        handling.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something")


def test_a_large_request_is_served_like_any_other() -> None:
    talk = Conversation()
    talk.send(large(7))
    assert talk.answers() == []
    drive(talk.running.pop())
    ((correlation_id, response),) = talk.answered(FIND_COORDINATOR, 4)
    assert correlation_id == 7
    assert {coordinator.key for coordinator in response.coordinators} == {GROUP}


def test_what_comes_behind_a_large_request_waits_for_its_turn() -> None:
    talk = Conversation()
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
    talk = Conversation()
    beside: list[str] = []
    aside = talk.aside

    async def noted(work: Any) -> Any:
        beside.append(work.func.__name__)
        return await aside(work)

    monkeypatch.setattr(talk, "aside", noted)
    partitions = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(9_000)]
    topics = [ListOffsetsTopic(name="unknown", partitions=partitions)]
    talk.send(request(LIST_OFFSETS, 6, 7, replica_id=-1, isolation_level=0, topics=topics))
    drive(talk.running.pop())
    drive(talk.running.pop())
    assert beside == ["decode_large", "encoded"]
    ((correlation_id, response),) = talk.answered(LIST_OFFSETS, 6)
    assert correlation_id == 7
    assert len(response.topics[0].partitions) == len(partitions)


def test_a_small_request_is_decoded_at_once() -> None:
    talk = Conversation()
    talk.send(request(FIND_COORDINATOR, 3, key="g"))
    assert talk.running == []
    assert len(talk.answers()) == 1


def test_a_large_request_that_makes_no_sense_ends_its_connection() -> None:
    talk = Conversation()
    whole = large(1)
    size = len(whole) - 4 - CUT
    talk.send(size.to_bytes(4, "big") + whole[4:-CUT])
    drive(talk.running.pop())
    assert (talk.answers(), talk.session.ended) == ([], "malformed")


def test_a_client_that_goes_away_meanwhile_is_not_served() -> None:
    talk = Conversation()
    talk.send(large(1))
    talk.session.abandon()
    drive(talk.running.pop())
    assert (talk.answers(), talk.session.ended) == ([], "client_gone")


def refused(talk: Conversation, frame: bytes) -> str:
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


def test_a_request_of_more_elements_than_can_be_served_ends_its_connection() -> None:
    each, topics = 999, MOST_ELEMENTS // 1_000
    assert refused(Conversation(), commit_of(topics + 1, each)) == (
        f"{(topics + 1) * (each + 1)} elements, at most {MOST_ELEMENTS} are served"
    )
    talk = Conversation()
    talk.send(commit_of(topics, each))
    drive(talk.running.pop())
    assert talk.session.ended is None


@pytest.mark.parametrize("name", ["n", "a name of which ten thousand are a large body"])
def test_a_request_of_more_names_than_can_be_looked_up_ends_its_connection(name: str) -> None:
    talk = Conversation()
    frame = request(FIND_COORDINATOR, 4, coordinator_keys=[name] * (MOST_NAMES + 1))
    assert (len(frame) > LARGE_BODY) == (len(name) > 1)
    assert refused(talk, frame) == f"{MOST_NAMES + 1} names, at most {MOST_NAMES} are served"


def test_as_many_names_as_can_be_looked_up_are_served() -> None:
    talk = Conversation()
    frame = request(FIND_COORDINATOR, 4, coordinator_keys=["n"] * MOST_NAMES)
    assert COUNTED_BODY < len(frame) < LARGE_BODY
    talk.send(frame)
    assert (len(talk.answers()), talk.session.ended) == (1, None)
