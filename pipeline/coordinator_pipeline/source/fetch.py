"""A blocking client of Metadata, ListOffsets and Fetch, for any Kafka since 1.0.

Spark's Kafka connector silently excludes internal topics, so it cannot read `__consumer_offsets`;
it also needs jars that are not on PyPI.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from coordinator_pipeline.source.errors import SourceError
from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import request_encoder, response_decoder
from coordinator_protocol.errors import ErrorCode, Malformed
from coordinator_protocol.frames import framed
from coordinator_protocol.headers import read_response_header, request_header
from coordinator_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from coordinator_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from coordinator_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

FETCH_VERSION: Final = 4
LIST_OFFSETS_VERSION: Final = 4
METADATA_VERSION: Final = 4
TIMEOUT_SECONDS: Final = 30.0
ATTEMPTS: Final = 3
FETCH_BYTES: Final = 8 * 1024 * 1024
MAX_RESPONSE_BYTES: Final = 512 * 1024 * 1024
EARLIEST: Final = -2
LATEST: Final = -1
CLIENT_ID: Final = "coordinator-pipeline"

Address = tuple[str, int]
Result = TypeVar("Result")


class Connection:
    """A connection with one request in flight."""

    def __init__(self, address: Address) -> None:
        """Connect; raises OSError."""
        self._socket = socket.create_connection(address, TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def call(self, api_key: ApiKey, version: int, request: Any) -> Any:
        """Send a request and read its response. Raises OSError, Malformed."""
        self._correlation_id += 1
        header = request_header(api_key, version, self._correlation_id, CLIENT_ID)
        self._socket.sendall(framed(header + request_encoder(api_key, version)(request)))
        size = int.from_bytes(self._read(4), "big", signed=True)
        if not 0 <= size <= MAX_RESPONSE_BYTES:
            raise Malformed(f"a response of {size} bytes")
        response = self._read(size)
        correlation_id, begin = read_response_header(
            response, 0, size, api_key=api_key, api_version=version
        )
        if correlation_id != self._correlation_id:
            raise Malformed(
                f"a response to request {correlation_id}, expected {self._correlation_id}"
            )
        return response_decoder(api_key, version)(response, begin, size)

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._socket.recv(min(size - len(received), 1 << 20))
            if not chunk:
                raise ConnectionError("the server closed the connection")
            received += chunk
        return bytes(received)


class Bounds(NamedTuple):
    """Offsets of a partition: the first, and the one after the last readable."""

    start: int
    end: int


@dataclass
class TopicClient:
    """Reads one topic; connects on demand, and again after a leader has moved."""

    bootstrap: str
    topic: str
    isolation: int = 0
    """The isolation level of Fetch: 0 read_uncommitted, 1 read_committed."""
    _numbers: list[int] = field(default_factory=list)
    _leaders: dict[int, Address] = field(default_factory=dict)
    _connections: dict[Address, Connection] = field(default_factory=dict)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def partitions(self) -> list[int]:
        """Return the partitions of the topic. Raises SourceError."""
        self._learn_leaders()
        return self._numbers

    def led(self) -> list[int]:
        """Return the partitions that have a leader. Raises SourceError."""
        self._learn_leaders()
        return sorted(self._leaders)

    def bounds(self, partition: int) -> Bounds:
        """Return the bounds of a partition's log. Raises SourceError."""
        return Bounds(self._offset_at(partition, EARLIEST), self._offset_at(partition, LATEST))

    def fetch(self, partition: int, offset: int, max_wait_ms: int = 500) -> PartitionData:
        """Fetch batches from an offset on; waits up to `max_wait_ms` for the first.

        The first batch may begin before `offset`, and the last one may be truncated.

        Raises:
            SourceError: no leader answers.
        """
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=self.isolation,
            topics=[
                FetchTopic(
                    topic=self.topic,
                    partitions=[
                        FetchPartition(
                            partition=partition,
                            fetch_offset=offset,
                            partition_max_bytes=FETCH_BYTES,
                        )
                    ],
                )
            ],
        )

        def send(connection: Connection) -> PartitionData:
            response = connection.call(ApiKey.FETCH, FETCH_VERSION, request)
            found: PartitionData = response.responses[0].partitions[0]
            return found

        return self._call_leader(partition, send, (ErrorCode.OFFSET_OUT_OF_RANGE,))

    def _offset_at(self, partition: int, timestamp: int) -> int:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self.isolation,
            topics=[
                ListOffsetsTopic(
                    name=self.topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
                    ],
                )
            ],
        )

        def send(connection: Connection) -> Any:
            response = connection.call(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
            return response.topics[0].partitions[0]

        return int(self._call_leader(partition, send).offset)

    def _call_leader(
        self,
        partition: int,
        send: Callable[[Connection], Result],
        expected: tuple[ErrorCode, ...] = (),
    ) -> Result:
        """Send a request to the partition's leader; retry with new metadata if it has moved."""
        last = "no leader"
        for _ in range(ATTEMPTS):
            if partition not in self._leaders:
                self._learn_leaders()
            address = self._leaders.get(partition)
            if address is None:
                continue
            try:
                response: Any = send(self._connect(address))
            except (OSError, Malformed, IndexError) as error:
                last = f"{address[0]}:{address[1]}: {error}"
                self._forget(address)
                continue
            if response.error_code in (ErrorCode.NONE, *expected):
                return response  # type: ignore[no-any-return]
            last = ErrorCode(response.error_code).name
            self._leaders.clear()
        raise SourceError(f"bootstrap {self.bootstrap}: {self.topic}-{partition}: {last}")

    def _learn_leaders(self) -> None:
        """Read the leaders from the first bootstrap address that answers."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False
        )
        failures = []
        for address in addresses(self.bootstrap):
            try:
                response = self._connect(address).call(ApiKey.METADATA, METADATA_VERSION, request)
            except (OSError, Malformed) as error:
                self._forget(address)
                failures.append(f"{address[0]}:{address[1]}: {error}")
                continue
            topic = response.topics[0]
            if topic.error_code:
                code = ErrorCode(topic.error_code).name
                raise SourceError(f"bootstrap {self.bootstrap}: topic {self.topic}: {code}")
            nodes = {node.node_id: (node.host, node.port) for node in response.brokers}
            self._numbers = sorted(found.partition_index for found in topic.partitions)
            self._leaders = {
                found.partition_index: nodes[found.leader_id]
                for found in topic.partitions
                if found.leader_id in nodes
            }
            return
        raise SourceError(f"bootstrap: no answer from {'; '.join(failures)}")

    def _connect(self, address: Address) -> Connection:
        if address not in self._connections:
            self._connections[address] = Connection(address)
        return self._connections[address]

    def _forget(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()
        self._leaders.clear()


def addresses(bootstrap: str) -> list[Address]:
    """Parse addresses from `host:port,host:port`.

    Raises:
        SourceError: an address has another form.
    """
    found = []
    for part in bootstrap.split(","):
        host, _, port = part.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise SourceError(f"option bootstrap: {part.strip()!r}, expected host:port")
        found.append((host.strip("[]"), int(port)))
    return found
