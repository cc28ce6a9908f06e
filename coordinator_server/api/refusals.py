"""Refusals that are made before a group is asked: told like those of the group itself.

Nothing here is called for a request that succeeds.
"""

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_server.api.call import Call
from coordinator_server.api.services import Services
from coordinator_server.group.effects import Refuse, Rule
from coordinator_server.ports import Operation


def refused(
    call: Call,
    services: Services,
    group_id: str,
    refuse: Refuse,
    member_id: str = "",
    group_instance_id: str | None = None,
) -> ErrorCode:
    """Tell why a request is refused; returns the error to answer."""
    caller = call.caller
    services.coordinator.tell_refused(
        group_id,
        ApiKey(call.api_key).name.title().replace("_", ""),
        refuse,
        member_id,
        group_instance_id,
        caller.client_id or "",
        caller.host,
    )
    return refuse.error


def not_authorized(
    call: Call, services: Services, operation: Operation, group_id: str, member_id: str = ""
) -> ErrorCode:
    """The caller may not do that to the group."""
    kind, name = call.caller.principal
    detail = f"{kind}:{name} has no permission to {operation.name} the group"
    refuse = Refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED, Rule.NOT_AUTHORIZED, detail)
    return refused(call, services, group_id, refuse, member_id)


def empty_group_id(call: Call, services: Services, member_id: str = "") -> ErrorCode:
    """Groups of members have a name."""
    refuse = Refuse(ErrorCode.INVALID_GROUP_ID, Rule.GROUP_ID_EMPTY, "the group id is empty")
    return refused(call, services, "", refuse, member_id)


def not_readable(
    call: Call,
    services: Services,
    group_id: str,
    topic: str,
    partition: int,
    error: ErrorCode,
    member_id: str = "",
) -> None:
    """The partition does not exist, or the caller may not read its topic."""
    if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        kind, name = call.caller.principal
        detail = f"{kind}:{name} has no permission to READ the topic {topic!r}"
        refuse = Refuse(error, Rule.NOT_AUTHORIZED, detail)
    else:
        refuse = Refuse(
            error, Rule.TOPIC_UNKNOWN, f"there is no partition {partition} of {topic!r}"
        )
    refused(call, services, group_id, refuse, member_id)
