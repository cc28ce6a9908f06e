"""Reads the headers of a connection's requests."""

from typing import Final

from coordinator_protocol.headers import read_client_id
from coordinator_server.api.registry import Route
from coordinator_server.ports import Caller

HEADER_AT: Final = 8
"""The position of the client id in a frame, behind the correlation id."""


class HeaderReader:
    """Remembers the last header: most connections send one client id with all requests."""

    __slots__ = ("_known", "caller")

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self._known: dict[bool, bytes] = {}
        """The bytes between correlation id and body that `caller.client_id` was read from.

        By whether the version is flexible: then there are tagged fields among them.
        """

    def known(self, route: Route) -> bytes:
        """The bytes behind the correlation id of earlier requests; b"" before the first one."""
        return self._known.get(route.is_flexible, b"")

    def body_of(self, route: Route, buffer: bytes, start: int, end: int) -> int:
        """The position of the body of the request in buffer[start:end]. Raises Malformed."""
        known = self._known.get(route.is_flexible)
        if known is not None:
            body = start + HEADER_AT + len(known)
            if body <= end and buffer[start + HEADER_AT : body] == known:
                return body
        client_id, body = read_client_id(buffer, start, end)
        caller = self.caller
        if client_id != caller.client_id:
            self._known.clear()
            self.caller = Caller(caller.principal, caller.host, client_id, caller.listener)
        self._known[route.is_flexible] = buffer[start + HEADER_AT : body]
        return body
