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
from coordinator_server.ports import Operation, Resource


@dataclass(frozen=True, slots=True)
class Api:
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
    """What a caller needs `operation` on; some APIs need more beside it, none needs less."""
    before_authentication: bool = False
    may_park: bool = False
    """Whether an answer may wait for other clients, or for time to pass."""


_GROUP, _TOPIC, _CLUSTER = Resource.GROUP, Resource.TOPIC, Resource.CLUSTER
_READ, _DESCRIBE, _DELETE = Operation.READ, Operation.DESCRIBE, Operation.DELETE

_ROWS = (
    Api(ApiKey.PRODUCE, 3, 9, "produce", Operation.WRITE, _TOPIC, may_park=True),
    Api(ApiKey.FETCH, 4, 12, "fetch", _READ, _TOPIC, may_park=True),
    Api(ApiKey.LIST_OFFSETS, 1, 10, "list_offsets", _DESCRIBE, _TOPIC),
    Api(ApiKey.METADATA, 0, 13, "metadata", _DESCRIBE, _TOPIC),
    Api(ApiKey.OFFSET_COMMIT, 2, 9, "offset_commit", _READ, _GROUP),
    Api(ApiKey.OFFSET_FETCH, 1, 9, "offset_fetch", _DESCRIBE, _GROUP),
    Api(ApiKey.FIND_COORDINATOR, 0, 6, "find_coordinator", _DESCRIBE, _GROUP),
    Api(ApiKey.JOIN_GROUP, 0, 9, "join_group", _READ, _GROUP, may_park=True),
    Api(ApiKey.HEARTBEAT, 0, 4, "heartbeat", _READ, _GROUP),
    Api(ApiKey.LEAVE_GROUP, 0, 5, "leave_group", _READ, _GROUP),
    Api(ApiKey.SYNC_GROUP, 0, 5, "sync_group", _READ, _GROUP, may_park=True),
    Api(ApiKey.DESCRIBE_GROUPS, 0, 6, "describe_groups", _DESCRIBE, _GROUP),
    Api(ApiKey.LIST_GROUPS, 0, 5, "list_groups", _DESCRIBE, _GROUP),
    Api(ApiKey.API_VERSIONS, 0, 4, "api_versions", before_authentication=True),
    Api(ApiKey.CREATE_TOPICS, 2, 7, "create_topics", Operation.CREATE, _CLUSTER),
    Api(ApiKey.DELETE_TOPICS, 1, 6, "delete_topics", _DELETE, _TOPIC),
    Api(ApiKey.DELETE_GROUPS, 0, 2, "delete_groups", _DELETE, _GROUP),
    Api(ApiKey.OFFSET_DELETE, 0, 0, "offset_delete", _DELETE, _GROUP),
    Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, "describe_cluster", _DESCRIBE, _CLUSTER),
)

REGISTRY = {int(api.key): api for api in _ROWS}
"""By API key."""


class Again(Protocol):
    """A request whose bytes have come before, but for the correlation id."""

    def __call__(self, now_ms: int, times: int) -> bytes | None:
        """The body that answers each of so many; None: nothing has happened yet.

        As long as it is the same, it is the same object.
        """
        ...


class Later(ABC):
    """A request that has come before, but for its correlation id and for what is read out of it."""

    def __init__(self, request: Any) -> None:
        self.request = request
        """As it came the first time."""

    @abstractmethod
    def recognise(self, chunk: bytes) -> Sequence[bytes] | None:
        """What is read out of a chunk that is just such a request, with its length; else None."""

    @abstractmethod
    def serve(self, call: Call, read: Sequence[bytes]) -> bool:
        """Whether the call is served, and answered now or later; False: nothing has happened."""


def _import(api: Api) -> ModuleType:
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
        "again",
        "api",
        "api_key",
        "decode",
        "encode",
        "encode_parts",
        "handle",
        "is_async",
        "is_flexible",
        "later",
        "may_be_familiar",
        "refuse",
        "tags",
        "version",
    )

    def __init__(self, api: Api, version: int) -> None:
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
        self.again: Callable[..., Again | None] | None = getattr(module, "again", None)
        """Makes of a request what serves the same bytes of the same connection once more."""
        self.later: Callable[..., Later] | None = getattr(module, "Later", None)
        """Made of a request, its frame and where its body begins; raises ValueError if it is none
        of those that can be recognised."""
        self.may_be_familiar = self.again is not None or self.later is not None
        self.tags = b"\0" if response_header_version(api.key, version) else b""
        """What stands between correlation id and body."""


ROUTES: dict[bytes, Route] = {}
"""What `route` has made, by API key and version as they are in a request."""

_pack_intent: Final = Struct(">hh").pack


def route(api_key: int, version: int) -> Route | None:
    """The way of a request; None for what is not served. Made when it is first asked for."""
    intent = _pack_intent(api_key, version)
    known = ROUTES.get(intent)
    if known is not None:
        return known
    api = REGISTRY.get(api_key)
    if api is None or not api.min_version <= version <= api.max_version:
        return None
    made = ROUTES[intent] = Route(api, version)
    return made


def announced() -> Sequence[Api]:
    """What ApiVersions tells clients, by API key."""
    return _ROWS
