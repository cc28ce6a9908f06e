"""Thousands of members, texts of 32 KiB, extreme numbers: no overflow, hang or quadratic cost."""

from collections.abc import Callable, Sequence

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Described, Joined, LeftMember, Rule, Synced
from coordinator_server.group.events import (
    DeleteGroup,
    Describe,
    ExpireOffsets,
    Leave,
    LeavingMember,
    ProtocolMetadata,
)
from tests.support.group_harness import DELAY_MS, GroupHarness, Request, offset
from tests.support.large_group import SESSION_MS, LargeGroup, bytecodes

MANY = 5_000
LONG = "x" * 32_768
DAY_MS = 24 * 60 * 60 * 1000
LONGEST_MS = 2_147_483_647

Step = Callable[[LargeGroup], object]


def rebalance(crowd: LargeGroup) -> None:
    """A newcomer of an old version makes everybody join and sync again."""
    crowd.join("", "new", requires_known_member_id=False)
    crowd.join_all()
    crowd.sync_all()


def fall_silent(crowd: LargeGroup) -> None:
    """The last heartbeats came over three seconds; then nothing."""
    crowd.advance(2 * SESSION_MS)
    assert crowd.state == "Empty"


def heartbeat(crowd: LargeGroup) -> None:
    for _ in range(4):
        crowd.heartbeat_all(SESSION_MS // 3)


def leave_together(crowd: LargeGroup) -> None:
    crowd.ask(Leave, [LeavingMember(member_id, None) for member_id in crowd.members])


def describe(crowd: LargeGroup) -> None:
    crowd.ask(Describe)


def settled(size: int) -> LargeGroup:
    crowd = LargeGroup(size)
    crowd.settle()
    return crowd


def waiting(size: int) -> LargeGroup:
    crowd = LargeGroup(size)
    crowd.get_ids()
    return crowd


STEPS: dict[str, tuple[Callable[[int], LargeGroup], Step]] = {
    "a group forms": (LargeGroup, LargeGroup.settle),
    "a newcomer makes it rebalance": (settled, rebalance),
    "members heartbeat": (settled, heartbeat),
    "members leave one by one": (settled, LargeGroup.leave_one_by_one),
    "members leave together": (settled, leave_together),
    "it is described": (settled, describe),
}


@pytest.mark.parametrize("what", STEPS)
def test_twice_the_members_cost_twice_as_much(what: str) -> None:
    prepare, step = STEPS[what]

    def cost(size: int) -> int:
        crowd = prepare(size)
        return bytecodes(lambda: step(crowd))

    assert cost(400) < 2.1 * cost(200)


@pytest.mark.parametrize("prepare", [settled, waiting])
def test_thousands_that_fall_silent_together_cost_little(
    prepare: Callable[[int], LargeGroup],
) -> None:
    def cost(size: int) -> int:
        crowd = prepare(size)
        if crowd.generation >= 0:
            crowd.heartbeat_all(3_000)
        return bytecodes(lambda: crowd.advance(2 * SESSION_MS))

    assert cost(1_000) < 2.1 * cost(500)


def test_a_group_of_thousands_forms_rebalances_and_ends() -> None:
    crowd = settled(MANY)
    assert {type(result) for result in crowd.answers.values()} >= {Joined, Synced}
    described = crowd.answers[crowd.ask(Describe)]
    assert isinstance(described, Described)
    assert len(described.members) == MANY
    assert {member.assignment for member in described.members} == {
        member_id.encode() for member_id in crowd.members
    }

    rebalance(crowd)
    assert (crowd.state, crowd.generation) == ("Stable", 2)
    while_joining = crowd.join(crowd.members[0])
    assert while_joining not in crowd.answers
    described = crowd.answers[crowd.ask(Describe)]
    assert isinstance(described, Described)
    assert described.state == "PreparingRebalance"

    crowd.advance(600_000)
    assert crowd.state == "Empty"
    assert list(crowd.group.broken_rules()) == []


def test_a_session_of_a_large_group_ends_no_more_than_a_tenth_of_a_second_late() -> None:
    crowd = settled(MANY)
    crowd.advance(SESSION_MS - 3_000)
    crowd.heartbeat_all(1)
    silent = crowd.members[7]
    crowd.classic.members[silent].session_deadline -= SESSION_MS // 2
    crowd.classic.purgatory.watch(crowd.classic.members[silent].session_deadline)
    due = crowd.classic.members[silent].session_deadline
    crowd.advance(due - crowd.now + 100)
    assert silent not in crowd.classic.members
    assert len(crowd.classic.members) == MANY - 1


def test_a_batch_of_thousands_that_leave_names_each_of_them() -> None:
    crowd = settled(1_000)
    leaving = [LeavingMember(member_id, None) for member_id in crowd.members]
    token = crowd.ask(Leave, [*leaving, *leaving])
    result = crowd.answers[token]
    members: Sequence[LeftMember] = getattr(result, "members", ())
    assert [m.error for m in members[:1_000]] == [ErrorCode.NONE] * 1_000
    assert {m.error for m in members[1_000:]} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert crowd.state == "Empty"


# --- texts ---


@pytest.mark.parametrize("field", ["name", "instance", "protocol_type"])
def test_an_id_of_32_kib_is_refused_and_leaves_nothing_behind(field: str) -> None:
    story = GroupHarness()
    request = story.member(**{"name": "a", field: LONG}).join()
    assert (request.error, request.rule) == (ErrorCode.INVALID_REQUEST, Rule.TEXT_TOO_LONG)
    assert story.state == "Dead"
    story.stable("b")


@pytest.mark.parametrize("text", [LONG, "\U0001f600" * 16_384, "\ufffd" * 12_000])
def test_a_member_or_group_id_of_32_kib_is_answered(text: str) -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    requests = [
        a.join(member_id=text),
        a.sync(member_id=text),
        a.commit(member_id=text),
        a.commit(group_instance_id=text),
        a.sync(group_instance_id=text),
    ]
    assert {r.error for r in requests} == {ErrorCode.UNKNOWN_MEMBER_ID}
    left = story.leave(LeavingMember(text, None), LeavingMember("", text))
    assert left.error is ErrorCode.NONE
    assert story.state == "Stable"
    named = GroupHarness(group_id=text)
    assert named.member("a").join().error is ErrorCode.INVALID_REQUEST
    assert named.commit().error is ErrorCode.INVALID_REQUEST
    assert named.fetch([("orders", [0])])["orders", 0].offset == -1


def test_a_reason_of_32_kib_is_cut_before_anybody_sees_it() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.join(reason=LONG)
    a.sync({a: b""}, generation=a.generation)
    a.leave(reason=LONG)
    reasons = [rebalance.client_reason or "" for rebalance in story.rebalances]
    assert max(map(len, reasons)) == 255


def test_metadata_of_a_commit_of_32_kib_is_refused_for_its_partition_only() -> None:
    story = GroupHarness(limits=Limits(offset_metadata_max_chars=2**31 - 1))
    story.commit(offset(1, 0, metadata=LONG), retention_ms=-1)
    assert story.fetch()["orders", 0].metadata == LONG
    story.commit(offset(2, 0, metadata=LONG), offset(2, 1), retention_ms=5)
    found = story.fetch()
    assert (found["orders", 0].offset, found["orders", 1].offset) == (1, 2)


# --- protocols ---


@pytest.mark.parametrize("protocols", [(), (("", b""),), (("range", b"1"), ("range", b"2"))])
def test_unusual_protocol_lists_neither_break_nor_poison_a_group(
    protocols: tuple[ProtocolMetadata, ...],
) -> None:
    story = GroupHarness()
    member = story.member("a", protocols=protocols)
    request = member.enter()
    story.advance(DELAY_MS)
    if protocols:
        assert request.joined.protocol_name == protocols[0][0]
        assert request.joined.members[0][2] == protocols[0][1]
        other = story.member("b", protocols=protocols)
        other.enter()
        member.join()
        assert other.generation == member.generation == 2
    else:
        assert request.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        story.stable("b")


def test_thousands_of_protocols_are_voted_on_once() -> None:
    story = GroupHarness()
    names = [f"protocol {n}" for n in range(MANY)]
    a = story.member("a", protocols=[(name, b"a") for name in names])
    b = story.member("b", protocols=[(name, b"b") for name in reversed(names)])
    story.settle(a, b)
    assert story.classic.protocol_name in {names[0], names[-1]}
    other = story.member("c", protocols=[("other", b"")]).join()
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# --- numbers ---


@pytest.mark.parametrize("timeout", [LONGEST_MS, -1, 0, -LONGEST_MS - 1])
def test_a_rebalance_timeout_of_any_number_is_survived(timeout: int) -> None:
    story = GroupHarness()
    members = [story.member(name, rebalance=timeout) for name in "ab"]
    a, b = members
    a.enter()
    b.enter()
    story.advance(2 * DELAY_MS)
    for _ in range(3):
        if story.state == "CompletingRebalance":
            leader = next(m for m in members if m.member_id == story.classic.leader)
            leader.sync({leader: b"all"})
        story.advance(5_000)
        for member in members:
            member.heartbeat()
    story.advance(10 * DAY_MS)
    assert story.state == "Empty"
    story.settle(story.member("c"))


def test_the_longest_session_timeout_does_not_overflow() -> None:
    story = GroupHarness()
    (a,) = story.stable("a", session=LONGEST_MS)
    story.advance(LONGEST_MS - 1)
    assert a.heartbeat().error is ErrorCode.NONE
    story.advance(LONGEST_MS - 1)
    assert story.state == "Stable"
    story.advance(1)
    assert story.state == "Empty"


@pytest.mark.parametrize("timeout", [0, -1, -LONGEST_MS - 1])
def test_a_session_that_ends_before_it_begins_is_no_endless_loop(timeout: int) -> None:
    """The API refuses it; a log may hold it."""
    story = GroupHarness()
    member = story.member("a", session=timeout)
    member.enter()
    story.advance(DAY_MS)
    assert story.state == "Empty"
    story.restart()
    story.stable("b")


@pytest.mark.parametrize("generation", [LONGEST_MS, -1, 0, -LONGEST_MS - 1])
def test_a_generation_of_any_number_is_answered(generation: int) -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    for request in (a.heartbeat(generation), a.sync(generation=generation)):
        assert request.error is ErrorCode.ILLEGAL_GENERATION
    assert a.commit(generation=generation).error is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), -1, 0])
def test_an_offset_or_epoch_of_any_number_is_kept(number: int) -> None:
    story = GroupHarness()
    epoch = max(min(number, 2**31 - 1), -(2**31))
    story.commit(offset(number, 2**31 - 1, epoch=epoch))
    for _ in range(2):
        found = story.fetch()["orders", 2**31 - 1]
        assert (found.offset, found.leader_epoch) == (number, epoch)
        story.restart()


@pytest.mark.parametrize("retention_ms", [2**63 - 1, LONGEST_MS, 0, -2, -(2**63)])
def test_a_retention_of_any_number_expires_when_it_says(retention_ms: int) -> None:
    story = GroupHarness()
    story.commit(retention_ms=retention_ms)
    story.restart()
    story.handle(ExpireOffsets())
    assert (story.state == "Empty") is (retention_ms > 0)


@pytest.mark.parametrize("jump", [DAY_MS, -DAY_MS, -1_700_000_000_000, 2**62])
def test_a_wall_clock_that_jumps_breaks_nothing(jump: int) -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.commit()
    story.wall += jump
    assert a.heartbeat().error is b.heartbeat().error is ErrorCode.NONE
    a.join()
    b.join()
    story.sync_all(a, b)
    assert a.commit().error is ErrorCode.NONE
    a.leave()
    b.leave()
    story.handle(ExpireOffsets())
    story.restart()
    story.wall -= jump
    story.handle(ExpireOffsets())
    assert story.state in {"Empty", "Dead"}


def test_time_that_stands_still_or_leaps_leaves_nobody_waiting_for_ever() -> None:
    story = GroupHarness()
    story.stable("a", "b")
    waiting_one = story.member("c").enter()
    story.now += DAY_MS
    story.advance(0)
    story.advance(1_000)
    assert not waiting_one.is_parked
    assert story.state in {"Empty", "CompletingRebalance"}


def test_a_group_of_thousands_of_offsets_is_deleted_in_one_turn() -> None:
    story = GroupHarness()
    story.commit(*(offset(1, n) for n in range(MANY)))
    request = Request("DeleteGroups")
    before = len(story.writes)
    story.send(DeleteGroup(request), request)
    assert request.error is ErrorCode.NONE
    assert len(story.writes) - before == MANY + 1
    assert {write.value for write in story.writes[before:]} == {None}
    assert story.state == "Dead"
