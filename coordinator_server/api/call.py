"""One request in progress, as an API module sees it."""

from collections.abc import Callable
from typing import Any, Protocol

from coordinator_server.ports import Caller


class Call(Protocol):
    """A decoded request's envelope: who asks, in which version, and how to answer.

    Exactly one of the three that answer, `answer_nothing` and `disconnect` is called, now or
    later; a second answer is ignored, so is one that arrives after the client has gone.
    """

    api_key: int
    version: int
    caller: Caller
    now_ms: int
    """Monotonic milliseconds, read once per received chunk."""

    def answer(self, response: Any) -> None:
        """Encode the response for the call's version and send it in request order."""
        ...

    def answer_body(self, body: bytes, error: int = 0) -> None:
        """Send an already encoded body; `error` is the code in it, for the counters."""
        ...

    def answer_parts(self, parts: list[bytes], error: int = 0) -> None:
        """As `answer_body`, of a body that is too large to be copied into one."""
        ...

    def may_grow(self, size: int, go_on: Callable[[], None]) -> bool:
        """Whether the response, of which `size` bytes are made, may be made longer now.

        False: `go_on` is called once there is memory for more, which is never if the client goes
        away before. To be asked before long responses are made, and as they grow; a size of 0 after
        others says that what there was is dropped.
        """
        ...

    def answer_nothing(self) -> None:
        """Go on to the next request without an answer (Produce with acks=0)."""
        ...

    def failed(self, bug: BaseException) -> None:
        """Making the answer has raised: say so in the log, and answer with an error."""
        ...

    def disconnect(self, why: str) -> None:
        """Close the connection instead of answering, as Kafka does with what it cannot parse."""
        ...
