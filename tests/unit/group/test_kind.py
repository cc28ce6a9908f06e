"""GroupKind, as the classic group implements it for the runtime and the observers."""

from coordinator_protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from coordinator_server.group.group import Group
from coordinator_server.group.status import (
    Census,
    GroupStatus,
    GroupSummary,
    MemberStatus,
)
from tests.support.group_harness import REBALANCE_MS, SESSION_MS, GroupHarness, Member


def consumer(story: GroupHarness, name: str, instance: str | None = None) -> Member:
    member = story.member(name, instance)
    member.protocols = [("range", encode_subscription(Subscription(["orders"])))]
    return member


def status_of(story: GroupHarness) -> GroupStatus:
    return story.classic.status()


def member_status(story: GroupHarness) -> MemberStatus:
    (member,) = status_of(story).members
    return member


# --- sessions and the end of a tenure ---


def test_the_session_of_a_member_begins_when_its_held_reply_leaves() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.advance(1_000)
    story.group.released([a.member_id, "gone"], story.now)
    member = story.classic.members[a.member_id]
    assert member.session_deadline == story.now + SESSION_MS
    Group("absent").released([a.member_id], story.now)


def test_a_group_with_members_or_a_rebalance_has_something_to_end() -> None:
    story = GroupHarness()
    found = [story.group.has_nothing_to_end]
    story.commit()
    found.append(story.group.has_nothing_to_end)
    (a,) = story.stable("a")
    found.append(story.group.has_nothing_to_end)
    a.leave()
    found.append(story.group.has_nothing_to_end)
    assert found == [True, True, False, True]


def test_a_generation_is_logged_when_the_group_is_at_rest() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    found = [story.classic.has_logged_generation]
    a.join()
    found.append(story.classic.has_logged_generation)
    story.restart(spent_generation=7)
    found.append(story.classic.has_logged_generation)
    assert found == [True, False, False]


# --- members ---


def test_members_are_found_by_id_and_shown_with_their_hosts() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    assert story.classic.find_member("unknown") is None
    assert story.classic.find_member(a.member_id) == story.classic.members[a.member_id].culprit
    assert list(story.classic.member_hosts()) == ["/a"]
    assert story.classic.group_type == "classic"


def test_the_first_parked_request_names_its_api() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    assert story.classic.first_parked() is None
    leader, follower = (a, b) if story.classic.leader == a.member_id else (b, a)
    leader.join()
    parked = story.classic.first_parked()
    assert parked is not None
    assert (parked.api, parked.member.member_id) == ("JoinGroup", leader.member_id)
    follower.join()
    follower.sync()
    parked = story.classic.first_parked()
    assert parked is not None
    assert (parked.api, parked.member.member_id) == ("SyncGroup", follower.member_id)


def test_a_consumer_shows_its_topics_and_partitions() -> None:
    story = GroupHarness()
    a = consumer(story, "a")
    story.settle(a)
    found = member_status(story)
    assert (list(found.topics), found.assigned) == (["orders"], {}), "the assignment is unreadable"
    assert (found.session_timeout_ms, found.rebalance_timeout_ms) == (SESSION_MS, REBALANCE_MS)
    assert found.waits_for is None
    a.join()
    a.sync({a: encode_assignment(Assignment({"orders": [0, 1]}))})
    assert member_status(story).assigned == {"orders": [0, 1]}


def test_unreadable_metadata_and_other_protocol_types_show_no_topics() -> None:
    story = GroupHarness()
    story.stable("a")
    assert list(member_status(story).topics) == []
    other = GroupHarness()
    worker = other.member("w")
    worker.protocol_type = "connect"
    other.settle(worker)
    assert (list(member_status(other).topics), member_status(other).assigned) == ([], {})


def test_a_summary_and_a_status_describe_the_group() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    assert story.classic.summary() == GroupSummary("group", "Stable", "consumer", "range", 1, 1)
    found = status_of(story)
    assert (found.leader, found.waiting_for) == (a.member_id, [])
    assert found.state_since_ms == story.wall
    story.classic.state_since = -1
    assert status_of(story).state_since_ms is None


# --- awaited members ---


def test_a_stable_group_waits_for_nobody() -> None:
    story = GroupHarness()
    story.stable("a")
    found = story.classic.waiting(0)
    assert (found.phase, found.since_ms, found.deadline_ms) == (None, None, None)
    assert (found.waiting, found.joined, found.expected) == ([], 0, 0)
    assert story.classic.waiting_counts() == {"join": 0, "sync": 0, "pending": 0}


def test_the_join_phase_waits_for_members_and_for_handed_out_ids() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    static = story.member("s", "instance")
    static.enter()
    a.join()
    handed_out = story.member("p").join().member
    assert handed_out is not None
    found = story.classic.waiting(1_000)
    assert (found.phase, found.joined, found.expected) == ("join", 2, 4)
    assert [(each.member.member_id, each.kind, each.awaited_for) for each in found.waiting] == [
        (b.member_id, "dynamic", "join"),
        (handed_out.member_id, "pending", "join"),
    ]
    assert found.since_ms == story.now + 1_000
    assert {each.since_ms for each in found.waiting} == {story.now + 1_000}
    assert found.deadline_ms == story.now + 1_000 + REBALANCE_MS
    assert [each.deadline_ms for each in found.waiting] == [story.now + 1_000 + SESSION_MS] * 2
    assert story.classic.waiting_counts() == {"join": 1, "sync": 0, "pending": 1}
    assert [member.member_id for member in status_of(story).waiting_for] == [
        b.member_id,
        handed_out.member_id,
    ]
    assert {each.waits_for for each in status_of(story).members} == {None, "join"}


def test_the_sync_phase_waits_for_members_that_have_not_synced() -> None:
    story = GroupHarness()
    static = story.member("s", "instance")
    static.enter()
    story.advance(3_000)
    found = story.classic.waiting(0)
    assert (found.phase, found.joined, found.expected) == ("sync", 0, 1)
    assert [(each.kind, each.awaited_for) for each in found.waiting] == [("static", "sync")]
    assert story.classic.waiting_counts() == {"join": 0, "sync": 1, "pending": 0}


def test_a_follower_that_has_synced_waits_for_the_leader() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join()
    b.join()
    follower = b if story.classic.leader == a.member_id else a
    follower.sync()
    assert {each.waits_for for each in status_of(story).members} == {None, "sync"}


# --- counts ---


def test_a_census_counts_states_members_and_their_memory() -> None:
    story = GroupHarness()
    story.settle(story.member("a"), story.member("s", "instance"))
    census = Census.whole([Census()])
    story.classic.count(census)
    assert census.groups == {("Stable", "consumer"): 1}
    assert census.members == {"static": 1, "dynamic": 1, "pending": 0}
    assert not census.waiting
    assert census.memory_bytes["members"] > 2 * 600
    story.member("p").join()
    story.classic.count(census)
    assert (census.members["pending"], census.waiting["pending"]) == (1, 1)
    simple = GroupHarness()
    simple.commit()
    simple.classic.count(census)
    assert census.groups["Empty", ""] == 1
