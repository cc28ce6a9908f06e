"""Offsets that are told there and then: when they are."""

from collections.abc import Sequence

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import FetchedTopic
from coordinator_server.group.events import FetchOffsets, Heartbeat
from coordinator_server.storage.base import OutcomeUnknown
from tests.support.group_harness import Request
from tests.unit.runtime.conftest import Office, settle
from tests.unit.runtime.test_holding import stable


def told(office: Office, group_id: str = "group") -> Sequence[FetchedTopic] | None:
    return office.coordinator.fetched(group_id, FetchOffsets(None, None, True))


async def test_what_is_committed_is_told(office: Office) -> None:
    member = await stable(office)
    assert told(office) == []
    commit = member.commit()
    await settle()
    assert commit.error is ErrorCode.NONE
    assert told(office)


async def test_what_is_not_durable_is_not_told(office: Office) -> None:
    member = await stable(office)
    office.hold()
    member.commit()
    await settle()
    assert told(office) is None
    await office.release()
    assert told(office)


async def test_a_question_does_not_overtake_the_mailbox(office: Office) -> None:
    member = await stable(office)
    overtaking = []

    class Nosy(Request):
        def answered(self, result: object) -> None:
            overtaking.append(told(office))

    nosy = Nosy("heartbeat")
    office.group().send(Heartbeat(nosy, member.member_id, None, member.generation), nosy)
    assert overtaking == [None]
    assert told(office) == []


async def test_nothing_is_told_where_no_tenure_or_no_group_is(office: Office) -> None:
    member = await stable(office)
    assert told(office, "another") is None
    office.storage.fail_next(0, OutcomeUnknown("lost"))
    member.commit()
    await settle()
    assert told(office) is None
