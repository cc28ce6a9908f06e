"""JoinGroup of members that are new: who is let in, and when the answer comes."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.records import GroupMetadataKey
from coordinator_server.group.effects import Joined, Refuse, Rule
from tests.support.group_harness import DELAY_MS, SESSION_MS, GroupHarness


def test_a_newcomer_is_first_told_its_member_id() -> None:
    story = GroupHarness()
    request = story.member("a").join()
    assert request.error is ErrorCode.MEMBER_ID_REQUIRED
    assert request.rule is Rule.MEMBER_ID_REQUIRED
    assert isinstance(request.result, Refuse)
    assert request.result.member_id == "a-00000000-0000-0000-0000-000000000001"
    assert story.state == "Empty"
    assert list(story.classic.pending) == [request.result.member_id]


def test_an_old_client_is_let_in_without_being_asked_to_come_back() -> None:
    story = GroupHarness()
    request = story.member("a", known=False).join()
    assert request.is_parked
    assert story.state == "PreparingRebalance"


def test_a_static_newcomer_is_let_in_without_being_asked_to_come_back() -> None:
    story = GroupHarness()
    request = story.member("a", "instance").join()
    story.advance(DELAY_MS)
    assert request.joined.member_id.startswith("instance-")


def test_the_first_generation_is_told_to_its_only_member() -> None:
    story = GroupHarness()
    member = story.member("a")
    request = member.enter()
    story.advance(DELAY_MS)
    assert request.result == Joined(
        member_id=member.member_id,
        generation=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=member.member_id,
        members=[(member.member_id, None, b"r")],
        skip_assignment=False,
    )


def test_only_the_leader_is_told_of_the_members() -> None:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b")
    first, second = a.enter(), b.enter()
    story.advance(2 * DELAY_MS)
    assert [member_id for member_id, _, _ in first.joined.members] == [a.member_id, b.member_id]
    assert second.joined.members == ()
    assert second.joined.leader == a.member_id


def test_the_first_that_is_written_of_a_group_is_a_generation_with_its_assignment() -> None:
    """Kafka writes an Empty group when a member id is asked for, which tells nobody anything."""
    story = GroupHarness()
    a = story.member("a")
    a.join()
    assert (story.state, story.writes) == ("Empty", [])
    a.join()
    story.advance(DELAY_MS)
    assert (story.state, story.writes) == ("CompletingRebalance", [])
    a.sync({a: b""})
    assert story.writes[0].key == GroupMetadataKey("group")


def test_an_unknown_member_id_does_not_make_a_group() -> None:
    story = GroupHarness()
    request = story.member("a", member_id="made-up").join()
    assert (request.error, request.rule) == (ErrorCode.UNKNOWN_MEMBER_ID, Rule.GROUP_UNKNOWN)
    assert story.group.is_vacant


def test_an_unknown_member_id_is_refused_in_every_state() -> None:
    story = GroupHarness()
    stranger = story.member("x", member_id="made-up")
    a = story.member("a")
    a.join()
    assert stranger.join().rule is Rule.MEMBER_UNKNOWN
    a.join()
    assert stranger.join().rule is Rule.MEMBER_UNKNOWN
    story.advance(DELAY_MS)
    assert stranger.join().rule is Rule.MEMBER_UNKNOWN
    a.sync()
    assert stranger.join().rule is Rule.MEMBER_UNKNOWN


def test_a_newcomer_makes_a_stable_group_rebalance() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    c = story.member("c")
    request = c.enter()
    assert request.is_parked
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    first = a.join()
    assert first.is_parked
    b.join()
    assert request.joined.generation == first.joined.generation == 2


def test_a_newcomer_gives_up_the_assignment_under_way() -> None:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b")
    a.enter(), b.enter()
    story.advance(2 * DELAY_MS)
    synced = b.sync()
    story.member("c").enter()
    assert (synced.error, synced.rule) == (
        ErrorCode.REBALANCE_IN_PROGRESS,
        Rule.REBALANCE_UNDER_WAY,
    )
    assert story.state == "PreparingRebalance"


# --- pending member ids (KIP-394) ---


def test_a_pending_member_holds_the_join_phase_up() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.member("b").enter()
    pending = story.member("c")
    pending.join()
    request = a.join()
    assert request.is_parked
    pending.join()
    assert request.joined.generation == 2


def test_the_join_phase_ends_when_a_pending_member_leaves() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.member("b").enter()
    pending = story.member("c")
    pending.join()
    request = a.join()
    assert pending.leave().error is ErrorCode.NONE
    assert request.joined.generation == 2


def test_the_join_phase_ends_when_a_pending_member_expires() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.member("b").enter()
    story.member("c").join()
    request = a.join()
    assert story.advance(SESSION_MS - 1) == []
    story.advance(1)
    assert request.joined.generation == 2
    assert ("c", "pending_expired") in story.removed


def test_a_pending_member_of_a_stable_group_disturbs_nobody() -> None:
    story = GroupHarness()
    (a,) = story.stable("a", session=60_000)
    story.member("b").join()
    story.advance(SESSION_MS)
    assert story.state == "Stable"
    assert story.removed == [("b", "pending_expired")]
    assert a.heartbeat().error is ErrorCode.NONE


def test_a_pending_member_id_is_not_given_to_a_static_member() -> None:
    story = GroupHarness()
    pending = story.member("a")
    pending.join()
    pending.instance = "instance"
    assert pending.join().rule is Rule.INSTANCE_UNKNOWN


def test_an_expired_member_id_is_unknown() -> None:
    story = GroupHarness()
    late = story.member("a")
    late.join()
    story.advance(SESSION_MS)
    assert late.join().error is ErrorCode.UNKNOWN_MEMBER_ID


# --- retries ---


def test_a_repeated_join_takes_the_place_of_the_parked_one() -> None:
    story = GroupHarness()
    a = story.member("a")
    first = a.enter()
    second = a.join()
    assert (first.error, second.is_parked) == (ErrorCode.REBALANCE_IN_PROGRESS, True)
    story.advance(DELAY_MS)
    assert second.joined.generation == 1
    assert len(second.joined.members) == 1


def test_retries_without_member_id_end_after_five_minutes() -> None:
    story = GroupHarness()
    story.stable("slow", session=1_800_000, rebalance=600_000)
    retries = [story.member("a", known=False).join() for _ in range(5)]
    assert story.advance(299_999) == []
    assert story.advance(1) == retries
    assert {request.error for request in retries} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert story.removed == [("a", "session_expired")] * 5


# --- sizes and texts ---


def test_texts_that_cannot_be_written_down_are_refused() -> None:
    story = GroupHarness()
    for how in (
        {"client_id": "\ufffd" * 11_000},
        {"group_instance_id": "\u00fc" * 17_000},
        {"protocol_type": "\ufffd" * 11_000},
        {"protocols": [("range", b""), ("p" * 40_000, b"")]},
    ):
        request = story.member("a", known=False).join(**how)
        assert (request.error, request.rule) == (ErrorCode.INVALID_REQUEST, Rule.TEXT_TOO_LONG)
    assert story.group.is_vacant


@pytest.mark.parametrize(
    ("client_id", "kept"),
    [
        ("c" * 32_730, "c" * 32_730),
        ("c" * 32_767, "c" * 32_730),
        ("c" + "\u00fc" * 16_383, "c" + "\u00fc" * 16_364),
    ],
)
def test_a_member_id_is_made_of_as_much_of_the_client_id_as_can_be_written(
    client_id: str, kept: str
) -> None:
    story = GroupHarness()
    member = story.member(client_id)
    story.settle(member)
    assert member.member_id == f"{kept}-00000000-0000-0000-0000-000000000001"


def test_a_group_id_that_cannot_be_written_down_is_refused() -> None:
    story = GroupHarness(group_id="\ufffd" * 11_000)
    assert story.member("a").join().rule is Rule.TEXT_TOO_LONG
    assert story.commit().rule is Rule.TEXT_TOO_LONG


def test_an_id_that_is_handed_out_is_known_with_whom_it_is_for_and_since_when() -> None:
    story = GroupHarness()
    story.stable("a", session=60_000)
    story.advance(500)
    pending = story.member("p")
    pending.join()
    handed_out = story.now
    story.advance(300)
    (known,) = story.classic.pending.values()
    assert (known.client_id, known.client_host, known.since) == ("p", "/p", handed_out)
