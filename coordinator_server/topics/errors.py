"""The one exception that leaves this package: a request that Kafka refuses with an error code."""

from coordinator_protocol.errors import ErrorCode
from coordinator_server.storage.segments.log import SegmentLog

MAX_MESSAGE_CHARS = 2_000
"""A message quotes what the client sent, and must fit into a string of the protocol."""


class TopicError(Exception):
    """A refused operation on a topic; `str()` is the message for the client.

    Attributes:
        error: what the client is answered.
    """

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message[:MAX_MESSAGE_CHARS])
        self.error = error


def check_not_closed(log: SegmentLog) -> None:
    """Raise TopicError if a log was closed while a thread read it.

    The descriptors of its files may have been another's then.
    """
    if log.closing.is_set():
        raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, "The log was closed while it was read.")
