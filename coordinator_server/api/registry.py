"""The APIs that are served: ApiVersions, routing and the matrix of permissions are made from here.

Rows are literals and modules are imported when their API is first asked for, or soon after the
start: so that a start imports no message classes.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from struct import Struct
from types import ModuleType
from typing import Any, Final, Protocol

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import request_decoder, response_encoder, response_parts_encoder
from coordinator_protocol.headers import is_flexible, response_header_version
from coordinator_server.api.call import Call
from coordinator_server.api.services import Services
from coordinator_server.ports import Caller, Operation, Resource


@dataclass(frozen=True, slots=True)
class ServedApi:
    """One API: which versions, who serves it, who may ask."""

    key: ApiKey
    min_version: int
    max_version: int
    module: str
    """In `coordinator_server.api`, with `handle(call, request, services)`, which may be a coroutine
    function, and `refuse(request, error, version)`, which returns None where the client awaits no
    answer at all."""
    operation: Operation | None = None
    resource: Resource | None = None
    """The resource of `operation`; some APIs need further permissions."""
    before_authentication: bool = False
    may_park: bool = False
    """Whether an answer may wait for other clients, or for time to pass."""


_GROUP, _TOPIC, _CLUSTER = Resource.GROUP, Resource.TOPIC, Resource.CLUSTER
_READ, _DESCRIBE, _DELETE = Operation.READ, Operation.DESCRIBE, Operation.DELETE

_ROWS = (
    ServedApi(ApiKey.PRODUCE, 3, 9, "produce", Operation.WRITE, _TOPIC, may_park=True),
    ServedApi(ApiKey.FETCH, 4, 12, "fetch", _READ, _TOPIC, may_park=True),
    ServedApi(ApiKey.LIST_OFFSETS, 1, 10, "list_offsets", _DESCRIBE, _TOPIC),
    ServedApi(ApiKey.METADATA, 0, 13, "metadata", _DESCRIBE, _TOPIC),
    ServedApi(ApiKey.OFFSET_COMMIT, 2, 9, "offset_commit", _READ, _GROUP),
    ServedApi(ApiKey.OFFSET_FETCH, 1, 9, "offset_fetch", _DESCRIBE, _GROUP),
    ServedApi(ApiKey.FIND_COORDINATOR, 0, 6, "find_coordinator", _DESCRIBE, _GROUP),
    ServedApi(ApiKey.JOIN_GROUP, 0, 9, "join_group", _READ, _GROUP, may_park=True),
    ServedApi(ApiKey.HEARTBEAT, 0, 4, "heartbeat", _READ, _GROUP),
    ServedApi(ApiKey.LEAVE_GROUP, 0, 5, "leave_group", _READ, _GROUP),
    ServedApi(ApiKey.SYNC_GROUP, 0, 5, "sync_group", _READ, _GROUP, may_park=True),
    ServedApi(ApiKey.DESCRIBE_GROUPS, 0, 6, "describe_groups", _DESCRIBE, _GROUP),
    ServedApi(ApiKey.LIST_GROUPS, 0, 5, "list_groups", _DESCRIBE, _GROUP),
    ServedApi(ApiKey.API_VERSIONS, 0, 4, "api_versions", before_authentication=True),
    ServedApi(ApiKey.CREATE_TOPICS, 2, 7, "create_topics", Operation.CREATE, _CLUSTER),
    ServedApi(ApiKey.DELETE_TOPICS, 1, 6, "delete_topics", _DELETE, _TOPIC),
    ServedApi(ApiKey.DELETE_GROUPS, 0, 2, "delete_groups", _DELETE, _GROUP),
    ServedApi(ApiKey.OFFSET_DELETE, 0, 0, "offset_delete", _DELETE, _GROUP),
    ServedApi(ApiKey.DESCRIBE_CLUSTER, 0, 2, "describe_cluster", _DESCRIBE, _CLUSTER),
)

REGISTRY = {int(api.key): api for api in _ROWS}
"""By API key."""


class Express(Protocol):
    """Serves the usual form of a request straight from its bytes, without decoding a message."""

    def __call__(
        self,
        buffer: bytes,
        body: int,
        end: int,
        version: int,
        caller: Caller,
        now_ms: int,
        services: Services,
    ) -> bytes | None:
        """The body of the response to the request whose body is buffer[body:end].

        None leaves the request to `handle`: it is unusual, or is not simply accepted. Nothing has
        happened then. Raises IndexError, struct.error or ValueError, before anything has happened,
        for bytes that make no such request.
        """
        ...


class RepeatedRequest(ABC):
    """A request that has come before, but for its correlation id and for what is read out of it."""

    def __init__(self, request: Any) -> None:
        self.request = request
        """As it came the first time."""

    @abstractmethod
    def recognise(self, chunk: bytes) -> Sequence[bytes] | None:
        """The variable fields of a chunk that is one such request with its length, or None."""

    @abstractmethod
    def serve(self, call: Call, read: Sequence[bytes]) -> bool:
        """Whether the call is served, and answered now or later; False: nothing has happened."""


def _import(api: ServedApi) -> ModuleType:
    return import_module(f"coordinator_server.api.{api.module}")


def import_all() -> None:
    """Import what serves every API: later there may be no file left that could be opened."""
    for api in _ROWS:
        _import(api)
    # The codec of SyncGroup has it only where there is a leader's.
    import_module("coordinator_protocol.sync_group_decoder")


class Route:
    """Everything a session needs for one version of an API."""

    __slots__ = (
        "api",
        "api_key",
        "decode",
        "encode",
        "encode_parts",
        "express",
        "handle",
        "is_async",
        "is_flexible",
        "later",
        "refuse",
        "tags",
        "version",
    )

    def __init__(self, api: ServedApi, version: int) -> None:
        module = _import(api)
        self.api = api
        self.api_key = int(api.key)
        self.version = version
        self.is_flexible = is_flexible(api.key, version)
        self.decode = request_decoder(api.key, version)
        self.encode = response_encoder(api.key, version)
        large = getattr(module, "HAS_LARGE_ANSWERS", False)
        self.encode_parts = response_parts_encoder(api.key, version) if large else None
        """For answers of which no copy is to be made."""
        self.handle: Callable[..., Any] = module.handle
        self.is_async = inspect.iscoroutinefunction(module.handle)
        self.refuse: Callable[..., Any] = module.refuse
        self.express: Express | None = getattr(module, "express", None)
        self.later: Callable[..., RepeatedRequest] | None = getattr(module, "Later", None)
        """Made of a request, its frame and where its body begins; raises ValueError if it is none
        of those that can be recognised."""
        self.tags = b"\0" if response_header_version(api.key, version) else b""
        """The bytes between correlation id and body in a response."""


ROUTES: dict[bytes, Route] = {}
"""The routes made so far, by the bytes of API key and version in a request."""

_pack_intent: Final = Struct(">hh").pack


def find_route(api_key: int, version: int) -> Route | None:
    """The route of a request; None for an API or version that is not served. Made at first use."""
    intent = _pack_intent(api_key, version)
    known = ROUTES.get(intent)
    if known is not None:
        return known
    api = REGISTRY.get(api_key)
    if api is None or not api.min_version <= version <= api.max_version:
        return None
    made = ROUTES[intent] = Route(api, version)
    return made


def announced() -> Sequence[ServedApi]:
    """The APIs that ApiVersions announces, by API key."""
    return _ROWS
