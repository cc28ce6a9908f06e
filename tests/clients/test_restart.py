"""The server is killed, at any moment, and started again on its data: nobody loses anything."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.committer import Committer
from tests.support.members import aiokafka_members
from tests.support.processes import OpenRoom, Room
from tests.support.server import ServerProcess
from tests.support.stories import finish
from tests.support.wire import committed, create_topic, unique


@pytest.fixture
def own_room(own_server: ServerProcess, open_room: OpenRoom) -> Room:
    """A room on the server the test may kill."""
    return open_room(own_server.bootstrap)


def test_members_go_on_after_a_kill_with_the_generation_and_the_commits_they_had(
    own_server: ServerProcess, own_room: Room
) -> None:
    room, judge = own_room, own_room.judge
    feeder = room.feeder()
    members = [room.member(aiokafka_members(), name) for name in ("first", "second")]
    room.settle(*members)
    for _ in range(2):
        room.consumed_more(100)
        generation = judge.last_generation()
        own_server.kill()
        acknowledged = dict(judge.acknowledged)
        own_server.start()
        there = committed(room.bootstrap, room.group, room.topic, judge.partitions)
        assert all(there.get(at, -1) >= offset for at, offset in acknowledged.items())
        room.consumed_more(100)
        assert judge.last_generation() == generation
    feeder.leave()
    finish(room)


def test_members_that_were_joining_when_the_server_died_share_the_partitions_after_all(
    own_server: ServerProcess, own_room: Room
) -> None:
    room = own_room
    feeder = room.feeder()
    first = room.member(aiokafka_members(), "first")
    room.settle(first)
    second = room.member(aiokafka_members(), "second")
    room.wait_for_start(second)
    own_server.restart()
    room.settle(first, second)

    third = room.member(aiokafka_members(), "third")
    room.wait(lambda judge: not judge.holding["first"], "first gave up its partitions")
    own_server.restart()
    room.settle(first, second, third)
    feeder.leave()
    finish(room)


def test_members_go_on_after_an_orderly_stop(own_server: ServerProcess, own_room: Room) -> None:
    room = own_room
    feeder = room.feeder()
    members = [room.member(aiokafka_members(), name) for name in ("first", "second")]
    room.settle(*members)
    generation = room.judge.last_generation()
    assert own_server.terminate() == 0
    own_server.start()
    room.consumed_more(100)
    assert room.judge.last_generation() == generation
    feeder.leave()
    finish(room)


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
