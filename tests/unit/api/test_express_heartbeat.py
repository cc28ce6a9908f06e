"""The express handler of Heartbeat reads what the decoder of the message reads."""

from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import request_decoder, request_encoder
from coordinator_protocol.errors import Malformed
from coordinator_protocol.messages.heartbeat import HeartbeatRequest
from coordinator_server.api import heartbeat
from coordinator_server.group.events import Heartbeat
from coordinator_server.ports import ANONYMOUS, Caller
from tests.support.fake_coordinator import FakeCoordinator, group_services

CALLER = Caller(ANONYMOUS, "/127.0.0.1", "tester", "PLAINTEXT")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)
REQUESTS = st.builds(
    HeartbeatRequest,
    group_id=TEXTS,
    generation_id=st.integers(-(2**31), 2**31 - 1),
    member_id=TEXTS,
    group_instance_id=st.none() | TEXTS,
)


class NotingCoordinator(FakeCoordinator):
    """Accepts every heartbeat and notes it."""

    def renew(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: int
    ) -> bool:
        """See Coordinator."""
        self.noted = (group_id, Heartbeat(None, member_id, instance_id, generation), now)
        return True


def read(buffer: bytes, start: int, end: int, version: int) -> tuple[Any, ...] | None:
    """The fields that the express handler has read, None if it has left the request alone."""
    coordinator = NotingCoordinator()
    services = group_services(coordinator)
    try:
        body = heartbeat.express(buffer, start, end, version, CALLER, 7, services)
    except (IndexError, StructError, ValueError):
        return None
    if body is None:
        return None
    group_id, event, now = coordinator.noted
    assert now == 7
    return group_id, event.generation, event.member_id, event.group_instance_id


def decoded(buffer: bytes, start: int, end: int, version: int) -> tuple[Any, ...] | None:
    """The fields that the decoder reads."""
    try:
        request = request_decoder(ApiKey.HEARTBEAT, version)(buffer, start, end)
    except Malformed:
        return None
    return (
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
    )


@pytest.mark.parametrize("version", range(5))
@given(request=REQUESTS, around=st.binary(max_size=4))
def test_it_reads_the_same_fields(version: int, request: HeartbeatRequest, around: bytes) -> None:
    if version < 3:
        request.group_instance_id = None
    encoded = request_encoder(ApiKey.HEARTBEAT, version)(request)
    buffer, start = around + encoded + around, len(around)
    found = read(buffer, start, start + len(encoded), version)
    is_usual = version < 4 or all(
        len((text or "").encode()) <= 126
        for text in (request.group_id, request.member_id, request.group_instance_id)
    )
    assert (found is not None) is is_usual
    if found is not None:
        assert found == decoded(buffer, start, start + len(encoded), version)


@pytest.mark.parametrize("version", range(5))
@given(request=REQUESTS, data=st.data())
def test_it_accepts_nothing_that_the_decoder_refuses(
    version: int, request: HeartbeatRequest, data: st.DataObject
) -> None:
    if version < 3:
        request.group_instance_id = None
    damaged = bytearray(request_encoder(ApiKey.HEARTBEAT, version)(request))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(damaged)))
    found = read(bytes(damaged), 0, end, version)
    if found is not None:
        assert found == decoded(bytes(damaged), 0, end, version)
