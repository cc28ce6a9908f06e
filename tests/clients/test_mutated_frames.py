"""A server that is sent 100,000 mutated requests goes on serving, and stays small and quiet."""

import asyncio
import random
from collections.abc import Iterator
from itertools import islice

import pytest
import uvloop

from tests.support.client_processes import OpenClientGroup
from tests.support.client_scenarios import finish
from tests.support.member_commands import aiokafka_members
from tests.support.mutated_requests import mutations, valid_requests
from tests.support.payload_sender import Outcomes, send_payloads
from tests.support.server import ServerProcess
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
        return runner.run(send_payloads(bootstrap, payloads, connections=connections))


@pytest.mark.timeout(300)
def test_a_server_goes_on_serving_while_it_is_sent_mutated_requests(
    own_server: ServerProcess, open_client_group: OpenClientGroup
) -> None:
    client_group = open_client_group(own_server.bootstrap)
    feeder = client_group.feeder()
    member = client_group.member(aiokafka_members(), "healthy")
    client_group.settle(member)
    client_group.consumed_more(50)
    chance = random.Random(SEED)
    valid = valid_requests(announced(client_group.bootstrap), chance, each=3)
    sound = send(client_group.bootstrap, iter(valid), connections=1)
    assert sound.answered == len(valid), sound

    small = own_server.resident_bytes()
    requests = mutations(valid, chance)
    total = Outcomes()
    for _ in range(0, FRAMES, PART):
        total.add(send(client_group.bootstrap, islice(requests, PART), connections=48))
        assert own_server.running, own_server.log_tail()
        assert own_server.resident_bytes() < small + GROWTH
        client_group.consumed_more(20)

    assert total.answered > FRAMES // 10, total
    assert total.closed > FRAMES // 10, total
    assert total.left_waiting < FRAMES // 100, total
    feeder.leave()
    finish(client_group)
    member.leave()
