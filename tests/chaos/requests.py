"""Requests to a server that may fail at any moment: each is answered, or its connection ends."""

import asyncio
from typing import Any

from tests.oracle.oracle.wire import CLOSED, Connection, Reply

ANSWER_SECONDS = 5.0
"""How long an answer may take, on a machine that does other things as well."""
FAILING = frozenset(
    {
        "NOT_COORDINATOR",
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "REQUEST_TIMED_OUT",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_SERVER_ERROR",
    }
)
"""Errors that a server may answer while a part of it fails."""


class Problem(Exception):
    """A request or a step of the load that did not work; while something fails it may not."""


class Stuck(Exception):
    """A request without an answer, which must never happen."""


class Client:
    """A connection that is opened when it is needed."""

    def __init__(self, bootstrap: str, client_id: str) -> None:
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._connection: Connection | None = None

    async def connection(self) -> Connection:
        """The connection, opened if it is not. Raises Problem."""
        if self._connection is None or self._connection.closed.is_set():
            await self.close()
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    self._connection = await Connection.open(self._bootstrap, self._client_id)
            except TimeoutError:
                raise Stuck(f"{self._client_id}: connecting took too long") from None
            except OSError as error:
                raise Problem(f"{self._client_id}: {error}") from error
        return self._connection

    async def call(self, api: str, version: int, /, **values: Any) -> Reply:
        """Ask and wait. Raises Problem where the connection ends, Stuck where no answer comes."""
        connection = await self.connection()
        return await self.answer(api, connection.send(api, version, **values))

    async def answer(self, api: str, asked: "asyncio.Future[Reply]") -> Reply:
        """The answer to a request that was sent; see call."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reply = await asked
        except TimeoutError:
            await self.close()
            raise Stuck(
                f"{self._client_id}: {api} was not answered in {ANSWER_SECONDS:g} s"
            ) from None
        if reply == CLOSED:
            raise Problem(f"{self._client_id}: the connection was closed instead of {api}")
        if "observed" in reply:
            raise Problem(f"{self._client_id}: {api}: {reply}")
        return reply

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection._writer.close()
            await connection.close()


def codes(reply: Any) -> set[str]:
    """All error codes in an answer."""
    if isinstance(reply, dict):
        found = {reply["error_code"]} if "error_code" in reply else set()
        return found.union(*(codes(value) for value in reply.values()))
    if isinstance(reply, list):
        return set().union(*(codes(each) for each in reply))
    return set()


def expect(what: str, reply: Reply, *also: str) -> Reply:
    """The answer, if nothing in it failed. Raises Problem."""
    wrong = codes(reply) - {"NONE", *also}
    if wrong:
        raise Problem(f"{what}: {', '.join(sorted(wrong))}")
    return reply


async def http(
    port: int, path: str, *, method: str = "GET", body: bytes = b"", token: str = ""
) -> tuple[int, bytes]:
    """Status and body of an HTTP request. Raises Problem, Stuck."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n"
    if token:
        head += f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    if body:
        head += f"Content-Length: {len(body)}\r\n"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(head.encode() + b"\r\n" + body)
                answer = await reader.read(-1)
            finally:
                writer.close()
    except TimeoutError:
        raise Stuck(f"{method} {path} was not answered in {ANSWER_SECONDS:g} s") from None
    except OSError as error:
        raise Problem(f"{method} {path}: {error}") from error
    first, _, rest = answer.partition(b"\r\n")
    parts = first.split()
    if len(parts) < 2:
        raise Problem(f"{method} {path}: the connection was closed instead of an answer")
    return int(parts[1]), rest.partition(b"\r\n\r\n")[2]
