"""OffsetCommit (key 8).

v2: retention time, until v4; from v5 on the configured one holds (KIP-211). v3: throttle time.
v6: leader epoch (KIP-320). v7: static members (KIP-345). v8: flexible. v9: GROUP_ID_NOT_FOUND
where ILLEGAL_GENERATION used to stand for a group that does not exist (KIP-848).

The empty group id is a group like any other here. What is committed of a topic or partition that
does not exist is refused there and harms nothing else.
"""

from coordinator_server.api.call import Call
from coordinator_server.api.readable import readable_partitions
from coordinator_server.api.services import Services
from coordinator_server.group.effects import Committed, Refuse, Result
from coordinator_server.group.events import CommitOffsets, OffsetToCommit
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.ticket import Ticket
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FIRST_WITH_NOT_FOUND = 9
NO_TOPIC_ID = bytes(16)
"""As Kafka writes it for versions that name topics by name."""


class _Commit:
    """The answer as it takes shape, and beside it what is put before the group."""

    __slots__ = ("accepted", "call", "offsets", "response")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.response = OffsetCommitResponse()
        self.accepted: list[OffsetCommitResponsePartition] = []
        self.offsets: list[OffsetToCommit] = []
        """The group's part, in the order of `accepted`."""

    def add(self, topic: OffsetCommitRequestTopic, services: Services) -> None:
        """Answer for what does not exist or is not allowed, keep the rest for the group."""
        name = topic.name
        partitions, error = readable_partitions(self.call, name, services)
        answers = []
        for given in topic.partitions:
            index = given.partition_index
            answer = OffsetCommitResponsePartition(index, error)
            answers.append(answer)
            if 0 <= index < partitions:
                answer.error_code = ErrorCode.NONE
                self.accepted.append(answer)
                self.offsets.append(
                    OffsetToCommit(
                        name,
                        index,
                        given.committed_offset,
                        given.committed_leader_epoch,
                        given.committed_metadata or "",
                        NO_TOPIC_ID,
                    )
                )
        self.response.topics.append(OffsetCommitResponseTopic(name=name, partitions=answers))

    def deliver(self, result: Result) -> None:
        """Put the group's verdict into its places and answer."""
        if isinstance(result, Refuse):
            for answer in self.accepted:
                answer.error_code = result.error
        else:
            assert isinstance(result, Committed)
            for answer, error in zip(self.accepted, result.errors, strict=True):
                answer.error_code = error
        self.call.answer(self.response)


def handle(
    call: Call, request: OffsetCommitRequest, services: Services
) -> OffsetCommitResponse | None:
    """Commit what may be committed; the answer leaves when it is durable."""
    group_id = request.group_id
    if not services.authorizer.allowed(call.caller, Operation.READ, Resource.GROUP, group_id):
        return refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, call.version)
    commit = _Commit(call)
    for topic in request.topics:
        commit.add(topic, services)
    if not commit.offsets:
        return commit.response
    event = CommitOffsets(
        Ticket(commit.deliver),
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        commit.offsets,
        request.retention_time_ms,
        call.version >= FIRST_WITH_NOT_FOUND,
    )
    services.coordinator.submit(group_id, event)
    return None


def refuse(request: OffsetCommitRequest, error: ErrorCode, _version: int) -> OffsetCommitResponse:
    """An error for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(given.partition_index, error)
                    for given in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
