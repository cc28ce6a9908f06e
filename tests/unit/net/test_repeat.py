"""A request that has come twice is served without being decoded, and for nothing less."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import DONE, Refuse, Result, Rule
from coordinator_server.group.events import Event, Heartbeat
from coordinator_server.net.familiar import LONGEST_REPEATED
from coordinator_server.net.session_call import SessionCall
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.session_harness import SessionHarness, heartbeat


def alive(_group_id: str, _event: Event) -> Result | None:
    return DONE


@dataclass
class Renewing(FakeCoordinator):
    """Renews every session at once, as long as all is well."""

    all_is_well: bool = True
    renewed: list[tuple[str, Heartbeat, int]] = field(default_factory=list)

    def renewal(self, group_id: str, heartbeat: Heartbeat) -> Callable[[int, int], bool]:
        def renew(now: int, times: int) -> bool:
            if self.all_is_well:
                self.renewed += [(group_id, heartbeat, now)] * times
            return self.all_is_well

        return renew


@pytest.fixture
def coordinator() -> Renewing:
    return Renewing(alive)


@pytest.fixture
def talk(coordinator: Renewing) -> SessionHarness:
    return SessionHarness(coordinator)


TWICE = heartbeat(0) * 2
"""What comes a third time is a repetition."""


def ids(answers: list[bytes]) -> list[int]:
    return [struct.unpack_from(">i", answer)[0] for answer in answers]


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_that_comes_again_is_answered_like_the_first(
    talk: SessionHarness, coordinator: Renewing, version: int
) -> None:
    several = b"".join(heartbeat(number, version) for number in range(2, 5))
    talk.send(heartbeat(0, version), heartbeat(1, version), several, heartbeat(5, version))
    answers = talk.answers()
    assert ids(answers) == [0, 1, 2, 3, 4, 5]
    assert {answer[4:] for answer in answers} == {answers[0][4:]}
    assert len(coordinator.submitted) == 2
    renewed = [(group, now) for group, _, now in coordinator.renewed]
    assert renewed == [("g", 2), ("g", 2), ("g", 2), ("g", 3)]
    (first,) = {id(each) for _, each, _ in coordinator.renewed}
    assert first is not None
    assert (coordinator.renewed[0][1].member_id, coordinator.renewed[0][1].generation) == ("m", 1)


def test_what_is_repeated_is_counted_like_the_rest(
    talk: SessionHarness, coordinator: Renewing
) -> None:
    chunks = [
        heartbeat(0) + heartbeat(1),
        heartbeat(2) + heartbeat(3),
        heartbeat(4) + heartbeat(5, 4, "other"),
    ]
    talk.send(*chunks)
    assert len(coordinator.renewed) == 2
    assert talk.counters.requests == {(ApiKey.HEARTBEAT, 0): 6}
    assert sum(talk.counters.apis[ApiKey.HEARTBEAT].seconds.counts) == 6
    assert talk.counters.bytes_in == sum(map(len, chunks))
    assert len(talk.answers()) == 6
    assert talk.counters.bytes_out == 6 * (4 + 12)


@pytest.mark.parametrize("cut", [1, 3, 4, 11, 12, 40])
def test_a_chunk_that_is_cut_elsewhere_is_served_all_the_same(
    talk: SessionHarness, coordinator: Renewing, cut: int
) -> None:
    stream = b"".join(heartbeat(number) for number in range(1, 5))
    talk.send(TWICE, stream[:cut], stream[cut:], heartbeat(5))
    assert ids(talk.answers()) == [0, 0, 1, 2, 3, 4, 5]
    assert [now for _, _, now in coordinator.renewed] == [3]


def test_what_follows_a_repetition_in_its_chunk_is_served_behind_it(
    talk: SessionHarness, coordinator: Renewing
) -> None:
    talk.send(TWICE, heartbeat(2) + heartbeat(3, group_id="other") + heartbeat(4))
    assert ids(talk.answers()) == [0, 0, 2, 3, 4]
    assert coordinator.renewed == []
    assert [group for group, _ in coordinator.submitted] == ["g", "g", "g", "other", "g"]


def test_nothing_is_repeated_while_the_client_does_not_read(
    talk: SessionHarness, coordinator: Renewing
) -> None:
    talk.send(TWICE)
    talk.session.is_congested = True
    talk.send(heartbeat(2))
    assert ids(talk.answers()) == [0, 0]
    talk.session.is_congested = False
    talk.session.proceed(0)
    talk.send(heartbeat(3))
    assert ids(talk.answers()) == [2, 3]
    assert len(coordinator.renewed) == 1


def test_nothing_is_repeated_behind_a_request_in_progress(coordinator: Renewing) -> None:
    talk = SessionHarness(coordinator)
    talk.send(TWICE)
    coordinator.script = lambda _group, _event: None
    talk.send(heartbeat(2, group_id="slow"), heartbeat(1), heartbeat(3))
    assert coordinator.renewed == []
    coordinator.resolve(2, DONE)
    assert ids(talk.answers()) == [0, 0, 2]


def test_nothing_is_repeated_once_the_session_has_ended(
    talk: SessionHarness, coordinator: Renewing
) -> None:
    talk.send(TWICE)
    talk.session.drain()
    talk.send(heartbeat(2))
    assert ids(talk.answers()) == [0, 0]
    assert coordinator.renewed == []


def test_when_all_is_not_well_any_more_the_group_says_why(
    talk: SessionHarness, coordinator: Renewing
) -> None:
    talk.send(TWICE, heartbeat(2))
    coordinator.all_is_well = False
    coordinator.script = lambda _group, _event: Refuse(
        ErrorCode.ILLEGAL_GENERATION, Rule.GENERATION_DIFFERS
    )
    talk.send(heartbeat(3))
    assert [struct.unpack_from(">h", answer, 9)[0] for answer in talk.answers()] == [0, 0, 0, 22]
    assert len(coordinator.submitted) == 3


def test_another_version_or_group_is_no_repetition(
    talk: SessionHarness, coordinator: Renewing
) -> None:
    talk.send(TWICE, heartbeat(2, 3), heartbeat(3, 3, "other"), heartbeat(4, 3), heartbeat(5, 2))
    assert ids(talk.answers()) == [0, 0, 2, 3, 4, 5]
    assert coordinator.renewed == []


def test_a_permission_that_is_gone_ends_the_repetition(coordinator: Renewing) -> None:
    talk = SessionHarness(coordinator)
    talk.send(TWICE)
    services: Any = talk.session._services
    object.__setattr__(services, "authorizer", Denying())
    talk.send(heartbeat(2))
    errors = [struct.unpack_from(">h", answer, 9)[0] for answer in talk.answers()]
    assert errors == [0, 0, ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert coordinator.renewed == []


class Denying:
    """Implements ports.Authorizer: nobody may do anything."""

    def allowed(self, *_: object) -> bool:
        return False


def test_planned_faults_meet_repeated_requests_too(coordinator: Renewing) -> None:
    class Once:
        left = 2

        def take(self, _call: SessionCall) -> ErrorCode | None:
            self.left -= 1
            return ErrorCode.NOT_COORDINATOR if self.left == -1 else None

    talk = SessionHarness(coordinator, faults=Once())
    talk.send(TWICE, heartbeat(2), heartbeat(3))
    errors = [struct.unpack_from(">h", answer, 9)[0] for answer in talk.answers()]
    assert errors == [0, 0, ErrorCode.NOT_COORDINATOR, 0]


def test_what_is_very_long_is_not_remembered(talk: SessionHarness, coordinator: Renewing) -> None:
    talk.send(*(heartbeat(number, group_id="g" * LONGEST_REPEATED) for number in range(3)))
    assert ids(talk.answers()) == [0, 1, 2]
    assert coordinator.renewed == []
