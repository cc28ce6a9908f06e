"""What the running coordinator tells of its groups: past, refusals, whom they wait for, offsets."""

from collections.abc import AsyncIterator

import pytest

from coordinator_protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from coordinator_server.group.events import LeavingMember
from coordinator_server.group.rebalance_events import Observation, RebalanceEvent, Refused
from coordinator_server.observe.forms import offset_form, waiting_form
from coordinator_server.observe.refusals import Refusals
from coordinator_server.observe.status import AdminResult
from coordinator_server.runtime.admin import CoordinatorAdmin
from coordinator_server.runtime.status import CoordinatorStatus
from tests.support.coordinator_harness import CoordinatorHarness, settle
from tests.support.group_harness import offset

METADATA_TOO_LONG = (
    "the metadata of partition 0 of 'orders' is too long: offset.metadata.max.bytes allows 4096 "
    "characters"
)
NOWHERE = AdminResult("GROUP_ID_NOT_FOUND", "Group nowhere not found.")


@pytest.fixture
async def desk() -> AsyncIterator[CoordinatorHarness]:
    desk = await CoordinatorHarness().start()
    yield desk
    await desk.stop()


def refused(desk: CoordinatorHarness) -> list[Refused]:
    return [seen for seen in desk.observed if isinstance(seen, Refused)]


async def test_the_past_is_there_again_after_a_restart(desk: CoordinatorHarness) -> None:
    group_client = desk.group_client()
    a = group_client.member("a")
    await group_client.settled(a)
    before = list(CoordinatorStatus(desk.coordinator).past("group"))
    assert before == [seen for seen in desk.observed if isinstance(seen, RebalanceEvent)]
    again = await CoordinatorHarness(desk.storage).start()
    assert list(CoordinatorStatus(again.coordinator).past("group")) == before
    assert list(CoordinatorStatus(again.coordinator).past("nowhere")) == []


async def test_a_group_is_elsewhere_if_a_member_is_on_another_host(
    desk: CoordinatorHarness,
) -> None:
    group_client = desk.group_client()
    a = group_client.member("a")
    await group_client.settled(a)
    status = CoordinatorStatus(desk.coordinator)
    here = group_client.classic.members[a.member_id].client_host
    assert not status.is_elsewhere("group", here)
    assert status.is_elsewhere("group", "/elsewhere")
    assert not status.is_elsewhere("nowhere", here)


async def test_a_refusal_says_what_was_sent_and_since_when_something_else_holds(
    desk: CoordinatorHarness,
) -> None:
    group_client = desk.group_client()
    a = group_client.member("a")
    await group_client.settled(a)
    desk.observed.clear()
    a.heartbeat(7)
    (told,) = refused(desk)
    assert (told.api, told.error, told.rule) == (
        "Heartbeat",
        "ILLEGAL_GENERATION",
        "generation_differs",
    )
    assert told.detail.startswith("it sent generation 7, the group is at 1 since 20")
    assert told.member == group_client.classic.members[a.member_id].culprit


async def test_a_parked_request_that_is_refused_is_told_as_its_own(
    desk: CoordinatorHarness,
) -> None:
    group_client = desk.group_client()
    a, b = group_client.member("a"), group_client.member("b")
    await group_client.settled(a, b)
    b.leave()
    b.member_id = ""
    b.enter()
    await settle()
    b.leave()
    await settle()
    told = [(seen.api, seen.error, seen.member.client_id) for seen in refused(desk)]
    assert ("JoinGroup", "UNKNOWN_MEMBER_ID", "b") in told


async def test_members_and_partitions_refused_inside_an_answer_are_told(
    desk: CoordinatorHarness,
) -> None:
    group_client = desk.group_client()
    a = group_client.member("a")
    await group_client.settled(a)
    group_client.leave(LeavingMember("stranger", None), LeavingMember("", "nobody"))
    a.commit(offset(1, metadata="x" * 5_000), offset(2, 1), offset(3, 2, metadata="y" * 5_000))
    await settle()
    told = [(seen.api, seen.rule, seen.member.member_id, seen.detail) for seen in refused(desk)]
    assert told == [
        ("LeaveGroup", "member_unknown", "stranger", "'stranger' is no member"),
        ("LeaveGroup", "instance_unknown", "", "no member has the group instance id 'nobody'"),
        (
            "OffsetCommit",
            "metadata_too_long",
            a.member_id,
            METADATA_TOO_LONG,
        ),
    ]
    assert desk.dependencies.counters.refusals["metadata_too_long"] == 1
    assert desk.dependencies.counters.offset_commits == 1


async def test_offsets_that_are_in_use_and_not_deleted_are_told(desk: CoordinatorHarness) -> None:
    group_client = desk.group_client()
    a = group_client.member(
        "a", protocols=[("range", encode_subscription(Subscription(["orders"])))]
    )
    await group_client.settled(a)
    group_client.delete_offsets(("orders", [0, 1]))
    assert [(seen.rule, seen.detail) for seen in refused(desk)] == [
        ("topic_subscribed", "members subscribe to 'orders'")
    ]


async def test_what_a_partition_cannot_serve_is_told_once_for_all_members(
    desk: CoordinatorHarness,
) -> None:
    await desk.partition("group").lost()
    group_client = desk.group_client()
    for name in ("a", "b"):
        group_client.member(name, member_id=name).join()
    told = [(seen.error, seen.rule, seen.member.client_id) for seen in refused(desk)]
    assert told == [("NOT_COORDINATOR", "not_owned", name) for name in ("a", "b")]
    assert all(seen.of_all and seen.detail for seen in refused(desk))


async def test_whoever_waits_when_a_partition_is_lost_is_told_of(desk: CoordinatorHarness) -> None:
    group_client = desk.group_client()
    a, b = group_client.member("a"), group_client.member("b")
    await group_client.settled(a, b)
    group_client.member("c").enter()
    await settle()
    desk.observed.clear()
    await desk.partition("group").lost()
    (told,) = refused(desk)
    assert (told.api, told.rule, told.member.client_id) == ("JoinGroup", "tenure_ended", "c")


async def test_a_flood_of_refusals_is_told_once() -> None:
    refusals = Refusals(lambda: 0)
    desk = await CoordinatorHarness().start()
    object.__setattr__(desk.dependencies, "fold_refusal", refusals.fold)

    def observe(seen: Observation) -> None:
        desk.observed.append(seen)
        refusals.observe(seen)

    object.__setattr__(desk.dependencies, "observe", observe)
    stranger = desk.group_client().member("stranger")
    stranger.member_id, stranger.generation = "nobody", 1
    for _ in range(500):
        stranger.heartbeat()
    assert len(refused(desk)) == 1
    assert [refusal.count for refusal in refusals.of("group")] == [500]
    await desk.stop()


async def test_waiting_names_everybody_with_age_and_deadline(desk: CoordinatorHarness) -> None:
    status = CoordinatorStatus(desk.coordinator)
    assert status.waiting("nowhere") is None
    group_client = desk.group_client()
    a, b = (
        group_client.member("a", session=30_000, rebalance=60_000),
        group_client.member("b", "one"),
    )
    await group_client.settled(a, b)
    waiting = status.waiting("group")
    assert waiting is not None
    assert (waiting.phase, waiting.waiting, waiting.expected) == (None, [], 0)
    began = desk.clock.wall_ms()
    c = group_client.member("c")
    c.enter()
    group_client.advance(2_000)
    pending = group_client.member("p", session=20_000)
    pending.join()
    await settle()
    found = status.waiting("group")
    assert found is not None
    form = waiting_form(found)
    assert (form["phase"], form["since_ms"], form["joined"], form["expected"]) == (
        "join",
        began,
        1,
        4,
    )
    waits = {who["client_id"]: (who["kind"], who["since_ms"]) for who in form["waiting"]}
    assert waits == {
        "a": ("dynamic", began),
        "b": ("static", began),
        "p": ("pending", began + 2_000),
    }
    (until,) = [who["deadline_ms"] for who in form["waiting"] if who["client_id"] == "p"]
    assert until == began + 22_000
    pending.leave()
    a.join(), b.join()
    await settle()
    found = status.waiting("group")
    assert found is not None
    assert [who["for"] for who in waiting_form(found)["waiting"]] == ["sync"] * 3
    group_client.sync_all(a, b, c)
    await settle()


async def test_members_are_told_with_topics_and_partitions(desk: CoordinatorHarness) -> None:
    group_client = desk.group_client()
    blob = encode_subscription(Subscription(["orders"]))
    a = group_client.member("a", protocols=(("range", blob),))
    await group_client.all_join(a)
    a.sync({a: encode_assignment(Assignment({"orders": [0, 2]}))})
    await settle()
    status = CoordinatorStatus(desk.coordinator).group("group")
    assert status is not None
    (member,) = status.members
    assert (member.topics, member.assigned) == (["orders"], {"orders": [0, 2]})
    assert status.state_since_ms == desk.clock.wall_ms()


async def test_members_that_say_gibberish_have_no_topics(desk: CoordinatorHarness) -> None:
    group_client = desk.group_client()
    a = group_client.member("a")
    await group_client.settled(a)
    status = CoordinatorStatus(desk.coordinator).group("group")
    assert status is not None
    assert [(member.topics, member.assigned) for member in status.members] == [((), {})]


async def test_offsets_are_told_with_the_time_they_expire(desk: CoordinatorHarness) -> None:
    status = CoordinatorStatus(desk.coordinator)
    assert list(status.offsets("nowhere")) == []
    group_client = desk.group_client()
    group_client.commit(offset(5, partition=1, metadata="m"))
    await settle()
    (told,) = status.offsets("group")
    assert offset_form(told) == {
        "topic": "orders",
        "partition": 1,
        "offset": 5,
        "leader_epoch": -1,
        "metadata": "m",
        "commit_ms": desk.clock.wall_ms(),
        "expire_ms": desk.clock.wall_ms() + desk.dependencies.limits.offsets_retention_ms,
    }


async def test_operators_get_an_answer_by_kafkas_name(desk: CoordinatorHarness) -> None:
    admin = CoordinatorAdmin(desk.coordinator)
    group_client = desk.group_client()
    a, b = group_client.member("a"), group_client.member("b", "one")
    await group_client.settled(a, b)
    assert (await admin.delete_group("group")).error == "NON_EMPTY_GROUP"
    assert (await admin.kick("group", "", "one", "stuck")).succeeded
    assert (await admin.force_rebalance("group", "now")).error == "REBALANCE_IN_PROGRESS"
    assert (await admin.kick("group", "nobody", None, "stuck")).error == "UNKNOWN_MEMBER_ID"
    a.leave()
    await settle()
    assert (await admin.force_rebalance("group", "now")).error == "INVALID_REQUEST"
    assert (await admin.reset_offsets("group", [("orders", 0, 3), ("orders", 1, 4)])).succeeded
    assert [told.offset for told in CoordinatorStatus(desk.coordinator).offsets("group")] == [3, 4]
    assert (await admin.delete_group("group")).succeeded
    assert await admin.kick("nowhere", "m", None, "") == NOWHERE
    assert await admin.force_rebalance("nowhere", "") == NOWHERE
    assert await admin.reset_offsets("nowhere", []) == NOWHERE


async def test_what_is_kept_of_a_refusal_is_short_whatever_was_sent(
    desk: CoordinatorHarness,
) -> None:
    group_client = desk.group_client()
    a = group_client.member("a")
    await group_client.settled(a)
    desk.observed.clear()
    long = "x" * 30_000
    group_client.member(long, member_id=long).heartbeat(1)
    (told,) = refused(desk)
    assert told.member.member_id == f"{'x' * 254}\N{HORIZONTAL ELLIPSIS}"
    assert len(told.detail) <= 1_000
    refusals = Refusals(lambda: 0)
    refusals.observe(told)
    place = (told.api, told.rule, told.member.member_id, told.detail)
    assert refusals.fold("group", place, 0)
