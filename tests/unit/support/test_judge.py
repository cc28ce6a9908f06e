"""The judge of the client tests finds what it is there to find."""

from tests.support.client_events import Event
from tests.support.client_invariants import ClientInvariants


def judged(*events: Event) -> ClientInvariants:
    judge = ClientInvariants(2)
    for event in events:
        judge.observe(event)
    return judge


def assigned(member: str, at: float, generation: int, *partitions: int) -> Event:
    return Event("assigned", member, at, generation, partitions)


def revoked(member: str, at: float, *partitions: int) -> Event:
    return Event("revoked", member, at, partitions=partitions)


def test_an_orderly_rebalance_has_no_violations() -> None:
    judge = judged(
        assigned("a", 1, 1, 0, 1),
        revoked("a", 2, 0, 1),
        assigned("b", 3, 2, 1),
        assigned("a", 3, 2, 0),
    )
    assert judge.violations() == []
    assert judge.settled(["a", "b"])


def test_two_owners_in_one_generation_are_found() -> None:
    judge = judged(assigned("a", 1, 1, 0, 1), revoked("a", 2, 0, 1), assigned("b", 3, 1, 1))
    assert judge.violations() == ["generation 1: partition 1 belongs to a and b"]


def test_two_owners_at_one_time_are_found() -> None:
    judge = judged(assigned("a", 1, 1, 0), assigned("b", 2, 2, 0), revoked("a", 3, 0))
    assert judge.violations() == ["partition 0: b had it at 2.000, a until 3.000"]


def test_an_owner_that_never_gave_up_is_found() -> None:
    judge = judged(assigned("a", 1, 1, 0), assigned("b", 2, 2, 0))
    assert judge.violations() == ["partition 0: b had it at 2.000, a until inf"]


def test_a_paused_and_a_killed_member_may_lose_what_they_hold() -> None:
    judge = judged(
        assigned("a", 1, 1, 0),
        Event("paused", "a", 2),
        assigned("b", 3, 2, 0),
        Event("killed", "b", 4),
        assigned("c", 5, 3, 0),
    )
    assert judge.violations() == []


def test_a_falling_generation_is_found() -> None:
    judge = judged(assigned("a", 1, 2, 0), revoked("a", 2, 0), assigned("a", 3, 1, 0))
    assert judge.violations() == ["a: generation 1 after 2"]


def test_a_member_may_be_told_its_assignment_again_but_no_other_in_the_same_generation() -> None:
    judge = judged(assigned("a", 1, 2, 0), revoked("a", 2, 0), assigned("a", 3, 2, 0))
    assert judge.violations() == []
    judge.observe(assigned("a", 4, 2, 1))
    assert judge.violations() == ["a: partitions [0], then [1] in generation 2"]


def test_a_generation_given_out_again_is_found() -> None:
    judge = judged(
        assigned("a", 1, 5, 0),
        Event("left", "a", 2),
        Event("started", "b", 3),
        assigned("b", 4, 5, 1),
    )
    assert judge.violations() == ["b started after generation 5 and was assigned in 5"]


def test_cooperative_members_add_and_give_up_single_partitions() -> None:
    judge = judged(
        Event("assigned", "a", 1, 1, (0, 1), incremental=True),
        revoked("a", 2, 1),
        Event("assigned", "b", 3, 3, (1,), incremental=True),
    )
    assert judge.violations() == []
    assert judge.settled(["a", "b"], same_generation=False)
    assert not judge.settled(["a", "b"])


def test_a_group_is_settled_only_when_every_partition_is_held_in_one_generation() -> None:
    judge = judged(assigned("a", 1, 1, 0))
    assert not judge.settled(["a"])
    judge.observe(assigned("b", 2, 2, 1))
    assert not judge.settled(["a", "b"])
    judge.observe(assigned("a", 3, 2, 0))
    assert judge.settled(["a", "b"])


def test_a_record_nobody_read_is_found() -> None:
    judge = judged(
        Event("produced", "p", 1, partition=0, offsets=(0, 1)),
        Event("records", "a", 2, partition=0, offsets=(0,)),
    )
    assert judge.unread() == {(0, 1)}


def test_a_lost_commit_is_found() -> None:
    judge = judged(
        Event("commit", "a", 1, partition=0, offsets=(5,)),
        Event("commit", "a", 2, partition=0, offsets=(7,)),
        Event("commit", "a", 2, partition=1, offsets=(1,)),
    )
    assert judge.lost_commits({0: 7, 1: 1}) == []
    assert judge.lost_commits({0: 5, 1: 1}) == [
        "partition 0: commit of 7 was acknowledged, 5 is there"
    ]
    assert len(judge.lost_commits({})) == 2
