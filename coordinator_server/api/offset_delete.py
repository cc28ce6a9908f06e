"""OffsetDelete (key 47): offsets of topics nobody in the group subscribes to (KIP-496).

v0 is the only version. A topic of which no partition is named is answered only if it does not
exist, and one named twice is one in an answer that has something refused here.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from struct import Struct
from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from coordinator_protocol.writing import text_bytes
from coordinator_server.api.call import Call
from coordinator_server.api.chunked_work import ChunkedWork
from coordinator_server.api.refusals import empty_group_id, not_authorized, not_readable
from coordinator_server.api.services import Services
from coordinator_server.api.streaming_response import around
from coordinator_server.api.topic_access import answered, readable_partitions
from coordinator_server.group.effects import Deleted, Refuse, Result
from coordinator_server.group.events import DeleteOffsets
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.ticket import CallbackTicket

Topics = list[tuple[str, list[int]]]
"""Topics with their partitions."""

Outcomes = list[tuple[int, ErrorCode]]
"""Partitions of a topic and what became of them."""

AT_ONCE: Final = 256
"""Partitions that are deleted before others have their turn: so many take some milliseconds."""

_int = Struct(">i").pack
_row = Struct(">ih").pack
"""Partition and error."""


def handle(
    call: Call, request: OffsetDeleteRequest, services: Services
) -> OffsetDeleteResponse | None:
    """Delete the offsets of partitions that exist; the group is asked even if there are none."""
    group_id = request.group_id
    if not services.authorizer.allowed(call.caller, Operation.DELETE, Resource.GROUP, group_id):
        error = not_authorized(call, services, Operation.DELETE, group_id)
        return refuse(request, error, call.version)
    if not group_id:
        return refuse(request, empty_group_id(call, services), call.version)
    refused: dict[str, Outcomes] = {}
    wanted: Topics = []
    for topic in request.topics:
        indexes = [given.partition_index for given in topic.partitions]
        partitions, error = readable_partitions(call.caller, topic.name, services)
        exist = [index for index in indexes if 0 <= index < partitions]
        if exist:
            wanted.append((topic.name, exist))
        missing = [index for index in indexes if not 0 <= index < partitions]
        if missing or not partitions:
            refused.setdefault(topic.name, []).extend((index, error) for index in missing)
        if missing:
            not_readable(call, services, group_id, topic.name, missing[0], error)
    Deletion(call, group_id, wanted, refused, services).begin()
    return None


def refuse(_request: OffsetDeleteRequest, error: ErrorCode, _version: int) -> OffsetDeleteResponse:
    """An error for the request as a whole."""
    return OffsetDeleteResponse(error_code=error)


def _shares(topics: Topics) -> Iterator[Topics]:
    """The same partitions in order, some at a time."""
    share: Topics = []
    left = AT_ONCE
    for topic, indexes in topics:
        at = 0
        while at < len(indexes):
            some = indexes[at : at + left]
            share.append((topic, some))
            at += len(some)
            left -= len(some)
            if not left:
                yield share
                share, left = [], AT_ONCE
    if share:
        yield share


class Deletion:
    """One request: its group is asked about some partitions at a time.

    None of them may be left when a later share is asked about: the group may have gone meanwhile.
    """

    __slots__ = (
        "_call",
        "_group_id",
        "_is_begun",
        "_missing",
        "_outcomes",
        "_refused",
        "_services",
        "_wanted",
        "_work",
    )

    def __init__(
        self,
        call: Call,
        group_id: str,
        wanted: Topics,
        refused: dict[str, Outcomes],
        services: Services,
    ) -> None:
        self._call = call
        self._group_id = group_id
        self._wanted = wanted
        self._refused = refused
        self._services = services
        self._is_begun = False
        self._outcomes: list[Outcomes] = []
        """Of each share."""
        self._missing = 0
        self._work = ChunkedWork(services.clock, call.failed, call.may_grow)

    def begin(self) -> None:
        """Ask about one share after the other."""
        shares = list(_shares(self._wanted)) or [[]]
        self._missing = len(shares)
        self._outcomes = [[] for _ in shares]
        self._work.add(map(self._ask, range(len(shares)), shares))

    def _ask(self, number: int, share: Topics) -> None:
        ticket = CallbackTicket(partial(self._put, number, share), self._call.failed)
        self._services.coordinator.submit(self._group_id, DeleteOffsets(ticket, share))

    def _put(self, number: int, share: Topics, result: Result) -> None:
        if isinstance(result, Deleted):
            self._is_begun = True
            self._outcomes[number] = [each for _, some in result.topics for each in some]
        else:
            assert isinstance(result, Refuse)
            if not self._is_begun or result.error != ErrorCode.GROUP_ID_NOT_FOUND:
                self._work.stop()
                self._call.answer(OffsetDeleteResponse(error_code=result.error))
                return
            gone = ErrorCode.NONE
            self._outcomes[number] = [(index, gone) for _, some in share for index in some]
        self._missing -= 1
        if not self._missing:
            self._work.add(self._sending())

    def _sending(self) -> Iterator[None]:
        outcomes = chain.from_iterable(self._outcomes)
        verdicts = [(topic, list(islice(outcomes, len(some)))) for topic, some in self._wanted]
        topics = answered(self._refused, verdicts)
        before, behind = around(self._call, OffsetDeleteResponse(), len(topics))
        parts = [before]
        for topic, partitions in topics:
            parts.append(text_bytes(topic) + _int(len(partitions)))
            for at in range(0, len(partitions), AT_ONCE):
                parts.append(b"".join([_row(*each) for each in partitions[at : at + AT_ONCE]]))
                yield
        self._call.answer_parts([*parts, behind])
