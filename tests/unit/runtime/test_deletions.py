"""Topics that were deleted, as a partition keeps them until no offset of theirs can come back."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import Done, Refuse, Rule
from coordinator_server.runtime.deleted_topics import MOST_OPEN, DeletedTopics
from coordinator_server.runtime.deletions import Deletions
from coordinator_server.runtime.tenure import Tenure


class Actor:
    """One that keeps what it is told."""

    is_idle = False

    def __init__(self) -> None:
        self.posted: list[Any] = []

    def post(self, event: Any) -> None:
        self.posted.append(event)


def tenure_of(*actors: Actor) -> Tenure:
    """A tenure with these groups."""
    by_id = {str(number): actor for number, actor in enumerate(actors)}
    return cast("Tenure", SimpleNamespace(actors=by_id, writer=None))


def test_partitions_without_groups_share_the_topics_and_keep_nothing() -> None:
    topics = frozenset(f"topic-{number}" for number in range(9_000))
    deleted = DeletedTopics()
    for _ in range(50):
        deletions = Deletions(deleted)
        deletions.add(topics)
        assert deletions.open is topics
        deletions.carry_out(tenure_of())
        assert not deletions.open
        assert not len(deleted)


def test_a_deletion_stays_until_all_groups_have_written_it() -> None:
    first, second = Actor(), Actor()
    deletions = Deletions(DeletedTopics())
    deletions.add(frozenset({"a"}))
    deletions.carry_out(tenure_of(first, second))
    deletions.add(frozenset({"a", "b"}))
    (told,), (refused,) = first.posted, second.posted
    assert told.topics == frozenset({"a"})
    told.token.resolve(Done())
    refused.token.resolve(Refuse(ErrorCode.NOT_COORDINATOR, Rule.GROUP_UNKNOWN))
    assert deletions.open == {"a", "b"}
    deletions.carry_out(tenure_of(first))
    assert first.posted[-1].topics == {"a", "b"}
    first.posted[-1].token.resolve(Done())
    assert not deletions.open


def test_what_no_tenure_carries_out_is_kept_once_for_all_partitions() -> None:
    deleted = DeletedTopics()
    failed = [Deletions(deleted) for _ in range(50)]
    for number in range(3 * MOST_OPEN):
        topics = frozenset({f"topic-{number % 7}"})
        for deletions in failed:
            deletions.add(topics)
    assert len(deleted) <= MOST_OPEN + 7
    for deletions in failed:
        assert len(deleted)
        deletions.carry_out(tenure_of(actor := Actor()))
        assert len(actor.posted[0].topics) == 7
        actor.posted[0].token.resolve(Done())
    assert not len(deleted)


@pytest.mark.parametrize("seed", range(20))
def test_a_partition_forgets_what_was_deleted_since_it_last_forgot_and_nothing_else(
    seed: int,
) -> None:
    random = Random(seed)
    deleted = DeletedTopics()
    partitions = [Deletions(deleted) for _ in range(4)]
    wanted: list[set[str]] = [set() for _ in partitions]
    for _ in range(5 * MOST_OPEN):
        topics = frozenset(f"topic-{random.randrange(30)}" for _ in range(2))
        for deletions, each in zip(partitions, wanted, strict=True):
            deletions.add(topics)
            each.update(topics)
        if random.random() < 0.05:
            at = random.randrange(len(partitions))
            assert partitions[at].open == wanted[at]
            partitions[at].carry_out(tenure_of())
            wanted[at] = set()
    assert [each.open for each in partitions] == wanted


def test_a_partition_that_is_lost_keeps_nothing_open_for_the_others() -> None:
    deleted = DeletedTopics()
    kept, lost = Deletions(deleted), Deletions(deleted)
    for deletions in (kept, lost):
        deletions.add(frozenset({"a"}))
    kept.carry_out(tenure_of())
    assert lost.open == {"a"}
    lost.drop()
    assert not len(deleted)
