"""FindCoordinator (key 10): which node a group or a transactional id belongs to.

v1: key type, error message, throttle time. v3: flexible. v4: several keys at once (KIP-699).
v5: TRANSACTION_ABORTABLE, which never happens here. v6: share groups' keys (KIP-932).

Errors are those of Kafka's `KafkaApis.getCoordinator`. There are no share groups: their keys are
refused in every version as Kafka refuses them before v6.
"""

from collections.abc import Sequence
from typing import Final

from coordinator_protocol.codec import part_encoder
from coordinator_protocol.coordinator_answers import coordinator_found
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coordinator_server.api.call import Call
from coordinator_server.api.chunked_work import ChunkedWork
from coordinator_server.api.services import Services
from coordinator_server.api.streaming_response import StreamedArray
from coordinator_server.ports import Operation, Resource

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
FIRST_BATCHED: Final = 4

AT_ONCE: Final = 256
"""Keys that are looked up before others have their turn."""

_DESCRIBE: Final = Operation.DESCRIBE
_GROUP: Final = Resource.GROUP
_NONE: Final = ErrorCode.NONE


def handle(
    call: Call, request: FindCoordinatorRequest, services: Services
) -> FindCoordinatorResponse | None:
    """Answer for one key, or from v4 on for each of several."""
    if request.key_type not in (GROUP, TRANSACTION, SHARE):
        return refuse(request, ErrorCode.INVALID_REQUEST, call.version)
    if call.version >= FIRST_BATCHED:
        return _answer_each(call, request, services)
    found = _find(call, request.key_type, request.key, services)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=ErrorCode(found.error_code).message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _answer_each(
    call: Call, request: FindCoordinatorRequest, services: Services
) -> FindCoordinatorResponse | None:
    keys = request.coordinator_keys
    if len(keys) > AT_ONCE:
        _answer_many(call, request.key_type, keys, services)
        return None
    found = [_find(call, request.key_type, key, services) for key in keys]
    if len(found) == 1 and not found[0].error_code:
        one = found[0]
        call.answer_body(coordinator_found(call.version, one.key, one.node_id, one.host, one.port))
        return None
    return FindCoordinatorResponse(coordinators=found)


def _answer_many(call: Call, key_type: int, keys: Sequence[str], services: Services) -> None:
    work = ChunkedWork(services.clock, call.failed)
    answer = StreamedArray(call, FindCoordinatorResponse(), len(keys), work)
    write = part_encoder(Coordinator, call.api_key, call.version)

    def put(index: int) -> None:
        answer.put(index, write(_find(call, key_type, keys[index], services)))

    work.add(map(put, range(len(keys))))


def refuse(
    request: FindCoordinatorRequest, error: ErrorCode, version: int
) -> FindCoordinatorResponse:
    """An error for every key."""
    if version < FIRST_BATCHED:
        return FindCoordinatorResponse(
            error_code=error, error_message=error.message, node_id=-1, port=-1
        )
    return FindCoordinatorResponse(
        coordinators=[_nowhere(key, error, error.message) for key in request.coordinator_keys]
    )


def _find(call: Call, key_type: int, key: str, services: Services) -> Coordinator:
    if key_type == SHARE:
        return _nowhere(key, ErrorCode.INVALID_REQUEST)
    resource = _GROUP if key_type == GROUP else Resource.TRANSACTIONAL_ID
    if not services.authorizer.allowed(call.caller, _DESCRIBE, resource, key):
        return _nowhere(
            key,
            ErrorCode.GROUP_AUTHORIZATION_FAILED
            if key_type == GROUP
            else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        )
    listener = call.caller.listener
    if key_type == TRANSACTION:
        node = services.directory.this_node(listener)
    else:
        partition = services.coordinator.partition_for(key)
        owner = services.directory.coordinator(partition, listener)
        if owner is None:
            return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        node = owner
    # By position: who is called with names by compiled code is given a dictionary.
    return Coordinator(key, node.node_id, node.host, node.port, _NONE, "")


def _nowhere(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=message)
