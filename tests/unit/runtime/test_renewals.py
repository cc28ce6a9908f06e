"""Heartbeats that are answered there and then: when they are, and what they bring about."""

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.events import Heartbeat
from coordinator_server.storage.base import OutcomeUnknown
from tests.support.group_harness import SESSION_MS, Member, Request
from tests.unit.runtime.conftest import Office, settle
from tests.unit.runtime.test_holding import stable


def renew(office: Office, member: Member, generation: int | None = None) -> bool:
    sent = member.generation if generation is None else generation
    now = office.clock.monotonic_ms()
    return office.coordinator.renew("group", member.member_id, member.instance, sent, now)


async def test_a_renewed_session_begins_anew(office: Office) -> None:
    member = await stable(office)
    for _ in range(3):
        await office.timers.advance(SESSION_MS - 1)
        assert renew(office, member)
    await office.timers.advance(SESSION_MS)
    assert member.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID


async def test_what_is_not_well_is_left_to_the_groups_turn(office: Office) -> None:
    member = await stable(office)
    assert not renew(office, member, generation=member.generation + 1)
    stranger = office.group().member("stranger", member_id="nobody", generation=1)
    assert not renew(office, stranger)
    assert not renew(office, office.group().member("fenced", "i", member_id=member.member_id))


async def test_a_member_of_a_rebalance_hears_of_it(office: Office) -> None:
    member = await stable(office)
    office.group().member("second").enter()
    await settle()
    assert not renew(office, member)
    assert member.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_heartbeat_does_not_overtake_records_that_are_not_durable(office: Office) -> None:
    member = await stable(office)
    office.hold()
    commit = member.commit()
    await settle()
    assert not renew(office, member)
    await office.release()
    assert commit.error is ErrorCode.NONE
    assert renew(office, member)


async def test_a_heartbeat_does_not_overtake_the_mailbox(office: Office) -> None:
    member = await stable(office)
    overtaking: list[bool] = []

    class Nosy(Request):
        def answered(self, result: object) -> None:
            overtaking.append(renew(office, member))

    nosy = Nosy("heartbeat")
    office.group().send(Heartbeat(nosy, member.member_id, None, member.generation), nosy)
    assert overtaking == [False]
    assert renew(office, member)


async def test_nothing_is_renewed_where_no_tenure_is(office: Office) -> None:
    member = await stable(office)
    office.storage.fail_next(0, OutcomeUnknown("lost"))
    member.commit()
    await settle()
    assert not renew(office, member)


async def test_nothing_is_renewed_of_a_group_that_does_not_exist(office: Office) -> None:
    stranger = office.group().member("stranger", member_id="nobody", generation=1)
    assert not renew(office, stranger)
    assert office.tenure.actors == {}
