"""A heartbeat that comes again is served without being decoded, and for nothing less."""

import struct
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator_server.group.effects import DONE, Refuse, Result, Rule
from coordinator_server.group.events import Event, Heartbeat
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from tests.support.conversation import Conversation, heartbeat
from tests.support.groups import FakeCoordinator


def alive(_group_id: str, _event: Event) -> Result | None:
    return DONE


@dataclass
class Renewing(FakeCoordinator):
    """Renews every session at once, as long as all is well."""

    all_is_well: bool = True
    renewed: list[tuple[str, Heartbeat, int]] = field(default_factory=list)

    def renew(self, group_id: str, heartbeat: Heartbeat, now: int) -> bool:
        if self.all_is_well:
            self.renewed.append((group_id, heartbeat, now))
        return self.all_is_well


@pytest.fixture
def coordinator() -> Renewing:
    return Renewing(alive)


@pytest.fixture
def talk(coordinator: Renewing) -> Conversation:
    return Conversation(coordinator)


def ids(answers: list[bytes]) -> list[int]:
    return [struct.unpack_from(">i", answer)[0] for answer in answers]


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_that_comes_again_is_answered_like_the_first(
    talk: Conversation, coordinator: Renewing, version: int
) -> None:
    talk.send(b"".join(heartbeat(number, version) for number in range(3)), heartbeat(3, version))
    answers = talk.answers()
    assert ids(answers) == [0, 1, 2, 3]
    assert {answer[4:] for answer in answers} == {answers[0][4:]}
    assert len(coordinator.submitted) == 1
    assert [(group, now) for group, _, now in coordinator.renewed] == [("g", 0), ("g", 0), ("g", 1)]
    (first,) = {id(each) for _, each, _ in coordinator.renewed}
    assert first is not None
    assert (coordinator.renewed[0][1].member_id, coordinator.renewed[0][1].generation) == ("m", 1)


def test_what_is_repeated_is_counted_like_the_rest(talk: Conversation) -> None:
    talk.send(heartbeat(1) + heartbeat(2) + heartbeat(3, group_id="other") + heartbeat(4), b"")
    assert talk.counters.requests == {(ApiKey.HEARTBEAT, 0): 4}
    assert sum(talk.counters.request_seconds[ApiKey.HEARTBEAT].counts) == 4


def test_when_all_is_not_well_any_more_the_group_says_why(
    talk: Conversation, coordinator: Renewing
) -> None:
    talk.send(heartbeat(1), heartbeat(2))
    coordinator.all_is_well = False
    coordinator.script = lambda _group, _event: Refuse(
        ErrorCode.ILLEGAL_GENERATION, Rule.GENERATION_DIFFERS
    )
    talk.send(heartbeat(3))
    assert [struct.unpack_from(">h", answer, 9)[0] for answer in talk.answers()] == [0, 0, 22]
    assert len(coordinator.submitted) == 2


def test_another_version_or_group_is_no_repetition(
    talk: Conversation, coordinator: Renewing
) -> None:
    talk.send(heartbeat(1, 4), heartbeat(2, 3), heartbeat(3, 3, "other"), heartbeat(4, 4))
    assert ids(talk.answers()) == [1, 2, 3, 4]
    assert coordinator.renewed == []


def test_a_permission_that_is_gone_ends_the_repetition(coordinator: Renewing) -> None:
    talk = Conversation(coordinator)
    talk.send(heartbeat(1))
    services: Any = talk.session._services
    object.__setattr__(services, "authorizer", Denying())
    talk.send(heartbeat(2))
    errors = [struct.unpack_from(">h", answer, 9)[0] for answer in talk.answers()]
    assert errors == [0, ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert coordinator.renewed == []


class Denying:
    """Implements ports.Authorizer: nobody may do anything."""

    def allowed(self, *_: object) -> bool:
        return False


def test_planned_faults_meet_repeated_requests_too(coordinator: Renewing) -> None:
    class Once:
        left = 1

        def take(self, _api_key: int) -> ErrorCode | None:
            self.left -= 1
            return ErrorCode.NOT_COORDINATOR if self.left == -1 else None

    talk = Conversation(coordinator, faults=Once())
    talk.send(heartbeat(1), heartbeat(2), heartbeat(3))
    errors = [struct.unpack_from(">h", answer, 9)[0] for answer in talk.answers()]
    assert errors == [0, ErrorCode.NOT_COORDINATOR, 0]
