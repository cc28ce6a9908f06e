"""What a group goes through in the tests, the same for every client."""

import time

from tests.support.processes import MemberKind, Room
from tests.support.wire import committed

EXPIRES = 6_000
"""The shortest session Kafka's defaults allow, ms: for members that will fall silent."""


def finish(room: Room) -> None:
    """Read all that was written, find it committed, and judge."""
    room.consumed_all()
    wait_for_commits(room)
    judge = room.judge
    assert not judge.violations(), "\n".join([*judge.violations(), room.report()])
    offsets = committed(room.bootstrap, room.group, room.topic, judge.partitions)
    assert not judge.lost_commits(offsets), judge.lost_commits(offsets)


def wait_for_commits(room: Room, within: float = 15.0) -> None:
    """Wait until the end of every partition is committed."""
    ends = dict.fromkeys(range(room.judge.partitions), 0)
    for partition, offset in room.judge.produced:
        ends[partition] = max(ends[partition], offset + 1)
    deadline = time.monotonic() + within
    while True:
        offsets = committed(room.bootstrap, room.group, room.topic, room.judge.partitions)
        if all(offsets.get(partition, 0) >= end for partition, end in ends.items()):
            return
        if time.monotonic() >= deadline:
            raise AssertionError(
                f"not committed within {within} s: {ends}, but {offsets}\n{room.report()}"
            )
        time.sleep(0.05)


def members_come_and_go(room: Room, kind: MemberKind) -> None:
    """1, 2, 3 members; one leaves, one is killed, one is stopped and continued."""
    feeder = room.feeder()
    first = room.member(kind, "first")
    room.settle(first)
    second = room.member(kind, "second", session_ms=EXPIRES)
    room.settle(first, second)
    third = room.member(kind, "third")
    room.settle(first, second, third)
    room.consumed_more(100)

    third.leave()
    room.settle(first, second)

    fourth = room.member(kind, "fourth", session_ms=EXPIRES)
    room.settle(first, second, fourth)
    fourth.kill()
    room.settle(first, second)

    second.pause()
    room.settle(first)
    room.consumed_more(100)
    second.resume()
    room.settle(first, second)
    room.consumed_more(100)

    feeder.leave()
    finish(room)
    room.settle(first, second)
    second.leave()
    first.leave()


def one_comes_and_goes(room: Room, kind: MemberKind, *, same_generation: bool = True) -> None:
    """A member, a second one, and the first leaves."""
    feeder = room.feeder()
    first = room.member(kind, "first")
    room.settle(first, same_generation=same_generation)
    second = room.member(kind, "second")
    room.settle(first, second, same_generation=same_generation)
    room.consumed_more(100)
    first.leave()
    room.settle(second, same_generation=same_generation)
    feeder.leave()
    finish(room)
    second.leave()
