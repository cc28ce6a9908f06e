"""A connection that cannot be accepted is closed, and the next one is served."""

import asyncio
from typing import Any, cast

import pytest
import uvloop

from coordinator_server.loop.accepting import accepting

FAILURES = [RuntimeError("a bug"), MemoryError(), OSError(5, "input"), asyncio.CancelledError()]


class Greeting(asyncio.Protocol):
    """Says something, and closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        greeting = cast("asyncio.Transport", transport)
        greeting.write(b"hello")
        greeting.close()


async def greetings(failure: BaseException) -> tuple[list[bytes], list[Any]]:
    """What three clients read, of whom the second one meets a failure; and what was reported."""
    failures: list[BaseException | None] = [None, failure, None]
    reported: list[Any] = []

    def make() -> asyncio.Protocol:
        if (error := failures.pop(0)) is not None:
            raise error
        return Greeting()

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: reported.append(context["exception"]))
    server = await loop.create_server(accepting(make), "127.0.0.1", 0)
    read = []
    for _ in range(3):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            read.append(await asyncio.wait_for(reader.read(), 10))
        except ConnectionResetError:
            read.append(b"")
        writer.close()
    server.close()
    return read, reported


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_listener_goes_on(make_loop: Any, failure: BaseException) -> None:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        read, reported = runner.run(greetings(failure))
    assert read == [b"hello", b"", b"hello"]
    assert reported == [failure]
