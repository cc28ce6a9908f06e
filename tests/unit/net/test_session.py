"""What a session makes of the bytes of one connection."""

import struct
import traceback
from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.frames import framed
from coordinator_protocol.headers import request_header
from coordinator_server.api import heartbeat as heartbeat_api
from coordinator_server.api import registry
from coordinator_server.group.effects import DONE, Joined, Refuse, Result, Rule
from coordinator_server.group.events import Event
from coordinator_server.net.request_buffer import READ_AHEAD
from coordinator_server.net.session import MOST_AT_ONCE, WRITE_AHEAD
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.session_harness import (
    API_VERSIONS,
    FIND,
    HEARTBEAT,
    JOIN_GROUP,
    SessionHarness,
    heartbeat,
    join,
    replaced,
    request,
)


def alive(_group_id: str, event: Event) -> Result | None:
    """Answers everything but JoinGroup at once."""
    return None if type(event).__name__ == "Join" else DONE


@pytest.fixture
def talk() -> SessionHarness:
    return SessionHarness(FakeCoordinator(alive))


JOINED = Joined("m", 1, "consumer", "range", "m", [])


def test_requests_of_one_chunk_are_answered_in_order(talk: SessionHarness) -> None:
    talk.send(heartbeat(1) + heartbeat(2, version=0) + heartbeat(3))
    ids = [struct.unpack_from(">i", answer)[0] for answer in talk.answers()]
    assert ids == [1, 2, 3]
    assert talk.woken == 0, "the caller of receive writes"


def test_an_answer_has_the_bytes_kafka_sends(talk: SessionHarness) -> None:
    talk.send(heartbeat(7), heartbeat(8, version=0), heartbeat(9, version=1))
    assert talk.answers() == [
        bytes.fromhex("00000007 00 00000000 0000 00"),
        bytes.fromhex("00000008 0000"),
        bytes.fromhex("00000009 00000000 0000"),
    ]


def test_requests_may_come_byte_by_byte(talk: SessionHarness) -> None:
    stream = heartbeat(1) + heartbeat(2)
    talk.send(*(stream[at : at + 1] for at in range(len(stream))))
    assert [answer[3] for answer in talk.answers()] == [1, 2]


def test_a_thousand_pipelined_requests_do_not_nest(talk: SessionHarness) -> None:
    depth: list[int] = []

    def script(_group_id: str, _event: Event) -> Result:
        depth.append(sum(1 for _ in traceback.walk_stack(None)))
        return DONE

    talk.coordinator.script = script
    talk.send(b"".join(heartbeat(number) for number in range(1000)))
    while talk.is_ready():
        talk.session.proceed(5)
    assert len(talk.answers()) == 1000
    assert len(set(depth[:MOST_AT_ONCE])) == len(set(depth[MOST_AT_ONCE:])) == 1


def test_a_connection_is_served_some_requests_at_a_time_and_not_read_meanwhile(
    talk: SessionHarness,
) -> None:
    some = b"".join(heartbeat(number) for number in range(READ_AHEAD // len(heartbeat(1)) + 100))
    talk.send(some)
    assert len(talk.answers()) == MOST_AT_ONCE
    assert talk.is_ready()
    assert not talk.wants_more()
    talk.session.proceed(5)
    assert len(talk.answers()) == MOST_AT_ONCE
    while talk.is_ready():
        talk.session.proceed(5)
    assert talk.wants_more()


def test_what_comes_behind_a_parked_request_waits_for_it(talk: SessionHarness) -> None:
    talk.send(join(1) + heartbeat(2), heartbeat(3))
    assert talk.answers() == []
    talk.coordinator.resolve(0, JOINED)
    assert talk.woken == 1
    assert len(talk.answers()) == 1, "only the join: the rest is served when the loop comes round"
    assert talk.is_ready()
    talk.session.proceed(5)
    assert [answer[3] for answer in talk.answers()] == [2, 3]
    assert not talk.is_ready()


def test_reading_goes_on_behind_a_parked_request_up_to_a_bound(talk: SessionHarness) -> None:
    talk.send(join())
    assert talk.wants_more()
    some = b"".join(heartbeat(number) for number in range(100))
    sent = 0
    while talk.wants_more():
        talk.send(some)
        sent += 100
    assert len(some) * sent / 100 > READ_AHEAD - 200
    assert len(some) * sent / 100 < READ_AHEAD + len(some)
    talk.coordinator.resolve(0, JOINED)
    while talk.is_ready():
        talk.session.proceed(5)
    assert talk.wants_more()
    assert len(talk.answers()) == 1 + sent


def test_time_is_that_of_the_chunk(talk: SessionHarness) -> None:
    seen = []
    original = heartbeat_api.handle
    way = registry.find_route(HEARTBEAT, 4)
    assert way is not None

    def handle(call: Any, *rest: Any) -> None:
        seen.append(call.now_ms)
        original(call, *rest)

    way.handle = handle
    try:
        talk.session.receive(heartbeat(1) + heartbeat(2), 1234)
        talk.session.receive(heartbeat(3), 5678)
    finally:
        way.handle = original
    assert seen == [1234, 1234, 5678]


# --- who asks ---


def test_a_caller_is_known_by_the_client_id_of_its_request(talk: SessionHarness) -> None:
    for client_id in ("one", "one", "two", "", None):
        talk.send(request(JOIN_GROUP, 5, client_id=client_id, **_join_fields()))
        talk.coordinator.resolve(-1, JOINED)
    events = [event for _, event in talk.coordinator.submitted]
    assert [event.client_id for event in events] == ["one", "one", "two", "", ""]
    assert {event.client_host for event in events} == {"/127.0.0.1"}


def _join_fields() -> dict[str, Any]:
    return {"group_id": "g", "session_timeout_ms": 10_000, "protocol_type": "consumer"}


def test_a_header_in_another_form_with_the_same_client_id_is_understood(
    talk: SessionHarness,
) -> None:
    talk.send(heartbeat(1, version=3), heartbeat(2, version=4), heartbeat(3, version=3))
    assert len(talk.answers()) == 3


def test_before_authentication_only_api_versions_is_served() -> None:
    talk = SessionHarness(FakeCoordinator(alive), principal=None)
    talk.send(request(API_VERSIONS, 0))
    assert len(talk.answers()) == 1
    talk.send(heartbeat(2))
    assert talk.answers() == []
    assert talk.ended() == "unauthenticated"


# --- what cannot be understood ---


def test_an_api_versions_request_that_is_too_new_is_answered_in_version_0(
    talk: SessionHarness,
) -> None:
    header = request_header(API_VERSIONS, 4, 7, "a")
    newer = header[:2] + struct.pack(">h", 127) + header[4:]
    talk.send(framed(newer + b"whatever it holds"))
    ((correlation_id, response),) = talk.answered(API_VERSIONS, 0)
    assert correlation_id == 7
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(r.api_key, r.min_version, r.max_version) for r in response.api_keys] == [(18, 0, 4)]
    talk.send(request(API_VERSIONS, 0))
    assert len(talk.answers()) == 1, "the connection stays usable"


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (framed(b"\0\x0c\0"), "malformed"),
        (framed(b"\0\x0c\0\4\0\0"), "malformed"),
        (framed(b""), "malformed"),
        (framed(request_header(999, 0, 1, "a")), "unsupported"),
        (framed(request_header(JOIN_GROUP, 9, 1, "a").replace(b"\0\t", b"\0c")), "unsupported"),
        (framed(heartbeat(1)[4:-8]), "malformed"),
        (b"\xff\xff\xff\xff", "malformed"),
        (b"\x06\x40\x00\x01", "too_large"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "too_large"),
    ],
    ids=[
        "a header of 3 bytes",
        "a header of 6 bytes",
        "an empty frame",
        "an unknown API",
        "an unknown version",
        "half a body",
        "a negative length",
        "100 MiB and a byte",
        "HTTP",
    ],
)
def test_garbage_ends_the_session_with_one_line_and_one_count(
    talk: SessionHarness, what: bytes, reason: str
) -> None:
    talk.send(heartbeat(1) + what + heartbeat(2))
    assert len(talk.answers()) == 1, "what came before is answered, what comes after is not"
    assert talk.ended() == reason
    assert talk.counters.frames_refused == {reason: 1}
    assert talk.reported() == ["session_ended"]
    talk.send(heartbeat(3))
    assert talk.answers() == []


def test_garbage_behind_a_parked_request_is_found_after_its_answer(talk: SessionHarness) -> None:
    talk.send(join() + b"\xff\xff\xff\xff")
    assert talk.ended() is None
    talk.coordinator.resolve(0, JOINED)
    assert len(talk.answers()) == 1
    assert talk.ended() == "malformed"


def test_bytes_behind_a_body_are_ignored(talk: SessionHarness) -> None:
    talk.send(framed(heartbeat(1)[4:] + b"extra"))
    assert len(talk.answers()) == 1


# --- clients that go, do not read, or are sent away ---


def test_the_answer_for_a_client_that_has_gone_is_dropped(talk: SessionHarness) -> None:
    talk.send(join() + heartbeat(2))
    talk.session.abandon()
    talk.coordinator.resolve(0, JOINED)
    assert talk.answers() == []
    assert not talk.is_ready()
    assert len(talk.coordinator.submitted) == 1


def test_nothing_is_begun_while_the_client_does_not_read(talk: SessionHarness) -> None:
    talk.session.is_congested = True
    talk.send(heartbeat(1))
    assert talk.answers() == []
    assert not talk.wants_more()
    talk.session.is_congested = False
    talk.session.proceed(1)
    assert len(talk.answers()) == 1


def test_answers_pile_up_to_a_bound_only(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced(monkeypatch, lambda call, *_: call.answer_body(bytes(100_000)))
    talk.send(FIND * 50)
    answers = talk.answers()
    assert sum(map(len, answers)) < WRITE_AHEAD + 100_100
    rounds = 0
    while talk.is_ready():
        talk.session.proceed(1)
        answers += talk.answers()
        rounds += 1
    assert len(answers) == 50
    assert rounds > 10


def test_a_draining_session_answers_what_is_in_progress_and_no_more(talk: SessionHarness) -> None:
    talk.send(join() + heartbeat(2))
    talk.session.drain()
    assert talk.ended() is None
    talk.send(heartbeat(3))
    talk.coordinator.resolve(0, Refuse(ErrorCode.NOT_COORDINATOR, Rule.SHUTTING_DOWN))
    assert talk.ended() == "server_stopping"
    ((_, response),) = talk.answered(JOIN_GROUP, 9)
    assert response.error_code == ErrorCode.NOT_COORDINATOR


def test_an_idle_session_ends_at_once_when_drained(talk: SessionHarness) -> None:
    talk.send(heartbeat(1))
    talk.session.drain()
    assert talk.ended() == "server_stopping"
    assert len(talk.answers()) == 1


def test_requests_are_counted_by_api_and_error(talk: SessionHarness) -> None:
    talk.send(heartbeat(1) + heartbeat(2, group_id="") + heartbeat(3))
    counted = dict(talk.counters.requests)
    assert counted == {
        (ApiKey.HEARTBEAT, ErrorCode.NONE): 2,
        (ApiKey.HEARTBEAT, ErrorCode.INVALID_GROUP_ID): 1,
    }
    assert sum(talk.counters.apis[HEARTBEAT].seconds.counts) == 3
