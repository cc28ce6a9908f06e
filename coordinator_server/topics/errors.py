"""The one exception of this package: a request that Kafka refuses with an error code."""

from protocol.errors import ErrorCode


class TopicError(Exception):
    """A refused operation on a topic; `str()` is the message for the client.

    Attributes:
        error: what the client is answered.
    """

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
