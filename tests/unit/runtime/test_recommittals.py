"""Commits that come again and are taken at once: when they are, and what they bring about."""

from collections.abc import Sequence
from typing import Any

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.records import OffsetCommitKey, decode_key
from coordinator_server.group.context import Limits
from coordinator_server.group.events import CommitOffsets, Heartbeat
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.runtime.ticket import CallbackTicket
from coordinator_server.storage.base import OutcomeUnknown
from tests.support.group_harness import SESSION_MS, Member, Request, offset
from tests.support.offsets import OffsetToCommit, topics_of
from tests.unit.runtime.conftest import Office, settle
from tests.unit.runtime.test_holding import stable

BOTH = (offset(1), offset(2, partition=1, topic="payments"))


class Again:
    """A member's commit that was laid out."""

    def __init__(
        self,
        office: Office,
        member: Member,
        offsets: Sequence[OffsetToCommit] = BOTH,
        **changes: Any,
    ) -> None:
        given = {"member_id": member.member_id, "generation": member.generation, **changes}
        asked = CommitOffsets(
            None,
            given["member_id"],
            member.instance,
            given["generation"],
            topics_of(offsets),
            given.get("retention_ms", -1),
            True,
        )
        self._commit = office.coordinator.recommittal("group", asked)
        self._clock = office.clock

    def __call__(self, *offsets: int) -> Request | None:
        """The request; None if it was not taken."""
        request = Request("OffsetCommit again")
        now = self._clock.monotonic_ms()
        read = [offset.to_bytes(8, "big") for offset in offsets]
        return request if self._commit.make(read, CallbackTicket(request.answered), now) else None


def taken(request: Request | None) -> Request:
    assert request is not None
    return request


def committed(office: Office) -> dict[tuple[str, int], int]:
    group = office.coordinator.group("group")
    assert group is not None
    return {
        (topic, partition): value.offset
        for topic, values in group.offsets.committed.items()
        for partition, value in values.items()
    }


async def test_it_is_in_memory_and_in_the_log_like_any_other(office: Office) -> None:
    again = Again(office, await stable(office))
    before = len(office.storage.records(0))
    request = taken(again(10, 20))
    assert request.is_parked
    await settle()
    assert request.error is ErrorCode.NONE
    assert committed(office) == {("orders", 0): 10, ("payments", 1): 20}
    records = office.storage.records(0)[before:]
    keys = [decode_key(record.key or b"") for record in records]
    assert keys == [OffsetCommitKey("group", "orders", 0), OffsetCommitKey("group", "payments", 1)]
    assert office.dependencies.counters.offset_commits == 2


async def test_commits_of_one_turn_of_the_loop_are_one_append(office: Office) -> None:
    again = Again(office, await stable(office))
    appends = len(office.storage.appends)
    office.group("other").commit(offset(5))
    requests = [taken(again(number, number)) for number in range(3)]
    await settle()
    assert [len(records) for records in office.storage.appends[appends:]] == [1 + 3 * 2]
    assert {request.error for request in requests} == {ErrorCode.NONE}
    assert committed(office)["orders", 0] == 2


async def test_an_append_ends_where_the_places_in_a_batch_get_longer(office: Office) -> None:
    again = Again(office, await stable(office))
    appends = len(office.storage.appends)
    requests = [taken(again(number, number)) for number in range(40)]
    await settle()
    assert [len(records) for records in office.storage.appends[appends:]] == [64, 16]
    assert {request.error for request in requests} == {ErrorCode.NONE}


async def test_an_append_ends_where_it_would_be_too_large() -> None:
    office = await Office(max_append_bytes=1_000).open()
    again = Again(office, await stable(office))
    appends = len(office.storage.appends)
    requests = [taken(again(number, number)) for number in range(20)]
    await settle()
    sizes = [len(records) for records in office.storage.appends[appends:]]
    assert (len(sizes), sum(sizes)) == (3, 40)
    assert {request.error for request in requests} == {ErrorCode.NONE}
    await office.coordinator.stop()


async def test_the_session_begins_anew(office: Office) -> None:
    member = await stable(office)
    again = Again(office, member)
    for number in range(3):
        await office.timers.advance(SESSION_MS - 1)
        request = taken(again(number, number))
        await settle()
        assert request.error is ErrorCode.NONE
    await office.timers.advance(SESSION_MS)
    assert again(9, 9) is None


async def test_who_is_no_member_may_commit_for_an_empty_group(office: Office) -> None:
    office.group().commit(offset(1))
    await settle()
    stranger = office.group().member("stranger")
    again = Again(office, stranger)
    taken(again(3, 4))
    await settle()
    assert committed(office) == {("orders", 0): 3, ("payments", 1): 4}
    await stable(office)
    assert again(5, 6) is None


async def test_what_is_not_accepted_is_left_to_the_groups_turn(office: Office) -> None:
    member = await stable(office)
    assert Again(office, member, generation=member.generation + 1)(1, 2) is None
    assert Again(office, member, member_id="nobody")(1, 2) is None
    limit = Limits().offset_metadata_max_chars
    assert Again(office, member, [offset(1, metadata="x" * (limit + 1))])(1) is None
    assert Again(office, member, [offset(1, metadata="x" * limit)])(1) is not None


async def test_what_could_be_too_much_for_an_append_is_left_to_the_groups_turn() -> None:
    office = await Office(max_append_bytes=1_000).open()
    member = await stable(office)
    many = [offset(1, partition=number) for number in range(8)]
    assert Again(office, member, many)(*range(8)) is None
    await office.coordinator.stop()


async def test_members_commit_while_others_join_and_not_while_they_sync(office: Office) -> None:
    member = await stable(office)
    second = office.group().member("second")
    second.enter()
    await settle()
    again = Again(office, member)
    assert taken(again(1, 2)).is_parked
    await settle()
    member.join()
    await settle()
    assert Again(office, member)(1, 2) is None


async def test_a_group_that_does_not_exist_takes_nothing(office: Office) -> None:
    again = Again(office, office.group().member("stranger"))
    assert again(1, 2) is None
    assert office.tenure.actors == {}


async def test_it_is_held_until_its_records_are_durable(office: Office) -> None:
    again = Again(office, await stable(office))
    office.hold()
    request = taken(again(1, 2))
    await settle()
    assert request.is_parked
    await office.release()
    assert request.error is ErrorCode.NONE


async def test_it_is_refused_when_the_append_fails(office: Office) -> None:
    again = Again(office, await stable(office))
    office.hold()
    request = taken(again(1, 2))
    await settle()
    await office.fail(OutcomeUnknown("lost"))
    assert request.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert again(3, 4) is None


async def test_it_is_refused_when_the_append_before_it_fails_in_its_turn(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_batch: object, _then: object) -> None:
        raise OSError("closed")

    again = Again(office, await stable(office))
    monkeypatch.setattr(office.storage._logs[0], "append", refuse)
    requests = [taken(again(number, number)) for number in range(33)]
    assert {request.error for request in requests} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert office.state() is PartitionState.FAILED


async def test_it_does_not_overtake_the_mailbox(office: Office) -> None:
    member = await stable(office)
    again = Again(office, member)
    overtaking: list[Request | None] = []

    class Nosy(Request):
        def answered(self, result: object) -> None:
            overtaking.append(again(1, 2))

    nosy = Nosy("heartbeat")
    office.group().send(Heartbeat(nosy, member.member_id, None, member.generation), nosy)
    assert overtaking == [None]
    assert again(1, 2) is not None


async def test_a_bug_ends_the_tenure_and_answers_the_request(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = Again(office, await stable(office))

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("coordinator_server.group.group.apply_encoded", broken)
    request = taken(again(1, 2))
    assert request.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    ((group_id, bug),) = office.bugs
    assert (group_id, type(bug.__cause__)) == ("group", ZeroDivisionError)
    assert office.state() is PartitionState.FAILED


async def test_a_retention_time_of_its_own_cannot_be_laid_out(office: Office) -> None:
    member = await stable(office)
    with pytest.raises(ValueError, match="retention time"):
        Again(office, member, retention_ms=5)
