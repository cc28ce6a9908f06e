"""A blocking Kafka client of the few requests that commands need, over this project's codecs.

It asks every broker for the versions it has and takes the newest both know.
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
"""Versions above these name topics by ids, or have another shape than the commands write."""


class KafkaProblem(Exception):
    """A server that cannot be asked, or an answer that is no use; the message says which."""


class Broker(NamedTuple):
    """A node of a cluster."""

    node_id: int
    host: str
    port: int


class KafkaConnection:
    """One connection; requests are answered one after the other."""

    def __init__(self, host: str, port: int, client_id: str = CLIENT_ID) -> None:
        """Connect, and ask for versions. Raises KafkaProblem."""
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
        """Close it."""
        self._socket.close()

    def call(self, api_key: ApiKey, request: Any) -> Any:
        """Send a request and wait for its answer. Raises KafkaProblem."""
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
                raise KafkaProblem(f"{self._name} answers another request than was sent")
            return response_decoder(api_key, version)(answer, start, len(answer))
        except TimeoutError:
            message = f"{self._name} does not answer {api_key.name} in {TIMEOUT_SECONDS:g} s"
            raise KafkaProblem(message) from None
        except Malformed as error:
            raise KafkaProblem(f"{self._name} speaks no Kafka: {error}") from None
        except OSError as error:
            raise KafkaProblem(f"{self._name}: {error.strerror or error}") from None

    def _version(self, api_key: ApiKey) -> int:
        api = load_api(api_key)
        least, most = self._versions.get(api_key, (0, -1))
        newest = min(most, NEWEST.get(api_key, api.last), api.last)
        if newest < max(least, api.first):
            raise KafkaProblem(f"{self._name} has no version of {api_key.name} that is known here")
        return newest

    def _answer(self) -> bytes:
        size = int.from_bytes(self._read(4), "big", signed=True)
        if not 0 <= size <= MAX_ANSWER_BYTES:
            raise KafkaProblem(f"{self._name} answers {size} bytes: that is no Kafka listener")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise KafkaProblem(f"{self._name} closed the connection instead of an answer")
            received += chunk
        return bytes(received)


class KafkaCluster:
    """The brokers behind a bootstrap address, connected to when they are needed."""

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
        """Brokers, and the leaders of some topics; None asks for all. Raises KafkaProblem."""
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
        place = broker.host, broker.port
        if place not in self._connections:
            self._connections[place] = KafkaConnection(*place)
        return self._connections[place].call(api_key, request)


def name(error_code: int) -> str:
    """Kafka's name of an error."""
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error {error_code}"


def check(error_code: int, what: str) -> None:
    """Raise KafkaProblem for an error, which says what it is of."""
    if error_code:
        raise KafkaProblem(f"{what}: {name(error_code)}")
