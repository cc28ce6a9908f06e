"""What becomes of a session when a handler, a decoder or an encoder fails."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.api import registry
from coordinator_server.group.effects import DONE, Result
from coordinator_server.group.events import Event
from coordinator_server.net.session_call import Late, SessionCall
from coordinator_server.observe.line_limit import LineLimiter
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.session_harness import (
    FIND,
    FIND_COORDINATOR,
    HEARTBEAT,
    SessionHarness,
    heartbeat,
    replaced,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def alive(_group_id: str, event: Event) -> Result | None:
    """Answers everything but JoinGroup at once."""
    return None if type(event).__name__ == "Join" else DONE


@pytest.fixture
def talk() -> SessionHarness:
    return SessionHarness(FakeCoordinator(alive))


def test_a_handler_that_raises_is_answered_for_and_the_session_goes_on(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("bug")

    replaced(monkeypatch, broken)
    talk.send(FIND)
    ((_, response),) = talk.answered(FIND_COORDINATOR, 2)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    ((event, fields),) = talk.reports
    assert event == "request_failed"
    assert fields["api"] == "FIND_COORDINATOR"
    assert "bug" in fields["error"]
    assert "test_session_failures.py" in fields["where"]
    talk.send(heartbeat(2))
    assert len(talk.answers()) == 1


@pytest.mark.parametrize("error", [asyncio.CancelledError(), MemoryError()])
async def test_a_task_that_ends_with_an_error_or_is_cancelled_by_nobody_answers_its_request(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    async def broken(*_: Any) -> None:
        raise error

    replaced(monkeypatch, broken, is_async=True)
    talk.send(FIND)
    await talk.running.pop()
    ((_, response),) = talk.answered(FIND_COORDINATOR, 2)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    talk.send(heartbeat(2))
    assert len(talk.answers()) == 1


@pytest.mark.parametrize("error", [asyncio.CancelledError(), MemoryError()])
def test_an_error_while_an_answer_is_encoded_is_answered_for_whatever_it_is(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    calls = []
    replaced(monkeypatch, lambda call, *_: calls.append(call))
    talk.send(FIND)

    class Response:
        def __getattr__(self, name: str) -> Any:
            raise error if name != "error_code" else AttributeError

    (call,) = calls
    call.answer(Response())
    ((_, response),) = talk.answered(FIND_COORDINATOR, 2)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_request_whose_task_is_cancelled_with_its_session_is_not_reported(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled(*_: Any) -> None:
        talk.session.abandon()
        raise asyncio.CancelledError

    replaced(monkeypatch, cancelled, is_async=True)
    talk.send(FIND)
    with pytest.raises(asyncio.CancelledError):
        await talk.running.pop()
    assert talk.reports == []


def test_a_response_that_cannot_be_encoded_does_not_harm_whoever_made_it(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    replaced(monkeypatch, lambda call, *_: calls.append(call))
    talk.send(FIND)
    (call,) = calls
    call.answer("this is no response")
    ((_, response),) = talk.answered(FIND_COORDINATOR, 2)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_request_without_an_answer_lets_the_next_one_through(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced(monkeypatch, lambda call, *_: call.answer_nothing())
    talk.send(FIND + heartbeat(2))
    assert [answer[3] for answer in talk.answers()] == [2]


def test_a_handler_may_end_the_session(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced(monkeypatch, lambda call, *_: call.disconnect("no"))
    talk.send(FIND + heartbeat(2))
    assert talk.answers() == []
    assert talk.ended() == "no_answer"


def test_a_second_answer_is_dropped(talk: SessionHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(call: Any, *_: Any) -> None:
        call.answer_body(b"one")
        call.answer_body(b"two")
        call.disconnect("three")

    replaced(monkeypatch, twice)
    talk.send(FIND)
    assert [answer[4:] for answer in talk.answers()] == [b"one"]
    assert talk.ended() is None


def test_a_decoder_that_fails_ends_its_session_only(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("bug")

    monkeypatch.setattr(registry.find_route(FIND_COORDINATOR, 2), "decode", broken)
    talk.send(heartbeat(1) + FIND)
    assert len(talk.answers()) == 1
    assert talk.ended() == "undecodable"
    assert talk.counters.frames_refused == {"undecodable": 1}


@pytest.mark.interpreted
def test_a_session_that_ends_outside_its_turn_wakes_its_connection_before_it_is_reported(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("the log is full")

    monkeypatch.setattr(LineLimiter, "report", fail)
    with pytest.raises(OSError, match="the log is full"):
        talk.session.end("planted", "outside of a request")
    assert (talk.ended(), talk.woken) == ("planted", 1)


def test_an_error_that_must_not_be_answered_ends_the_session(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("bug")

    replaced(monkeypatch, broken)
    monkeypatch.setattr(registry.find_route(FIND_COORDINATOR, 2), "refuse", lambda *_: None)
    talk.send(FIND)
    assert talk.answers() == []
    assert talk.ended() == "no_answer"


def test_a_refusal_that_fails_too_ends_the_session(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("bug")

    replaced(monkeypatch, broken)
    monkeypatch.setattr(registry.find_route(FIND_COORDINATOR, 2), "refuse", broken)
    talk.send(FIND)
    assert talk.answers() == []
    assert talk.ended() == "unanswerable"


def test_an_asynchronous_handler_parks_the_connection(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handle(call: Any, *_: Any) -> None:
        call.answer_body(b"done")

    replaced(monkeypatch, handle, is_async=True)
    talk.send(FIND + heartbeat(2))
    assert talk.answers() == []
    with pytest.raises(StopIteration):
        talk.running[0].send(None)
    assert [answer[4:] for answer in talk.answers()] == [b"done"]
    assert talk.is_ready()


def test_an_asynchronous_handler_that_raises_is_answered_for(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handle(*_: Any) -> None:
        raise ValueError("bug")

    replaced(monkeypatch, handle, is_async=True)
    talk.send(FIND)
    with pytest.raises(StopIteration):
        talk.running[0].send(None)
    ((_, response),) = talk.answered(FIND_COORDINATOR, 2)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_planned_fault_is_answered_instead_of_serving(talk: SessionHarness) -> None:
    class Once:
        planned = [ErrorCode.NOT_COORDINATOR]  # noqa: RUF012 - this test's own

        def take(self, call: SessionCall) -> ErrorCode | None:
            return self.planned.pop() if self.planned and call.api_key == HEARTBEAT else None

    talk = SessionHarness(FakeCoordinator(alive), faults=Once())
    talk.send(heartbeat(1) + heartbeat(2))
    errors = [response.error_code for _, response in talk.answered(HEARTBEAT, 4)]
    assert errors == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
    assert len(talk.coordinator.submitted) == 1


class Kept:
    """Implements net.context.Faults: every answer waits for the test."""

    def __init__(self) -> None:
        self.sends: list[Callable[[], None]] = []

    def take(self, _call: SessionCall) -> Late:
        """Keep what sends the answer."""
        return lambda _call, send: self.sends.append(send)


def test_late_answer_keeps_the_requests_behind_it_waiting() -> None:
    kept = Kept()
    talk = SessionHarness(FakeCoordinator(alive), faults=kept)
    talk.send(heartbeat(1) + heartbeat(2))
    assert talk.answers() == []
    assert len(talk.coordinator.submitted) == 1
    kept.sends[0]()
    talk.session.proceed(1)
    assert [number for number, _ in talk.answered(HEARTBEAT, 4)] == [1]
    assert len(talk.coordinator.submitted) == 2


def test_late_answer_to_a_client_that_has_gone_is_dropped() -> None:
    kept = Kept()
    talk = SessionHarness(FakeCoordinator(alive), faults=kept)
    talk.send(heartbeat(1))
    talk.session.abandon()
    kept.sends[0]()
    assert talk.answers() == []
