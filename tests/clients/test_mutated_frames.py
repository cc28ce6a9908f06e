"""A server that is sent 100,000 mutated requests goes on serving, and stays small and quiet."""

import asyncio
import random
from collections.abc import Iterator
from itertools import islice

import pytest
import uvloop

from tests.support.frames import mutations, valid_requests
from tests.support.members import aiokafka_members
from tests.support.processes import OpenRoom
from tests.support.server import ServerProcess
from tests.support.stories import finish
from tests.support.storm import Outcomes, storm
from tests.support.wire import RawConnection

FRAMES = 100_000
PART = 10_000
SEED = 20_261_121
GROWTH = 256 * 1024 * 1024
"""Bytes the server may grow by: what 10,000 groups and their topics take, many times over."""


def announced(bootstrap: str) -> dict[int, tuple[int, int]]:
    """Lowest and highest version by API key."""
    with RawConnection(bootstrap) as connection:
        reply = connection.call("ApiVersions", 0)
    return {api["api_key"]: (api["min_version"], api["max_version"]) for api in reply["api_keys"]}


def send(bootstrap: str, payloads: Iterator[bytes], *, connections: int) -> Outcomes:
    """Send them all, on a loop that spends less time on connections than asyncio's own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(storm(bootstrap, payloads, connections=connections))


@pytest.mark.timeout(300)
def test_a_server_goes_on_serving_while_it_is_sent_mutated_requests(
    own_server: ServerProcess, open_room: OpenRoom
) -> None:
    room = open_room(own_server.bootstrap)
    feeder = room.feeder()
    member = room.member(aiokafka_members(), "healthy")
    room.settle(member)
    room.consumed_more(50)
    chance = random.Random(SEED)
    valid = valid_requests(announced(room.bootstrap), chance, each=3)
    sound = send(room.bootstrap, iter(valid), connections=1)
    assert sound.answered == len(valid), sound

    small = own_server.resident_bytes()
    requests = mutations(valid, chance)
    total = Outcomes()
    for _ in range(0, FRAMES, PART):
        total.add(send(room.bootstrap, islice(requests, PART), connections=48))
        assert own_server.running, own_server.log_tail()
        assert own_server.resident_bytes() < small + GROWTH
        room.consumed_more(20)

    assert total.answered > FRAMES // 10, total
    assert total.closed > FRAMES // 10, total
    assert total.left_waiting < FRAMES // 100, total
    feeder.leave()
    finish(room)
    member.leave()
