"""Objects between two processes, whole and in order, until one of them has gone."""

import asyncio
import socket

import pytest

from coordinator_server.workers.channel import Channel, receive_first


async def test_objects_arrive_whole_and_in_order() -> None:
    one, other = socket.socketpair()
    ours, theirs = await Channel.open(one), await Channel.open(other)
    large = {"kind": "topics", "topics": [{"name": "x" * 1_000} for _ in range(1_000)]}
    ours.send(large)
    ours.send({"kind": "ready"})
    assert await theirs.receive() == large
    assert await theirs.receive() == {"kind": "ready"}
    ours.close()
    assert await theirs.receive() is None
    theirs.close()


async def test_the_first_object_is_read_before_there_is_a_loop() -> None:
    one, other = socket.socketpair()
    ours = await Channel.open(one)
    ours.send({"config": {"workers": 2}})
    assert await asyncio.to_thread(receive_first, other) == {"config": {"workers": 2}}
    ours.close()
    with pytest.raises(EOFError, match="the other side has closed"):
        await asyncio.to_thread(receive_first, other)
    other.close()


async def test_what_is_said_to_nobody_is_dropped() -> None:
    one, other = socket.socketpair()
    ours = await Channel.open(one)
    other.close()
    assert await ours.receive() is None
    ours.send({"kind": "ready"})
    ours.close()
    ours.send({"kind": "ready"})
