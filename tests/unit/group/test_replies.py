"""Replies to all members of a group are made when they are looked at, and are those of each."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.broadcast_replies import (
    FEW,
    JoinedAll,
    SyncedAll,
    ToAll,
    replies_to_all,
)
from coordinator_server.group.effects import Effects, Joined, Refuse, Reply, Rule, Synced

MEMBERS = [f"m-{number}" for number in range(FEW + 4)]
TOLD = [(member_id, None, b"said") for member_id in MEMBERS]
REFUSED = Refuse(ErrorCode.UNKNOWN_MEMBER_ID, Rule.MEMBER_REMOVED)


def joined(count: int) -> JoinedAll:
    """What so many members are told, the second of whom leads."""
    some = MEMBERS[:count]
    return JoinedAll(list(range(count)), some, 7, "consumer", "range", "m-1", TOLD[:count])


def synced(count: int) -> SyncedAll:
    """What so many members are assigned."""
    assignments = [member_id.encode() for member_id in MEMBERS[:count]]
    return SyncedAll(list(range(count)), MEMBERS[:count], assignments, "consumer", "range")


def each(told: ToAll) -> list[Reply]:
    """The replies one by one."""
    return [told.reply(number) for number in range(len(told.tokens))]


def test_only_the_leader_is_told_of_the_members() -> None:
    told = joined(3)
    assert told.reply(1) == Reply(
        1, Joined("m-1", 7, "consumer", "range", "m-1", TOLD[:3]), "m-1", None
    )
    assert told.reply(2) == Reply(2, Joined("m-2", 7, "consumer", "range", "m-1", ()), "m-2", None)


def test_everybody_is_told_what_it_is_assigned() -> None:
    assert synced(3).reply(2) == Reply(2, Synced("consumer", "range", b"m-2"), "m-2", None)


@pytest.mark.parametrize("count", [0, 1, FEW])
def test_replies_to_few_are_made_at_once(count: int) -> None:
    assert replies_to_all(joined(count)) == each(joined(count))
    assert replies_to_all(synced(count)) == each(synced(count))


@pytest.mark.parametrize("told", [joined(len(MEMBERS)), synced(len(MEMBERS))])
def test_replies_to_many_can_be_cut_as_a_list_can(told: ToAll) -> None:
    replies, made = replies_to_all(told), each(told)
    assert not isinstance(replies, list)
    assert len(replies) == len(made)
    assert list(replies) == made
    assert list(replies[:5]) == made[:5]
    assert list(replies[5:][2:4]) == made[7:9]
    assert (replies[3], replies[-1], replies[2:][1]) == (made[3], made[-1], made[3])
    assert not replies[len(made) :]
    with pytest.raises(IndexError):
        replies[5:][len(made) - 5]


def test_what_was_replied_before_comes_first() -> None:
    told = joined(len(MEMBERS))
    effects = Effects()
    assert effects.replies == []
    effects.reply("other", REFUSED)
    assert effects.replies == [Reply("other", REFUSED)]
    effects.reply_to_all(replies_to_all(told))
    assert effects.replies == [Reply("other", REFUSED), *each(told)]


def test_what_is_replied_to_all_is_all_there_is() -> None:
    effects = Effects()
    effects.reply_to_all(replies_to_all(joined(len(MEMBERS))))
    assert not isinstance(effects.replies, list)
    assert list(effects.replies) == each(joined(len(MEMBERS)))
