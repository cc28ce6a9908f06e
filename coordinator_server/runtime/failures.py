"""The table of errors that each API returns for a failure of the coordinator."""

from enum import Enum
from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import DONE, Fetched, Refuse, Result, Rule
from coordinator_server.group.events import Event, FetchOffsets, Heartbeat


class Failure(Enum):
    """Why a request cannot be served: the rule, the usual error, and words for people."""

    LOADING = (
        Rule.LOADING,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        "the group's partition was being read from the log",
    )
    NOT_OWNED = (
        Rule.NOT_OWNED,
        ErrorCode.NOT_COORDINATOR,
        "the group's partition is not served here",
    )
    NOT_AVAILABLE = (
        Rule.NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "the group's partition has failed and is being tried again",
    )
    TENURE_ENDED = (
        Rule.TENURE_ENDED,
        ErrorCode.NOT_COORDINATOR,
        "the group's partition was lost to another coordinator",
    )
    APPEND_FAILED = (
        Rule.TENURE_ENDED,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "the log did not take what the group had to write",
    )
    TIMED_OUT = (
        Rule.TIMED_OUT,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "the log did not answer within offsets.commit.timeout.ms",
    )
    SHUTTING_DOWN = (
        Rule.SHUTTING_DOWN,
        ErrorCode.NOT_COORDINATOR,
        "the server was being stopped",
    )


_EXCEPTIONS: Final[dict[tuple[Failure, type[Event] | type[Result]], Result]] = {
    # Members of a group that is being loaded are to go on; Kafka answers blindly, too.
    (Failure.LOADING, Heartbeat): DONE,
    # Consumers before 3.9 give up at any other error of an OffsetFetch (KAFKA-17267).
    **{
        (failure, asked): Refuse(ErrorCode.NOT_COORDINATOR, failure.value[0], failure.value[2])
        for failure in (Failure.NOT_AVAILABLE, Failure.APPEND_FAILED, Failure.TIMED_OUT)
        for asked in (FetchOffsets, Fetched)
    },
}


def answer_to(failure: Failure, asked: Event | Result | None) -> Result:
    """The response to a request, given its event or its held result."""
    exception = _EXCEPTIONS.get((failure, type(asked)))  # type: ignore[arg-type]
    if exception is not None:
        return exception
    rule, error, detail = failure.value
    return Refuse(error, rule, detail)
