"""Directory, limits, addresses and the ports that allow everything."""

import resource

import pytest

from coordinator_server.config.listeners import Listener
from coordinator_server.net.address import peer_host
from coordinator_server.net.auth import AllowAll, Anonymous
from coordinator_server.net.directory import StaticDirectory, WorkersDirectory
from coordinator_server.net.limits import OPEN_FILES, ConnectionLimits
from coordinator_server.ports import (
    ANONYMOUS,
    Authenticator,
    Authorizer,
    Caller,
    Directory,
    Operation,
    Resource,
)
from coordinator_server.storage.base import Node


def test_every_question_has_the_same_node_for_an_answer() -> None:
    advertised = [Listener("INSIDE", "10.0.0.1", 9092), Listener("OUTSIDE", "example.org", 19092)]
    directory: Directory = StaticDirectory(7, "cluster", advertised)
    outside = Node(7, "example.org", 19092)
    assert directory.this_node("OUTSIDE") == outside
    assert list(directory.nodes("OUTSIDE")) == [outside]
    assert directory.coordinator(3, "OUTSIDE") == outside
    assert directory.leader("orders", 0, "OUTSIDE") == outside
    assert directory.this_node("INSIDE") == Node(7, "10.0.0.1", 9092)
    assert directory.cluster_id == "cluster"


def test_port_0_is_advertised_as_the_one_that_was_bound() -> None:
    advertised = [Listener("A", "localhost", 0), Listener("B", "proxy", 443)]
    directory = StaticDirectory(1, "cluster", advertised)
    directory.bound("A", 40_001)
    directory.bound("B", 40_002)
    assert directory.this_node("A").port == 40_001
    assert directory.this_node("B").port == 443


def test_limits_name_the_property_that_forbids() -> None:
    limits = ConnectionLimits(3, 2)
    admitted = [limits.admit(ip, lambda: 9) for ip in ("a", "a", "a", "b", "c")]
    assert admitted == [None, None, "max.connections.per.ip", None, "max.connections"]
    limits.release("a")
    assert limits.admit("c", lambda: 9) is None
    assert limits.total == 3


@pytest.mark.parametrize(
    ("files", "most"), [(1_024, 960), (100, 75), (resource.RLIM_INFINITY, 1 << 31)]
)
def test_connections_leave_some_of_the_files_to_others(
    monkeypatch: pytest.MonkeyPatch, files: int, most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (files, files))
    limits = ConnectionLimits(3, 3)
    assert limits.admit("a", lambda: most) == OPEN_FILES
    assert limits.total == 0
    assert limits.admit("a", lambda: most - 1) is None


def test_the_number_of_a_connection_is_asked_for_when_half_of_the_files_left_may_be_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1_024, 1_024))
    limits = ConnectionLimits(5_000, 5_000)
    asked: list[int] = []

    def admit(number: int) -> str | None:
        def descriptor() -> int:
            asked.append(number)
            return number

        return limits.admit("a", descriptor)

    refused = [admit(number) for number in range(100, 1_100)]
    assert refused == [None] * 860 + [OPEN_FILES] * 140
    assert asked[:3] == [100, 531, 746]
    assert len(asked) < 160


@pytest.mark.parametrize(
    ("peername", "host"),
    [
        (("127.0.0.1", 1), "/127.0.0.1"),
        (("::1", 1, 0, 0), "/0:0:0:0:0:0:0:1"),
        (("::ffff:10.1.2.3", 1, 0, 0), "/10.1.2.3"),
        (("fe80::1%eth0", 1, 0, 2), "/fe80:0:0:0:0:0:0:1%eth0"),
        ("", "/unknown"),
        (None, "/unknown"),
    ],
)
def test_a_peer_is_written_as_java_writes_it(peername: object, host: str) -> None:
    assert peer_host(peername) == host


def test_without_security_everybody_is_anonymous_and_may_do_everything() -> None:
    authenticator: Authenticator = Anonymous()
    authorizer: Authorizer = AllowAll()
    caller = Caller(ANONYMOUS, "/127.0.0.1", "client", "PLAINTEXT")
    assert authenticator.principal("PLAINTEXT", "/127.0.0.1") == ANONYMOUS
    assert authorizer.allowed(caller, Operation.DELETE, Resource.GROUP, "g")


def test_partitions_go_round_the_workers_and_the_first_is_the_controller() -> None:
    nodes = [Node(4 + index, "127.0.0.1", 9092 + index) for index in range(3)]
    directory: Directory = WorkersDirectory(1, "cluster", {"A": nodes})
    assert directory.this_node("A") == nodes[1]
    assert directory.controller("A") == nodes[0]
    assert list(directory.nodes("A")) == nodes
    assert [directory.coordinator(p, "A") for p in range(4)] == [*nodes, nodes[0]]
    assert [directory.leader("orders", p, "A") for p in range(4)] == [*nodes, nodes[0]]
