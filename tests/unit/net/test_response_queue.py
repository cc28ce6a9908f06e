"""Answers that wait to be sent: large ones are not copied on their way."""

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from coordinator_protocol.writing import LARGE_PART
from coordinator_server.api.registry import find_route
from coordinator_server.net.response_queue import MOST_COPIED, ResponseQueue
from tests.support.session_harness import SessionHarness, heartbeat

RECORDS = bytes(MOST_COPIED)


def test_small_answers_leave_in_one_piece() -> None:
    outbox = ResponseQueue()
    outbox.add(b"\0\0\0\1", b"", b"one")
    outbox.add_parts(b"\0\0\0\2", b"\0", [b"t", b"wo"])
    assert outbox.size == 23
    assert outbox.take() == [b"\0\0\0\x07\0\0\0\1one\0\0\0\x08\0\0\0\2\0two"]
    assert outbox.size == 0
    assert outbox.take() == []


def test_what_is_large_in_an_answer_is_not_copied() -> None:
    outbox = ResponseQueue()
    outbox.add_parts(b"\0\0\0\1", b"", [b"a", b"b", RECORDS, b"c"])
    before, small, records, rest = outbox.take()
    assert records is RECORDS
    assert (small, rest) == (b"ab", b"c")
    assert before == (4 + 3 + MOST_COPIED).to_bytes(4, "big") + b"\0\0\0\1"


def test_parts_of_an_answer_that_are_small_are_joined() -> None:
    outbox = ResponseQueue()
    outbox.add_parts(b"\0\0\0\1", b"", [b"x" * (LARGE_PART - 1)] * 100)
    assert [len(part) for part in outbox.take()] == [8, 100 * (LARGE_PART - 1)]


@pytest.mark.parametrize("version", range(4, 13))
def test_the_records_of_a_fetch_are_not_copied(version: int) -> None:
    way = find_route(ApiKey.FETCH, version)
    assert way is not None
    assert way.encode_parts is not None
    data = PartitionData(high_watermark=1, aborted_transactions=None, records=RECORDS)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
    parts = way.encode_parts(response)
    assert sum(part is RECORDS for part in parts) == 1
    assert b"".join(parts) == way.encode(response)


def test_an_answer_in_parts_is_an_answer_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    way = find_route(ApiKey.HEARTBEAT, 4)
    assert way is not None
    body = [bytes(4), b"\0\0", b"\0"]
    monkeypatch.setattr(way, "handle", lambda call, *_: call.answer_parts(body))
    conversation = SessionHarness()
    conversation.send(heartbeat(7))
    ((correlation_id, response),) = conversation.answered(ApiKey.HEARTBEAT, 4)
    assert (correlation_id, response.error_code) == (7, 0)
    assert conversation.counters.apis[ApiKey.HEARTBEAT].accepted == 1
