"""The token of a request that is one call."""

from coordinator_server.api.call import Call
from coordinator_server.runtime.ticket import Ticket


class CallTicket(Ticket):
    """Answers a call with the result."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call

    def failed(self, bug: Exception) -> bool:
        """See Ticket."""
        self._call.failed(bug)
        return True
