"""Commits that come again with other offsets are served without being decoded, and no others."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_server.api import offset_commit
from coordinator_server.group.effects import Committed, Refuse, Result, Rule
from coordinator_server.group.events import CommitOffsets, Event, Token
from coordinator_server.net.session_call import SessionCall
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.ticket import Ticket
from tests.support.fake_coordinator import Denial, FakeCoordinator, FakeRecommittal
from tests.support.session_harness import SessionHarness, request

COMMIT = ApiKey.OFFSET_COMMIT
ACCEPTED = Committed([ErrorCode.NONE] * 2)
ILLEGAL = Refuse(ErrorCode.ILLEGAL_GENERATION, Rule.GENERATION_DIFFERS)


def accept(_group_id: str, event: Event) -> Result | None:
    assert isinstance(event, CommitOffsets)
    return Committed([ErrorCode.NONE for topic in event.topics for _ in topic.partitions])


@dataclass
class Recommitting(FakeCoordinator):
    """Takes commits that come again, as long as all is well."""

    all_is_well: bool = True
    asked: list[tuple[str, CommitOffsets]] = field(default_factory=list)
    """What was laid out."""
    again: list[tuple[tuple[int, ...], Ticket]] = field(default_factory=list)

    def recommittal(self, group_id: str, asked: CommitOffsets) -> FakeRecommittal:
        self.asked.append((group_id, asked))

        def commit(offsets: Sequence[bytes], token: Token, _now: int) -> bool:
            assert isinstance(token, Ticket)
            if self.all_is_well:
                read = tuple(int.from_bytes(offset, "big") for offset in offsets)
                self.again.append((read, token))
            return self.all_is_well

        return FakeRecommittal(commit)


@pytest.fixture
def coordinator() -> Recommitting:
    return Recommitting(accept)


@pytest.fixture
def talk(coordinator: Recommitting) -> SessionHarness:
    return SessionHarness(coordinator, topics=[("orders", 4)])


def commit(
    number: int, *indexes: int, version: int = 8, topic: str = "orders", metadata: str = ""
) -> bytes:
    """A commit whose correlation id is its number, of offsets that have to do with it."""
    partitions = [
        OffsetCommitRequestPartition(index, 100 * number + index, -1, metadata)
        for index in indexes or (0, 3)
    ]
    return request(
        COMMIT,
        version,
        number,
        group_id="g",
        generation_id_or_member_epoch=5,
        member_id="m",
        topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )


@pytest.mark.parametrize("version", range(2, 10))
def test_from_the_third_on_commits_are_recognised_and_answered_like_the_first(
    talk: SessionHarness, coordinator: Recommitting, version: int
) -> None:
    for number in range(1, 5):
        talk.send(commit(number, version=version))
        if coordinator.again:
            coordinator.again[-1][1].resolve(ACCEPTED)
    assert [offsets for offsets, _ in coordinator.again] == [(300, 303), (400, 403)]
    ((group_id, asked),) = coordinator.asked
    assert (group_id, asked.token, asked.member_id, asked.generation) == ("g", None, "m", 5)
    answers = talk.answered(COMMIT, version)
    assert [number for number, _ in answers] == [1, 2, 3, 4]
    assert answers[0][1] == answers[3][1]
    assert talk.counters.requests == {(COMMIT, 0): 4}
    assert sum(talk.counters.apis[COMMIT].seconds.counts) == 4


def test_the_next_request_waits_for_the_answer(
    talk: SessionHarness, coordinator: Recommitting
) -> None:
    talk.send(commit(1), commit(2), commit(3), commit(4))
    assert len(coordinator.again) == 1
    assert len(talk.answers()) == 2
    coordinator.again[0][1].resolve(ACCEPTED)
    assert talk.woken == 1
    assert talk.is_ready()


def test_commits_of_one_chunk_are_recognised_each_in_its_turn(
    talk: SessionHarness, coordinator: Recommitting
) -> None:
    talk.send(commit(1), commit(2), commit(3) + commit(4) + commit(5)[:-1], commit(5)[-1:])
    for number in (3, 4):
        coordinator.again[-1][1].resolve(ACCEPTED)
        talk.session.proceed(number)
    assert [offsets for offsets, _ in coordinator.again] == [(300, 303), (400, 403)]
    assert len(coordinator.submitted) == 3
    assert [number for number, _ in talk.answered(COMMIT, 8)] == [1, 2, 3, 4, 5]


def test_a_refusal_is_told_for_every_partition(
    talk: SessionHarness, coordinator: Recommitting
) -> None:
    talk.send(commit(1), commit(2), commit(3))
    talk.answers()
    coordinator.again[0][1].resolve(ILLEGAL)
    ((number, response),) = talk.answered(COMMIT, 8)
    errors = [each.error_code for topic in response.topics for each in topic.partitions]
    assert (number, errors) == (3, [ErrorCode.ILLEGAL_GENERATION] * 2)


def test_what_the_group_does_not_simply_accept_is_handled_as_any_other(
    talk: SessionHarness, coordinator: Recommitting
) -> None:
    coordinator.all_is_well = False
    talk.send(commit(1), commit(2), commit(3))
    assert [number for number, _ in talk.answered(COMMIT, 8)] == [1, 2, 3]
    assert len(coordinator.submitted) == 3


def test_commits_of_other_partitions_are_not_taken_for_it(
    talk: SessionHarness, coordinator: Recommitting
) -> None:
    talk.send(commit(1), commit(2), commit(3, 0, 2), commit(4, metadata="!"), commit(5, 1))
    assert coordinator.again == []
    assert len(coordinator.submitted) == 5


@pytest.mark.parametrize(
    "indexes", [(), (7,), (-1,), tuple(range(65))], ids=["none", "no such", "impossible", "many"]
)
def test_what_has_partitions_that_cannot_be_committed_is_not_recognised(
    coordinator: Recommitting, indexes: tuple[int, ...]
) -> None:
    talk = SessionHarness(coordinator, topics=[("orders", 4)])
    none = request(COMMIT, 8, 1, group_id="g", generation_id_or_member_epoch=5, member_id="m")
    for number in range(1, 5):
        talk.send(commit(number, *indexes) if indexes else none)
    assert coordinator.again == []
    assert len(talk.answers()) == 4


def test_a_topic_that_has_gone_is_noticed(talk: SessionHarness, coordinator: Recommitting) -> None:
    talk.send(commit(1), commit(2))
    image = talk.services.image
    image._topics.clear()  # type: ignore[attr-defined]
    talk.answers()
    talk.send(commit(3))
    ((_, response),) = talk.answered(COMMIT, 8)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert coordinator.again == []


def test_who_may_not_any_more_is_refused(talk: SessionHarness, coordinator: Recommitting) -> None:
    talk.send(commit(1), commit(2))
    denied: set[Denial] = talk.services.authorizer.denied  # type: ignore[attr-defined]
    denied.add((Operation.READ, Resource.GROUP, "g"))
    talk.answers()
    talk.send(commit(3))
    ((_, response),) = talk.answered(COMMIT, 8)
    assert response.topics[0].partitions[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert coordinator.again == []


@pytest.mark.parametrize("cut", [1, 4, 12, 40])
def test_a_commit_that_comes_in_pieces_is_served_all_the_same(
    talk: SessionHarness, coordinator: Recommitting, cut: int
) -> None:
    third = commit(3)
    talk.send(commit(1), commit(2), third[:cut], third[cut:])
    assert [number for number, _ in talk.answered(COMMIT, 8)] == [1, 2, 3]
    assert coordinator.again == []


def test_a_bug_fails_the_request_and_nothing_else(
    talk: SessionHarness, coordinator: Recommitting, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.send(commit(1), commit(2))
    talk.answers()

    def broken(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(offset_commit.Later, "serve", broken)
    talk.send(commit(3))
    ((_, response),) = talk.answered(COMMIT, 8)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert talk.reported() == ["request_failed"]
    monkeypatch.undo()
    talk.send(commit(4))
    assert [offsets for offsets, _ in coordinator.again] == [(400, 403)]


def test_a_connection_whose_commits_never_come_again_lays_out_no_more(
    talk: SessionHarness, coordinator: Recommitting
) -> None:
    for number in range(1, 40):
        talk.send(commit(number, metadata=f"{number:02}"))
    assert len(coordinator.asked) == 8
    assert len(coordinator.submitted) == 39


def test_injected_faults_are_not_overtaken(coordinator: Recommitting) -> None:
    class Faults:
        def take(self, _call: SessionCall) -> ErrorCode | None:
            return None

    talk = SessionHarness(coordinator, topics=[("orders", 4)], faults=Faults())
    talk.send(commit(1), commit(2), commit(3))
    assert coordinator.asked == []


def test_a_client_that_does_not_read_gets_nothing_begun(
    talk: SessionHarness, coordinator: Recommitting
) -> None:
    talk.send(commit(1), commit(2))
    talk.session.is_congested = True
    talk.send(commit(3))
    assert coordinator.again == []
