"""Connections of a crowd rest until something comes, and few at once go on."""

import asyncio
import select
import socket
from collections.abc import Iterator
from itertools import pairwise

import pytest

from coordinator_server.net.connection_parking import (
    AWAKE,
    WOKEN_PER_TURN,
    Parkable,
    ParkedConnections,
)


class Member(Parkable):
    """Stands for a connection that has been answered."""

    def __init__(self) -> None:
        self.rests = False
        self.woken = 0
        self.fails = False
        self.errors: list[str] = []
        self.ours, self.client = socket.socketpair()

    def rest(self) -> int:
        self.rests = True
        return self.ours.fileno()

    def wake_up(self) -> None:
        self.rests = False
        self.woken += 1
        if self.fails:
            raise RuntimeError("planted")

    def failed(self, error: BaseException) -> None:
        self.errors.append(repr(error))

    def close(self) -> None:
        self.ours.close()
        self.client.close()


class Unwatched(Member):
    """One that is left to the loop: it needs no socket."""

    def __init__(self) -> None:
        pass

    def rest(self) -> int:
        raise AssertionError("there is room for it")


@pytest.fixture
def members() -> Iterator[list[Member]]:
    made = [Member() for _ in range(2 * WOKEN_PER_TURN + 1)]
    yield made
    for member in made:
        member.close()


@pytest.fixture
def crowd() -> ParkedConnections:
    """One with nobody more to be left awake."""
    crowd = ParkedConnections()
    for _ in range(AWAKE):
        crowd.add(Unwatched())
    return crowd


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_who_rests_is_woken_when_something_comes(
    crowd: ParkedConnections, members: list[Member]
) -> None:
    one, other = members[:2]
    crowd.add(one)
    crowd.add(other)
    await turns()
    assert (one.rests, other.rests) == (True, True)
    one.client.send(b"a request")
    await turns()
    assert (one.rests, one.woken, other.rests) == (False, 1, True)


async def test_who_rests_is_woken_when_the_client_goes(
    crowd: ParkedConnections, members: list[Member]
) -> None:
    crowd.add(members[0])
    members[0].client.close()
    await turns()
    assert members[0].woken == 1


async def test_few_are_woken_in_a_turn_of_the_loop(
    crowd: ParkedConnections, members: list[Member]
) -> None:
    for member in members:
        crowd.add(member)
        member.client.send(b"a request")
    woken = [0]
    while woken[-1] < len(members):
        await turns(1)
        woken.append(sum(member.woken for member in members))
        assert len(woken) < 1_000, woken
    assert max(after - before for before, after in pairwise(woken)) == WOKEN_PER_TURN
    assert {member.woken for member in members} == {1}


async def test_who_is_heard_makes_room_for_another(
    crowd: ParkedConnections, members: list[Member]
) -> None:
    crowd.silent.pop()
    crowd.add(members[0])
    assert not members[0].rests
    crowd.add(members[1])
    assert members[1].rests


async def test_who_rests_takes_no_room(crowd: ParkedConnections, members: list[Member]) -> None:
    for member in members[:3]:
        crowd.add(member)
    crowd.silent.pop()
    crowd.silent.pop()
    crowd.add(members[3])
    assert [member.rests for member in members[:4]] == [True, True, True, False]


async def test_who_rests_already_goes_on_resting(
    crowd: ParkedConnections, members: list[Member]
) -> None:
    crowd.add(members[0])
    crowd.add(members[0])
    members[0].client.send(b"a request")
    await turns()
    assert members[0].woken == 1


async def test_who_is_closed_is_forgotten_and_its_number_may_be_given_away(
    crowd: ParkedConnections, members: list[Member]
) -> None:
    one, other, third = members[:3]
    for member in (one, other):
        crowd.add(member)
    crowd.remove(one)
    other.ours.close()
    crowd.remove(other)
    crowd.remove(third)
    one.client.send(b"a request")
    await turns()
    assert (one.woken, other.woken) == (0, 0)
    assert not crowd.silent & {one, other}
    crowd.add(one)
    await turns()
    assert one.woken == 1


async def test_one_that_raises_when_it_is_woken_keeps_none_of_the_others_asleep(
    crowd: ParkedConnections, members: list[Member]
) -> None:
    some = members[:5]
    for member in some:
        crowd.add(member)
        member.fails = member is some[1]
        member.client.send(b"?")
    await turns()
    assert [member.woken for member in some] == [1, 1, 1, 1, 1]
    assert [member.errors for member in some] == [[], ["RuntimeError('planted')"], [], [], []]


async def test_one_that_cannot_be_watched_is_left_to_the_loop(
    crowd: ParkedConnections, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = members[:2]
    crowd.add(one)
    monkeypatch.setattr(other, "rest", lambda: 1 << 20)  # a descriptor that is not open
    crowd.add(other)
    assert (one.rests, one.woken, other.woken) == (True, 0, 1)
    one.client.send(b"?")
    await turns()
    assert one.woken == 1


async def test_where_there_is_no_descriptor_to_watch_with_nobody_rests_until_there_is_one(
    crowd: ParkedConnections, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> None:
        raise OSError(24, "Too many open files")

    one, other = members[:2]
    with monkeypatch.context() as patched:
        patched.setattr(select, "epoll", none_left)
        crowd.add(one)
    crowd.add(other)
    assert (one.rests, other.rests) == (False, True)
    other.client.send(b"?")
    await turns()
    assert other.woken == 1
