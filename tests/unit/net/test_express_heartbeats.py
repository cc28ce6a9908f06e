"""Heartbeats that are served from their bytes: all of the usual form, and no others."""

import struct
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_server.api.registry import find_route
from coordinator_server.group.effects import DONE, Refuse, Result, Rule
from coordinator_server.group.events import Event, Heartbeat
from coordinator_server.net.express import MOST_AT_ONCE
from coordinator_server.net.session_call import SessionCall
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.session_harness import HEARTBEAT, SessionHarness, heartbeat, request

VERSIONS = pytest.mark.parametrize("version", range(5))


@dataclass
class RenewingCoordinator(FakeCoordinator):
    """Renews every session at once, as long as `accepts` is set."""

    accepts: bool = True
    renewed: list[tuple[str, Heartbeat, int]] = field(default_factory=list)

    def renew(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: int
    ) -> bool:
        """See Coordinator."""
        if self.accepts:
            heartbeat = Heartbeat(None, member_id, instance_id, generation)
            self.renewed.append((group_id, heartbeat, now))
        return self.accepts


def done(_group_id: str, _event: Event) -> Result | None:
    return DONE


@pytest.fixture
def coordinator() -> RenewingCoordinator:
    return RenewingCoordinator(done)


def introduced(coordinator: RenewingCoordinator, **options: Any) -> SessionHarness:
    """A connection whose client has been named in requests of both header versions."""
    talk = SessionHarness(coordinator, **options)
    accepts, coordinator.accepts = coordinator.accepts, False
    for version in range(5):
        find_route(ApiKey.HEARTBEAT, version)  # made with the first request otherwise
    talk.send(heartbeat(0, 3), heartbeat(0, 4))
    assert len(talk.answers()) == 2
    coordinator.accepts = accepts
    coordinator.submitted.clear()
    return talk


@pytest.fixture
def talk(coordinator: RenewingCoordinator) -> SessionHarness:
    return introduced(coordinator)


def ids(answers: list[bytes]) -> list[int]:
    return [struct.unpack_from(">i", answer)[0] for answer in answers]


@VERSIONS
def test_an_accepted_heartbeat_is_answered_as_by_the_general_path(
    talk: SessionHarness, coordinator: RenewingCoordinator, version: int
) -> None:
    talk.send(heartbeat(1, version))
    assert not coordinator.submitted
    ((group_id, event, now),) = coordinator.renewed
    assert (group_id, event.member_id, event.generation, now) == ("g", "m", 1, 0)
    assert event.group_instance_id is None
    coordinator.accepts = False
    talk.send(heartbeat(1, version))
    assert len(coordinator.submitted) == 1
    express, general = talk.answers()
    assert express == general


@pytest.mark.parametrize("version", [3, 4])
def test_a_static_member_is_named_with_its_instance(
    talk: SessionHarness, coordinator: RenewingCoordinator, version: int
) -> None:
    fields: dict[str, Any] = {"group_id": "gruppe-ü", "generation_id": -1, "member_id": ""}
    if version == 4:
        fields["member_id"] = "m"
    talk.send(request(HEARTBEAT, version, **fields, group_instance_id="i"))
    ((group_id, event, _),) = coordinator.renewed
    assert (group_id, event.group_instance_id, event.generation) == ("gruppe-ü", "i", -1)
    assert event.member_id == fields["member_id"]


@VERSIONS
def test_many_of_one_chunk_are_answered_in_order(
    talk: SessionHarness, coordinator: RenewingCoordinator, version: int
) -> None:
    before = talk.counters.bytes_out
    chunk = b"".join(heartbeat(number, version) for number in range(60))
    talk.send(chunk + heartbeat(60, version)[:20])
    talk.send(heartbeat(60, version)[20:])
    answers = talk.answers()
    assert ids(answers) == list(range(61))
    assert len(coordinator.renewed) == 60
    assert talk.counters.requests == {(ApiKey.HEARTBEAT, 0): 63}
    assert sum(talk.counters.apis[ApiKey.HEARTBEAT].seconds.counts) == 63
    assert talk.counters.bytes_out - before == sum(4 + len(answer) for answer in answers)


def test_those_behind_a_bound_take_the_general_path(
    talk: SessionHarness, coordinator: RenewingCoordinator
) -> None:
    talk.send(b"".join(heartbeat(number) for number in range(3 * MOST_AT_ONCE)))
    while talk.session.is_ready:
        talk.session.proceed(1)
    assert ids(talk.answers()) == list(range(3 * MOST_AT_ONCE))
    assert len(coordinator.renewed) == MOST_AT_ONCE


def test_one_with_another_client_id_is_read_by_the_general_path(
    talk: SessionHarness, coordinator: RenewingCoordinator
) -> None:
    fields: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    talk.send(request(HEARTBEAT, 4, 1, "another", **fields), heartbeat(2))
    assert ids(talk.answers()) == [1, 2]
    assert not coordinator.renewed
    assert talk.session._header.caller.client_id == "tester"


@pytest.mark.parametrize("error", [RuntimeError("bug"), MemoryError(), ValueError("bug")])
def test_an_exception_is_left_to_the_general_path(
    talk: SessionHarness, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def raising(*_: object) -> bool:
        raise error

    monkeypatch.setattr(talk.services.authorizer, "allowed", raising)
    talk.send(heartbeat(1))
    (answer,) = talk.answers()
    assert struct.unpack_from(">h", answer, 9)[0] == ErrorCode.UNKNOWN_SERVER_ERROR


def test_one_that_is_refused_gets_its_answer_from_the_group(
    talk: SessionHarness, coordinator: RenewingCoordinator
) -> None:
    coordinator.accepts = False
    coordinator.script = lambda _group, _event: Refuse(
        ErrorCode.ILLEGAL_GENERATION, Rule.GENERATION_DIFFERS
    )
    talk.send(heartbeat(3))
    (answer,) = talk.answers()
    assert struct.unpack_from(">h", answer, 9)[0] == ErrorCode.ILLEGAL_GENERATION


def test_none_overtakes_a_request_in_progress(coordinator: RenewingCoordinator) -> None:
    talk = introduced(coordinator)
    coordinator.accepts, coordinator.script = False, lambda _group, _event: None
    talk.send(heartbeat(1))
    coordinator.accepts = True
    talk.send(heartbeat(2))
    assert not talk.answers()
    assert not coordinator.renewed
    coordinator.resolve(0, DONE)
    talk.session.proceed(1)
    assert ids(talk.answers()) == [1]
    assert len(coordinator.submitted) == 2
    coordinator.resolve(1, DONE)
    assert ids(talk.answers()) == [2]


class DenyingAuthorizer:
    """Implements ports.Authorizer: denies everything."""

    def allowed(self, *_: object) -> bool:
        return False


def test_a_caller_without_permission_is_refused(
    talk: SessionHarness, coordinator: RenewingCoordinator
) -> None:
    services: Any = talk.session._services
    object.__setattr__(services, "authorizer", DenyingAuthorizer())
    talk.send(heartbeat(2))
    (answer,) = talk.answers()
    assert struct.unpack_from(">h", answer, 9)[0] == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not coordinator.renewed


def test_an_unauthenticated_connection_is_closed(coordinator: RenewingCoordinator) -> None:
    talk = SessionHarness(coordinator, principal=None)
    talk.send(heartbeat(2))
    assert talk.session.ended == "unauthenticated"
    assert not coordinator.renewed


def test_injected_faults_meet_every_heartbeat(coordinator: RenewingCoordinator) -> None:
    class Always:
        def take(self, _call: SessionCall) -> ErrorCode:
            return ErrorCode.NOT_COORDINATOR

    talk = SessionHarness(coordinator, faults=Always())
    talk.send(heartbeat(2))
    (answer,) = talk.answers()
    assert struct.unpack_from(">h", answer, 9)[0] == ErrorCode.NOT_COORDINATOR
    assert not coordinator.renewed


def test_an_empty_group_id_is_refused_by_the_general_path() -> None:
    talk = SessionHarness(FakeCoordinator(done))
    talk.send(heartbeat(2, group_id=""))
    (answer,) = talk.answers()
    assert struct.unpack_from(">h", answer, 9)[0] == ErrorCode.INVALID_GROUP_ID
