"""A broker that somebody else runs, in the place of the coordinator of a test."""

from contextlib import closing
from typing import Any, NoReturn

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from coordinator_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coordinator_server.cli.groups.kafka import KafkaConnection, KafkaProblem, check
from coordinator_server.testing.server import TestCoordinator


class NotOurs(RuntimeError):
    """A test asks of a broker what only a coordinator of its own can do."""


class ExternalCoordinator:
    """The part of TestCoordinator that any broker supports; the rest raises NotOurs."""

    is_external = True

    def __init__(self, host: str, port: int) -> None:
        """Raises KafkaProblem if no Kafka answers there."""
        self._address = host, port
        self._connect().close()

    @property
    def bootstrap(self) -> str:
        """`host:port` for a client's bootstrap servers."""
        host, port = self._address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic, or take the one that is there with so many partitions.

        Raises KafkaProblem if that cannot be.
        """
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1)
        with closing(self._connect()) as connection:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            error = connection.call(ApiKey.CREATE_TOPICS, request).topics[0].error_code
            if error == ErrorCode.TOPIC_ALREADY_EXISTS:
                _check_partitions(connection, name, partitions)
            else:
                check(error, f"CreateTopics of {name!r}")

    def __getattr__(self, name: str) -> NoReturn:
        """Raise NotOurs: only a coordinator of the test's own supports this."""
        if hasattr(TestCoordinator, name):
            raise NotOurs(
                f"coordinator.{name}: {self.bootstrap} is not ours (--coordinator-address), so its "
                "clock, its faults and its rebalances are out of reach; coordinator.is_external "
                "tells such tests apart"
            )
        raise AttributeError(name)

    def _connect(self) -> KafkaConnection:
        return KafkaConnection(*self._address)


def _check_partitions(connection: KafkaConnection, topic: str, partitions: int) -> None:
    request: Any = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    (found,) = connection.call(ApiKey.METADATA, request).topics
    check(found.error_code, f"topic {topic!r}")
    if len(found.partitions) != partitions:
        there = f"there already, with {len(found.partitions)} partitions"
        raise KafkaProblem(f"topic {topic!r} is {there}: expected {partitions}")
