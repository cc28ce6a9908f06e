"""Workers die and come back, supervisors too; what was acknowledged is there."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.committer import Committer
from tests.support.wire import committed, create_topic, unique
from tests.support.workers import WorkersProcess, commit

PARTITIONS = 6


def committers(server: WorkersProcess, each: int = 2) -> list[Committer]:
    """Some for every worker; the semaphore of one tells of its own."""
    return [
        Committer(
            server.bootstraps[index],
            server.group_of(index),
            "t",
            partitions=PARTITIONS,
            heard=threading.Semaphore(0),
        )
        for index in range(server.count)
        for _ in range(each)
    ]


@contextmanager
def committing(which: list[Committer]) -> Iterator[None]:
    threads = [threading.Thread(target=each.run) for each in which]
    for thread in threads:
        thread.start()
    for each in which:
        hear(each, 20)
    yield
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def hear(committer: Committer, times: int) -> None:
    for _ in range(times):
        assert committer._heard.acquire(timeout=20), committer.refused


def problems(server: WorkersProcess, which: list[Committer]) -> list[str]:
    for each in which:
        each._bootstrap = server.coordinator_of(each._group)
    return [problem for each in which for problem in each.problems()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_worker_comes_back_with_every_acknowledged_commit_and_others_go_on(
    own_three: WorkersProcess,
) -> None:
    all_of_them = committers(own_three)
    with committing(all_of_them):
        own_three.kill_worker(1)
        for each in all_of_them:
            if own_three.owner_of(each._group) != 1:
                hear(each, 50)
        own_three.await_ready()
        assert problems(own_three, all_of_them) == []
        own_three.kill()
    assert '"worker": 1, "exit_code": -9' in own_three.log_text()
    # Nor does it matter that the whole of it was killed next.
    own_three.start()
    assert problems(own_three, all_of_them) == []


def test_the_first_worker_may_die_too_and_topics_made_meanwhile_come(
    own_three: WorkersProcess,
) -> None:
    topic = unique("wished")
    own_three.kill_worker(0)
    with own_three.worker(2) as worker:
        wish = {"topics": [{"name": topic}], "allow_auto_topic_creation": True}
        until = time.monotonic() + 20
        while worker.call("Metadata", 4, **wish)["topics"][0]["error_code"] != "NONE":
            assert time.monotonic() < until
            time.sleep(0.02)


def test_commits_for_a_topic_made_anew_survive_the_death_of_every_worker(
    own_three: WorkersProcess,
) -> None:
    groups = [own_three.group_of(index) for index in range(3)]
    first = own_three.bootstraps[0]
    create_topic(first, "orders", 1)
    own_three.kill_worker(0)
    own_three.await_ready()
    with own_three.worker(0) as worker:
        reply = worker.call("DeleteTopics", 5, topic_names=["orders"], timeout=10_000)
        assert reply["responses"][0]["error_code"] == "NONE", reply
    create_topic(first, "orders", 1)
    for index, group in enumerate(groups):
        with own_three.worker(index) as worker:
            until = time.monotonic() + 20
            while commit(worker, group, "orders", 77) != "NONE":
                assert time.monotonic() < until
                time.sleep(0.02)
    for index, group in enumerate(groups):
        own_three.kill_worker(index)
        own_three.await_ready()
        assert committed(own_three.bootstraps[index], group, "orders", 1) == {0: 77}


def test_workers_die_with_their_supervisor(own_three: WorkersProcess) -> None:
    pids = [own_three.pid_of(index) for index in range(3)]
    own_three.kill()
    until = time.monotonic() + 5
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.slow
def test_the_number_of_workers_may_change_after_a_crash_and_after_a_stop(
    own_three: WorkersProcess,
) -> None:
    everybody: list[Committer] = []
    for count in (2, 1, 3):
        fresh = committers(own_three, each=1)
        everybody += fresh
        with committing(fresh):
            own_three.kill()
        own_three.resize(count)
        own_three.start()
        assert problems(own_three, everybody) == []
    own_three.terminate()
    own_three.resize(2)
    own_three.start()
    assert problems(own_three, everybody) == []


def test_a_stop_in_order_leaves_a_plain_directory(
    own_three: WorkersProcess,
) -> None:
    everybody = committers(own_three, each=1)
    with committing(everybody):
        assert own_three.terminate() == 0
    assert '"worker_stop_took_too_long"' not in own_three.log_text()
    names = {path.name for path in (own_three.directory / "data").iterdir() if path.is_file()}
    assert names == {
        ".coordinator-partitions",
        ".lock",
        "coordinator-starts",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "topics.json",
    }


def test_a_second_supervisor_is_refused(three: WorkersProcess) -> None:
    second = WorkersProcess(three.directory, 2, {"log.dirs": str(three.directory / "data")})
    second.log = three.directory / "second.log"
    with pytest.raises(RuntimeError, match="is in use by process"):
        second.start()
