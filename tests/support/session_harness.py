"""Drives a session without a network: takes request frames, returns decoded responses."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from coordinator_protocol.codec import load_api, request_encoder, response_decoder
from coordinator_protocol.frames import FrameSplitter, framed
from coordinator_protocol.headers import read_response_header, request_header
from coordinator_server.api import registry
from coordinator_server.net.context import FaultInjector, SessionContext
from coordinator_server.net.session import Session
from coordinator_server.observe.counters import Counters
from coordinator_server.ports import ANONYMOUS, Principal
from tests.support.fake_coordinator import FakeCoordinator, group_services

HEARTBEAT, JOIN_GROUP, API_VERSIONS, FIND_COORDINATOR = 12, 11, 18, 10


def request(
    api_key: int,
    version: int,
    correlation_id: int = 1,
    client_id: str | None = "tester",
    **fields: Any,
) -> bytes:
    """The frame of a request with these fields."""
    body = request_encoder(api_key, version)(load_api(api_key).request(**fields))
    return framed(request_header(api_key, version, correlation_id, client_id) + body)


def heartbeat(correlation_id: int, version: int = 4, group_id: str = "g") -> bytes:
    """The frame of a Heartbeat."""
    return request(
        HEARTBEAT, version, correlation_id, group_id=group_id, generation_id=1, member_id="m"
    )


def join(correlation_id: int = 1) -> bytes:
    """The frame of a JoinGroup."""
    return request(
        JOIN_GROUP,
        9,
        correlation_id,
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
    )


class SessionHarness:
    """Implements SessionTransport, and plays the client."""

    def __init__(
        self,
        coordinator: FakeCoordinator | None = None,
        *,
        principal: Principal | None = ANONYMOUS,
        faults: FaultInjector | None = None,
        **config: Any,
    ) -> None:
        self.coordinator = coordinator or FakeCoordinator()
        self.counters = Counters()
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.woken = 0
        self.running: list[Coroutine[Any, Any, None]] = []
        self.services = group_services(self.coordinator, **config)
        context = SessionContext(self.services, self.counters, self._report, faults)
        self.session = Session(
            context, self, listener="PLAINTEXT", host="/127.0.0.1", principal=principal
        )
        self._answers = FrameSplitter(1 << 30)
        self._sent = b""

    def wake(self) -> None:
        """Count the calls."""
        self.woken += 1

    def run(self, handling: Coroutine[Any, Any, None]) -> None:
        """Keep the coroutine; the test runs it."""
        self.running.append(handling)

    async def in_slices(self, step: Callable[[], bool]) -> None:
        """Run all steps immediately."""
        while not step():
            pass

    def may_build(self, _size: int, _go_on: Callable[[], None]) -> bool:
        """Memory is always available."""
        return True

    async def aside(self, work: Callable[[], Any]) -> Any:
        """Run the work immediately."""
        return work()

    def send(self, *chunks: bytes) -> None:
        """Receive chunks one after the other."""
        for number, chunk in enumerate(chunks):
            self._sent += b"".join(self.session.take())
            responses, rest = self.session.express(chunk, number)
            self._sent += responses
            if rest < len(chunk):
                self.session.receive(chunk[rest:], number)

    def answers(self) -> list[bytes]:
        """The response frames since the last call."""
        sent, self._sent = self._sent + b"".join(self.session.take()), b""
        return [buffer[s:e] for buffer, s, e in self._answers.feed(sent)]

    def answered(self, api_key: int, version: int) -> list[tuple[int, Any]]:
        """The correlation ids and responses, all of one API and version."""
        decode = response_decoder(api_key, version)
        found = []
        for answer in self.answers():
            correlation_id, body = read_response_header(
                answer, 0, len(answer), api_key=api_key, api_version=version
            )
            found.append((correlation_id, decode(answer, body, len(answer))))
        return found

    def ended(self) -> str | None:
        """The reason for which the session has ended."""
        return self.session.ended

    def wants_more(self) -> bool:
        """Whether the session accepts more bytes."""
        return self.session.wants_more

    def is_ready(self) -> bool:
        """Whether the session has a request to serve."""
        return self.session.is_ready

    def reported(self) -> list[str]:
        """The names of the events that were logged."""
        return [event for event, _ in self.reports]

    def _report(self, event: str, **fields: Any) -> None:
        self.reports.append((event, fields))


def replaced(
    monkeypatch: pytest.MonkeyPatch, handle: Callable[..., Any], *, is_async: bool = False
) -> None:
    """Serve FindCoordinator v2 with another handler."""
    way = registry.find_route(FIND_COORDINATOR, 2)
    assert way is not None
    monkeypatch.setattr(way, "handle", handle)
    monkeypatch.setattr(way, "is_async", is_async)


FIND = request(FIND_COORDINATOR, 2, 1, key="g")
"""A request that `replaced` handles."""
