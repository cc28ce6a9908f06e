"""The server is killed, at any moment, and started again on its data: nobody loses anything."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.client_processes import ClientGroup, OpenClientGroup
from tests.support.client_scenarios import finish
from tests.support.committer import Committer
from tests.support.member_commands import aiokafka_members
from tests.support.server import ServerProcess
from tests.support.wire import committed, create_topic, unique


@pytest.fixture
def own_client_group(own_server: ServerProcess, open_client_group: OpenClientGroup) -> ClientGroup:
    """A room on the server the test may kill."""
    return open_client_group(own_server.bootstrap)


def test_members_go_on_after_a_kill_with_the_generation_and_the_commits_they_had(
    own_server: ServerProcess, own_client_group: ClientGroup
) -> None:
    client_group, invariants = own_client_group, own_client_group.invariants
    feeder = client_group.feeder()
    members = [client_group.member(aiokafka_members(), name) for name in ("first", "second")]
    client_group.settle(*members)
    for _ in range(2):
        client_group.consumed_more(100)
        generation = invariants.last_generation()
        own_server.kill()
        acknowledged = dict(invariants.acknowledged)
        own_server.start()
        there = committed(
            client_group.bootstrap, client_group.group, client_group.topic, invariants.partitions
        )
        assert all(there.get(at, -1) >= offset for at, offset in acknowledged.items())
        client_group.consumed_more(100)
        assert invariants.last_generation() == generation
    feeder.leave()
    finish(client_group)


def test_members_that_were_joining_when_the_server_died_share_the_partitions_after_all(
    own_server: ServerProcess, own_client_group: ClientGroup
) -> None:
    client_group = own_client_group
    feeder = client_group.feeder()
    first = client_group.member(aiokafka_members(), "first")
    client_group.settle(first)
    second = client_group.member(aiokafka_members(), "second")
    client_group.wait_for_start(second)
    own_server.restart()
    client_group.settle(first, second)

    third = client_group.member(aiokafka_members(), "third")
    client_group.wait(
        lambda invariants: not invariants.holding["first"], "first gave up its partitions"
    )
    own_server.restart()
    client_group.settle(first, second, third)
    feeder.leave()
    finish(client_group)


def test_members_go_on_after_an_orderly_stop(
    own_server: ServerProcess, own_client_group: ClientGroup
) -> None:
    client_group = own_client_group
    feeder = client_group.feeder()
    members = [client_group.member(aiokafka_members(), name) for name in ("first", "second")]
    client_group.settle(*members)
    generation = client_group.invariants.last_generation()
    assert own_server.terminate() == 0
    own_server.start()
    client_group.consumed_more(100)
    assert client_group.invariants.last_generation() == generation
    feeder.leave()
    finish(client_group)


@contextmanager
def committing(committers: list[Committer]) -> Iterator[None]:
    """They commit as fast as they can until their server dies, each in a thread."""
    threads = [threading.Thread(target=committer.run) for committer in committers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def test_no_acknowledged_commit_is_lost_when_the_server_is_killed_among_many(
    own_server: ServerProcess,
) -> None:
    topic = unique("committed")
    create_topic(own_server.bootstrap, topic, 4)
    heard = threading.Semaphore(0)
    committers = [
        Committer(own_server.bootstrap, unique("committer"), topic, partitions=4, heard=heard)
        for _ in range(8)
    ]
    for _ in range(3):
        with committing(committers):
            try:
                for _ in range(400):
                    assert heard.acquire(timeout=20), own_server.log_tail()
            finally:
                own_server.kill()
        own_server.start()
        problems = [problem for committer in committers for problem in committer.problems()]
        assert not problems, problems
