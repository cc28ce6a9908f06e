"""Several workers: clients find theirs, and go on when one of them is killed."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.client_processes import ClientGroup, MemberKind, client_group
from tests.support.client_scenarios import finish
from tests.support.member_commands import SaramaMembers, aiokafka_members, confluent_members
from tests.support.wire import create_topic, unique
from tests.support.workers import WorkersProcess


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[WorkersProcess]:
    """Three workers that the test may kill."""
    with WorkersProcess(tmp_path / "server") as server:
        yield server
        assert not server.bugs(), server.bugs()[:5]


@pytest.fixture
def client_groups(workers: WorkersProcess, tmp_path: Path) -> Iterator[list[ClientGroup]]:
    """A room for each worker: its group belongs there, its clients begin at the first one."""
    with ExitStack() as opened:
        made = []
        for index in range(3):
            topic, logs = unique("records"), tmp_path / str(index)
            logs.mkdir()
            create_topic(workers.bootstrap, topic, 4)
            group = workers.group_of(index)
            made.append(opened.enter_context(client_group(workers.bootstrap, group, topic, logs)))
        yield made


def settled(where: ClientGroup, kind: MemberKind) -> None:
    """Two members who have rebalanced once, and something to read."""
    feeder = where.feeder()
    first = where.member(kind, "first")
    where.settle(first)
    second = where.member(kind, "second")
    where.settle(first, second)
    where.consumed_more(50)
    feeder.leave()


def finish_at(where: ClientGroup, bootstrap: str) -> None:
    """Judge, with the commits as the group's worker has them."""
    where.bootstrap = bootstrap
    finish(where)


def test_groups_spread_over_workers_and_outlive_a_kill_of_one(
    workers: WorkersProcess, client_groups: list[ClientGroup]
) -> None:
    kinds = [aiokafka_members(), confluent_members(), aiokafka_members()]
    for index, (where, kind) in enumerate(zip(client_groups, kinds, strict=True)):
        assert workers.coordinator_of(where.group) == workers.bootstraps[index]
        settled(where, kind)
    feeders = [where.feeder("again") for where in client_groups]
    generations = [where.invariants.last_generation() for where in client_groups]
    workers.kill_worker(1)
    for where in client_groups:
        where.consumed_more(50)
    workers.await_ready()
    for where in client_groups:
        where.consumed_more(50)
    for feeder in feeders:
        feeder.leave()
    assert [where.invariants.last_generation() for where in client_groups] == generations
    for where, bootstrap in zip(client_groups, workers.bootstraps, strict=True):
        finish_at(where, bootstrap)


def test_sarama_goes_on_when_the_worker_of_its_group_is_killed(
    workers: WorkersProcess, client_groups: list[ClientGroup], sarama_members: SaramaMembers
) -> None:
    where = client_groups[2]
    settled(where, sarama_members())
    feeder = where.feeder("again")
    workers.kill_worker(2)
    where.consumed_more(50)
    feeder.leave()
    finish_at(where, workers.bootstraps[2])
