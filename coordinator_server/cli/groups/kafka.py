"""A blocking Kafka client for commands, built on this project's codecs.

It sends ApiVersions to every broker and uses the newest version that both support.
"""

import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import load_api, request_encoder, response_decoder
from coordinator_protocol.errors import ErrorCode, Malformed
from coordinator_protocol.frames import framed
from coordinator_protocol.headers import read_response_header, request_header
from coordinator_protocol.messages.api_versions import ApiVersionsRequest
from coordinator_protocol.messages.find_coordinator import FindCoordinatorRequest
from coordinator_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

CLIENT_ID = "coordinator-server"
TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 1 << 28

NEWEST: Final[Mapping[int, int]] = {
    ApiKey.API_VERSIONS: 0,
    ApiKey.METADATA: 9,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.LIST_OFFSETS: 9,
}
"""Newer versions use topic ids, or fields that the commands do not write."""


class KafkaProblem(Exception):
    """A server cannot be reached, or its response is an error; the message says which."""


class Broker(NamedTuple):
    """A node of a cluster."""

    node_id: int
    host: str
    port: int


class KafkaConnection:
    """One connection, which sends one request at a time."""

    def __init__(self, host: str, port: int, client_id: str = CLIENT_ID) -> None:
        """Connect and send ApiVersions. Raises KafkaProblem."""
        self._name = f"{host}:{port}"
        self._client_id = client_id
        try:
            self._socket = socket.create_connection((host, port), TIMEOUT_SECONDS)
        except OSError as error:
            raise KafkaProblem(f"{self._name}: {error.strerror or error}") from None
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {ApiKey.API_VERSIONS: (0, 0)}
        try:
            answer = self.call(ApiKey.API_VERSIONS, ApiVersionsRequest())
        except KafkaProblem:
            self.close()
            raise
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
        }

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def call(self, api_key: ApiKey, request: Any) -> Any:
        """Send a request and return its response. Raises KafkaProblem."""
        version = self._version(api_key)
        self._correlation_id += 1
        head = request_header(api_key, version, self._correlation_id, self._client_id)
        try:
            self._socket.sendall(framed(head + request_encoder(api_key, version)(request)))
            answer = self._answer()
            correlation_id, start = read_response_header(
                answer, 0, len(answer), api_key=api_key, api_version=version
            )
            if correlation_id != self._correlation_id:
                raise KafkaProblem(f"{self._name} sent the response of another request")
            return response_decoder(api_key, version)(answer, start, len(answer))
        except TimeoutError:
            message = f"{self._name} did not answer {api_key.name} within {TIMEOUT_SECONDS:g} s"
            raise KafkaProblem(message) from None
        except Malformed as error:
            raise KafkaProblem(
                f"{self._name} sent something that is not a Kafka response: {error}"
            ) from None
        except OSError as error:
            raise KafkaProblem(f"{self._name}: {error.strerror or error}") from None

    def _version(self, api_key: ApiKey) -> int:
        api = load_api(api_key)
        least, most = self._versions.get(api_key, (0, -1))
        newest = min(most, NEWEST.get(api_key, api.last), api.last)
        if newest < max(least, api.first):
            raise KafkaProblem(
                f"{self._name} and this client support no common version of {api_key.name}"
            )
        return newest

    def _answer(self) -> bytes:
        size = int.from_bytes(self._read(4), "big", signed=True)
        if not 0 <= size <= MAX_ANSWER_BYTES:
            raise KafkaProblem(
                f"the response of {self._name} has {size} bytes, so it is not a Kafka listener"
            )
        return self._read(size)

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise KafkaProblem(f"{self._name} closed the connection instead of answering")
            received += chunk
        return bytes(received)


class KafkaCluster:
    """The brokers of a cluster, with a connection to each one that is used."""

    def __init__(self, host: str, port: int) -> None:
        """Connect. Raises KafkaProblem."""
        self._bootstrap = KafkaConnection(host, port)
        self._connections: dict[tuple[str, int], KafkaConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in (self._bootstrap, *self._connections.values()):
            connection.close()

    def metadata(self, topics: list[str] | None) -> MetadataResponse:
        """Brokers and leaders of some topics, or of all with None. Raises KafkaProblem."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer: MetadataResponse = self._bootstrap.call(ApiKey.METADATA, request)
        return answer

    def brokers(self) -> list[Broker]:
        """All nodes. Raises KafkaProblem."""
        return [Broker(b.node_id, b.host, b.port) for b in self.metadata([]).brokers]

    def coordinator(self, group: str) -> Broker:
        """The coordinator of a group. Raises KafkaProblem."""
        answer = self._bootstrap.call(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key=group))
        if answer.error_code:
            raise KafkaProblem(f"group {group!r} has no coordinator: {name(answer.error_code)}")
        return Broker(answer.node_id, answer.host, answer.port)

    def ask(self, broker: Broker, api_key: ApiKey, request: Any) -> Any:
        """Send a request to a node. Raises KafkaProblem."""
        address = broker.host, broker.port
        if address not in self._connections:
            self._connections[address] = KafkaConnection(*address)
        return self._connections[address].call(api_key, request)


def name(error_code: int) -> str:
    """Kafka's name of an error."""
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error {error_code}"


def check(error_code: int, what: str) -> None:
    """Raise KafkaProblem for an error of the request or partition `what`."""
    if error_code:
        raise KafkaProblem(f"{what}: {name(error_code)}")
