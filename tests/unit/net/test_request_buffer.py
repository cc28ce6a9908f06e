"""Requests that have been received and wait."""

import tracemalloc

import pytest

from coordinator_protocol.frames import SIZE_BYTES, framed
from coordinator_server.net.memory import MemoryBudget
from coordinator_server.net.request_buffer import DROPPED_AT_ONCE, SPLIT_AT_ONCE, RequestBuffer
from tests.support.listening_server import Start
from tests.support.session_harness import heartbeat

FRAME = framed(bytes(26))


def test_a_chunk_of_small_requests_takes_little_more_than_its_bytes() -> None:
    chunk = FRAME * 8_000
    buffer = RequestBuffer(1 << 20)
    tracemalloc.start()
    try:
        buffer._feed(chunk)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 32_000
    assert len(buffer._waiting) == SPLIT_AT_ONCE
    assert buffer.held == len(chunk)


@pytest.mark.parametrize("cut", [1, 2, 5, 30, 19_999])
def test_all_requests_of_chunks_come_in_order(cut: int) -> None:
    frames = [framed(number.to_bytes(26, "big")) for number in range(1_000)]
    stream = b"".join(frames)
    buffer = RequestBuffer(1 << 20)
    for chunk in (stream[:cut], stream[cut:20_000], stream[20_000:]):
        buffer._feed(chunk)
    taken = []
    while buffer._waiting:
        data, start, end = buffer._waiting.popleft()
        taken.append(int.from_bytes(data[start:end], "big"))
        if not buffer._waiting:
            buffer._split()
    assert taken == list(range(1_000))
    assert not buffer.is_amid


def test_what_is_wrong_with_a_length_is_found_when_the_requests_before_it_are_split() -> None:
    buffer = RequestBuffer(1 << 20)
    buffer._feed(FRAME * 300 + b"\xff" * 4 + FRAME * 300)
    taken = 0
    while buffer._waiting:
        buffer._waiting.popleft()
        taken += 1
        if not buffer._waiting:
            buffer._split()
    assert taken == 300
    assert buffer._broken is not None
    assert not buffer._unsplit


def test_requests_of_some_apis_are_kept_wherever_they_are_in_the_chunks() -> None:
    other = framed(b"\0\x08" + bytes(24))
    buffer = RequestBuffer(1 << 20)
    buffer._feed(FRAME * 500 + other + FRAME * 500 + other)
    buffer._keep_only(frozenset({b"\0\x08"}))
    taken = 0
    while not buffer.is_idle:
        buffer._split()
        while buffer._waiting:
            data, start, end = buffer._waiting.popleft()
            assert data[start : start + 2] == b"\0\x08"
            buffer._behind -= end - start + SIZE_BYTES
            taken += 1
    assert taken == 2
    assert not buffer.held


@pytest.mark.parametrize("chunk", [FRAME * 8_000, FRAME])
def test_what_a_client_that_has_gone_left_behind_is_dropped_in_steps(chunk: bytes) -> None:
    buffer = RequestBuffer(1 << 20)
    for _ in range(8_000 * len(FRAME) // len(chunk)):
        buffer._unsplit.append((chunk, 0))
        buffer._behind += len(chunk)
    before = buffer.held
    buffer._keep_only(frozenset())
    assert buffer.held == before
    steps = 0
    while buffer.is_ready:
        buffer._split()
        dropped = before - buffer.held
        assert 0 < dropped <= (DROPPED_AT_ONCE + SPLIT_AT_ONCE) * len(FRAME)
        before, steps = buffer.held, steps + 1
    assert steps > 10
    assert not buffer.held


async def test_a_connection_serves_all_requests_of_a_large_chunk(start: Start) -> None:
    world = await start(memory=MemoryBudget())
    client = await world.connect()
    client.send(b"".join(heartbeat(number) for number in range(1_000)))
    for number in range(1_000):
        assert (await client.receive())[3] == number % 256
    await world.until(lambda: world.context.memory.used == 0)
