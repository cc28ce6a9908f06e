"""Scenarios of group membership that run with every client library."""

import time

from tests.support.client_processes import ClientGroup, MemberKind
from tests.support.wire import committed

EXPIRES = 6_000
"""The shortest session Kafka's defaults allow, ms: for members that stop heartbeating."""


def finish(client_group: ClientGroup) -> None:
    """Consume all records, wait for the commits, and check the invariants."""
    client_group.consumed_all()
    wait_for_commits(client_group)
    invariants = client_group.invariants
    assert not invariants.violations(), "\n".join([*invariants.violations(), client_group.report()])
    offsets = committed(
        client_group.bootstrap, client_group.group, client_group.topic, invariants.partitions
    )
    assert not invariants.lost_commits(offsets), invariants.lost_commits(offsets)


def wait_for_commits(client_group: ClientGroup, within: float = 15.0) -> None:
    """Wait until the end of every partition is committed."""
    ends = dict.fromkeys(range(client_group.invariants.partitions), 0)
    for partition, offset in client_group.invariants.produced:
        ends[partition] = max(ends[partition], offset + 1)
    deadline = time.monotonic() + within
    while True:
        offsets = committed(
            client_group.bootstrap,
            client_group.group,
            client_group.topic,
            client_group.invariants.partitions,
        )
        if all(offsets.get(partition, 0) >= end for partition, end in ends.items()):
            return
        if time.monotonic() >= deadline:
            raise AssertionError(
                f"not committed within {within} s: {ends}, but {offsets}\n{client_group.report()}"
            )
        time.sleep(0.05)


def members_come_and_go(client_group: ClientGroup, kind: MemberKind) -> None:
    """Three members join; one leaves, one is killed, one is paused and resumed."""
    feeder = client_group.feeder()
    first = client_group.member(kind, "first")
    client_group.settle(first)
    second = client_group.member(kind, "second", session_ms=EXPIRES)
    client_group.settle(first, second)
    third = client_group.member(kind, "third")
    client_group.settle(first, second, third)
    client_group.consumed_more(100)

    third.leave()
    client_group.settle(first, second)

    fourth = client_group.member(kind, "fourth", session_ms=EXPIRES)
    client_group.settle(first, second, fourth)
    fourth.kill()
    client_group.settle(first, second)

    second.pause()
    client_group.settle(first)
    client_group.consumed_more(100)
    second.resume()
    client_group.settle(first, second)
    client_group.consumed_more(100)

    feeder.leave()
    finish(client_group)
    client_group.settle(first, second)
    second.leave()
    first.leave()


def one_comes_and_goes(
    client_group: ClientGroup, kind: MemberKind, *, same_generation: bool = True
) -> None:
    """Two members join and the first one leaves."""
    feeder = client_group.feeder()
    first = client_group.member(kind, "first")
    client_group.settle(first, same_generation=same_generation)
    second = client_group.member(kind, "second")
    client_group.settle(first, second, same_generation=same_generation)
    client_group.consumed_more(100)
    first.leave()
    client_group.settle(second, same_generation=same_generation)
    feeder.leave()
    finish(client_group)
    second.leave()
