"""What workers are told: addresses counted up, and everything through the channel and back."""

import json
from uuid import UUID

import pytest

from coordinator_server.config import ConfigError, load
from coordinator_server.config.listeners import Listener
from coordinator_server.ports import TopicInfo
from coordinator_server.storage.base import Node
from coordinator_server.storage.segments.shares import Share
from coordinator_server.workers.plan import Plan, listeners_of, nodes_of

TWO = {
    "listeners": "IN://127.0.0.1:9092,OUT://127.0.0.1:9093",
    "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
}


def problems(**flags: str) -> list[str]:
    settings = {**TWO, **{name.replace("_", "."): value for name, value in flags.items()}}
    with pytest.raises(ConfigError) as raised:
        load(environ={}, flags=settings)
    return [str(problem) for problem in raised.value.problems]


def test_ports_are_counted_up_by_the_step() -> None:
    config = load(environ={}, flags={**TWO, "workers": "3", "workers.port.step": "2"}).config
    assert listeners_of(config, 2) == (
        Listener("IN", "127.0.0.1", 9096),
        Listener("OUT", "127.0.0.1", 9097),
    )


def test_nodes_are_told_their_advertised_port_or_the_one_that_was_bound() -> None:
    config = load(
        environ={},
        flags={
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": "PLAINTEXT://example.org:19092",
            "node.id": "5",
            "workers": "2",
        },
    ).config
    bound = [{"PLAINTEXT": 40_001}, {"PLAINTEXT": 40_002}]
    assert nodes_of(config, bound) == {
        "PLAINTEXT": [Node(5, "example.org", 19_092), Node(6, "example.org", 19_093)]
    }
    anywhere = load(environ={}, flags={"listeners": "PLAINTEXT://127.0.0.1:0"}).config
    assert nodes_of(anywhere, bound)["PLAINTEXT"][1] == Node(2, "127.0.0.1", 40_002)


def test_a_plan_comes_through_the_channel_as_it_was() -> None:
    config = load(
        environ={}, flags={**TWO, "workers": "2", "workers.port.step": "2", "topics": "a:3"}
    ).config
    topic = TopicInfo("a", UUID(int=7), 3)
    plan = Plan(
        config=config,
        share=Share(1, 2),
        cluster_id="cluster",
        start=4,
        nodes={"IN": [Node(1, "a", 1), Node(2, "a", 2)]},
        sockets={"IN": [5, 6]},
        http_socket=None,
        topics=[topic],
        gone=[topic._replace(name="b")],
    )
    assert Plan.of(json.loads(json.dumps(plan.form()))) == plan
    assert plan.node_id == 2


def test_ports_that_two_workers_would_share_are_refused() -> None:
    (problem,) = problems(workers="3", workers_port_step="1")
    assert problem == (
        "workers.port.step=1 (command line): IN of worker 1 and OUT of worker 0 have port 9093, "
        "expected distinct ports"
    )


def test_more_workers_than_partitions_or_ports_are_refused() -> None:
    (problem,) = problems(workers="4", workers_port_step="2", offsets_topic_num_partitions="3")
    assert "expected at most offsets.topic.num.partitions=3" in problem
    (problem,) = problems(workers="60", workers_port_step="1000", offsets_topic_num_partitions="60")
    assert "IN of worker 57 would have port 66092, expected at most 65535" in problem
    (problem,) = problems(workers="65")
    assert problem == "workers=65 (command line): expected at most 64"
