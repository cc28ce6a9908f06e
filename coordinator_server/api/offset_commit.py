"""OffsetCommit (key 8).

v2: retention time, until v4; from v5 on the configured one holds (KIP-211). v3: throttle time.
v6: leader epoch (KIP-320). v7: static members (KIP-345). v8: flexible. v9: GROUP_ID_NOT_FOUND
where ILLEGAL_GENERATION used to stand for a group that does not exist (KIP-848).

The empty group id is a group like any other here. What is committed of a topic or partition that
does not exist is refused there and harms nothing else. A topic of which no partition is named is
answered only if it does not exist, and one named twice is one in an answer that has something
refused here.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from coordinator_protocol.commit_frame import CommitFrame
from coordinator_protocol.commit_template import MOST_RECORDS
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coordinator_protocol.offset_answers import commit_accepted
from coordinator_server.api import registry
from coordinator_server.api.call import Call
from coordinator_server.api.refusals import not_authorized, not_readable
from coordinator_server.api.services import Services
from coordinator_server.api.ticket import CallTicket
from coordinator_server.api.topic_access import answered, readable_partitions
from coordinator_server.group.effects import Committed, Refuse, Result
from coordinator_server.group.events import CommitOffsets
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.ticket import Ticket

FIRST_WITH_NOT_FOUND: Final = 9
_READ: Final = Operation.READ
_GROUP: Final = Resource.GROUP


class _Commit(CallTicket):
    """The ticket of a commit: its request, and the part of it that the group decides."""

    __slots__ = ("_refused", "_request", "topics")

    def __init__(self, call: Call, request: OffsetCommitRequest, services: Services) -> None:
        super().__init__(call)
        self._request = request
        self._refused: dict[str, list[OffsetCommitResponsePartition]] = {}
        """Partitions that are refused before the group sees the request, by topic."""
        self.topics = [
            accepted
            for topic in request.topics
            if (accepted := self._accepted(topic, services)).partitions
        ]
        """The group's part, in the order of the request."""

    def _accepted(
        self, topic: OffsetCommitRequestTopic, services: Services
    ) -> OffsetCommitRequestTopic:
        """The partitions of a topic that exist and may be committed; the others are refused."""
        name, given = topic.name, topic.partitions
        partitions, error = readable_partitions(self._call.caller, name, services)
        accepted = [each for each in given if 0 <= each.partition_index < partitions]
        if accepted and len(accepted) == len(given):
            return topic
        missing = [i for each in given if not 0 <= (i := each.partition_index) < partitions]
        if missing or not partitions:
            refused = self._refused.setdefault(name, [])
            refused.extend(OffsetCommitResponsePartition(index, error) for index in missing)
        if missing:
            asked = self._request
            member_id = asked.member_id
            not_readable(self._call, services, asked.group_id, name, missing[0], error, member_id)
        return OffsetCommitRequestTopic(name=name, partitions=accepted)

    def deliver(self, result: Result) -> None:
        """Answer with the group's verdict, and what was refused before it was asked."""
        if isinstance(result, Refuse):
            self._answer(repeat(result.error))
            return
        assert isinstance(result, Committed)
        if self._refused or any(result.errors):
            self._answer(result.errors)
        else:
            self._call.answer_body(commit_accepted(self._call.version, self.topics))

    def refuse(self) -> OffsetCommitResponse:
        """The answer where nothing is left for the group."""
        return self._response(())

    def _answer(self, errors: Iterable[ErrorCode]) -> None:
        self._call.answer(self._response(errors))

    def _response(self, errors: Iterable[ErrorCode]) -> OffsetCommitResponse:
        """The answer; `errors` are those of the group's part."""
        coming = iter(errors)
        verdicts = [
            (
                topic.name,
                [
                    OffsetCommitResponsePartition(each.partition_index, next(coming))
                    for each in topic.partitions
                ],
            )
            for topic in self.topics
        ]
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(name=name, partitions=list(partitions))
                for name, partitions in answered(self._refused, verdicts)
            ]
        )


def handle(
    call: Call, request: OffsetCommitRequest, services: Services
) -> OffsetCommitResponse | None:
    """Commit what may be committed; the answer leaves when it is durable."""
    group_id = request.group_id
    if not services.authorizer.allowed(call.caller, _READ, _GROUP, group_id):
        error = not_authorized(call, services, Operation.READ, group_id, request.member_id)
        return refuse(request, error, call.version)
    commit = _Commit(call, request, services)
    if not commit.topics:
        return commit.refuse()
    event = _asked(commit, request, commit.topics, call.version)
    services.coordinator.submit(group_id, event)
    return None


class Later(registry.RepeatedRequest):
    """Commits that differ from one before in nothing but offsets: no more of them is decoded.

    Who may commit, which partitions there are and what the group says is asked each time, and
    what is not simply accepted is left to `handle`.
    """

    __slots__ = (
        "_frame",
        "_group_id",
        "_partitions",
        "_recommittal",
        "_services",
        "_success",
    )

    def __init__(
        self, call: Call, request: OffsetCommitRequest, services: Services, frame: bytes, body: int
    ) -> None:
        """Of a request in its frame; see CommitFrame.

        Raises ValueError for one that has to be handled each time.
        """
        topics, group_id = request.topics, request.group_id
        indexes = [(t.name, [each.partition_index for each in t.partitions]) for t in topics]
        if not 0 < sum(len(of_topic) for _, of_topic in indexes) <= MOST_RECORDS:
            raise ValueError("no partitions, or too many")
        if any(min(of_topic, default=-1) < 0 for _, of_topic in indexes):
            raise ValueError("a partition that cannot exist")
        asked = _asked(None, request, topics, call.version)
        super().__init__(request)
        self._frame = CommitFrame(call.version, request, frame, body)
        self._recommittal = services.coordinator.recommittal(group_id, asked)
        self._partitions = [(name, max(of_topic)) for name, of_topic in indexes]
        self._group_id = group_id
        self._services = services
        self._success = commit_accepted(call.version, topics)

    def recognise(self, chunk: bytes) -> Sequence[bytes] | None:
        """The offsets, if a chunk is such a commit with its length and nothing else."""
        return self._frame.offsets_of(chunk)

    def serve(self, call: Call, offsets: Sequence[bytes]) -> bool:
        """Commit; the answer leaves when it is durable. False: nothing has happened."""
        services, caller = self._services, call.caller
        if not services.authorizer.allowed(caller, _READ, _GROUP, self._group_id):
            return False
        for topic, last in self._partitions:
            if readable_partitions(caller, topic, services)[0] <= last:
                return False
        return self._recommittal.make(offsets, _Recommitted(call, self), call.now_ms)

    def answer(self, call: Call, result: Result) -> None:
        """Answer with the group's verdict."""
        if isinstance(result, Refuse):
            call.answer(refuse(self.request, result.error, call.version))
        else:
            call.answer_body(self._success)


class _Recommitted(CallTicket):
    """Of a commit that has come again."""

    __slots__ = ("_later",)

    def __init__(self, call: Call, later: Later) -> None:
        super().__init__(call)
        self._later = later

    def deliver(self, result: Result) -> None:
        """See Ticket."""
        self._later.answer(self._call, result)


def _asked(
    token: Ticket | None,
    request: OffsetCommitRequest,
    topics: Sequence[OffsetCommitRequestTopic],
    version: int,
) -> CommitOffsets:
    """The event of a request, with the topics that the group decides about."""
    return CommitOffsets(
        token,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        topics,
        request.retention_time_ms,
        version >= FIRST_WITH_NOT_FOUND,
    )


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
