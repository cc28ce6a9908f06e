"""Requests so large that decoding them must not hold up anybody else."""

from collections.abc import Coroutine
from typing import Any

from coordinator_server.net.large import COUNTED_BODY, LARGE_BODY, MOST_ELEMENTS
from tests.support.conversation import API_VERSIONS, FIND_COORDINATOR, Conversation, request

GROUP = "g" * 1_000
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


def test_a_request_of_more_elements_than_can_be_served_ends_its_connection() -> None:
    talk = Conversation()
    keys = ["0123456789"] * (MOST_ELEMENTS + 1)
    talk.send(request(FIND_COORDINATOR, 4, coordinator_keys=keys))
    drive(talk.running.pop())
    assert (talk.answers(), talk.session.ended) == ([], "malformed")
    ((_, said),) = [report for report in talk.reports if report[0] == "session_ended"]
    assert said["detail"] == f"{MOST_ELEMENTS + 1} elements, at most {MOST_ELEMENTS} are served"


def test_many_elements_of_a_body_that_is_not_that_large_are_served() -> None:
    talk = Conversation()
    keys = ["abc"] * (MOST_ELEMENTS + 1)
    frame = request(FIND_COORDINATOR, 4, coordinator_keys=keys)
    assert LARGE_BODY < len(frame) < COUNTED_BODY
    talk.send(frame)
    drive(talk.running.pop())
    assert (len(talk.answers()), talk.session.ended) == (1, None)
