"""What the server is bombarded with: valid requests, and mutations a seed makes again."""

import random
import struct
from itertools import islice

from coordinator_protocol.codec import request_decoder
from coordinator_protocol.headers import read_client_id, read_intent
from tests.support.mutated_requests import framed, mutations, numbered, valid_requests

ANNOUNCED = {0: (3, 9), 1: (4, 12), 3: (0, 13), 8: (2, 9), 11: (0, 9), 14: (0, 5), 19: (2, 7)}


def test_every_valid_request_can_be_read_to_its_end() -> None:
    for payload in valid_requests(ANNOUNCED, random.Random(1), each=2):
        api_key, version, _ = read_intent(payload, 0, len(payload))
        _, body = read_client_id(payload, 0, len(payload))
        decode = request_decoder(api_key, version)
        assert decode(payload, body, len(payload)) is not None


def test_every_version_of_every_announced_api_is_there() -> None:
    seen = [
        struct.unpack_from(">hh", payload)
        for payload in valid_requests(ANNOUNCED, random.Random(1), each=1)
    ]
    assert seen == [
        (key, version)
        for key, (lowest, highest) in sorted(ANNOUNCED.items())
        for version in range(lowest, highest + 1)
    ]


def test_mutations_of_one_seed_are_the_same_and_seldom_valid() -> None:
    valid = valid_requests(ANNOUNCED, random.Random(1), each=1)
    first = list(islice(mutations(valid, random.Random(2)), 200))
    assert first == list(islice(mutations(valid, random.Random(2)), 200))
    assert first != list(islice(mutations(valid, random.Random(3)), 200))
    assert len(set(first) & set(valid)) < 20


def test_numbered_payloads_carry_the_correlation_id_and_short_ones_stay_as_they_are() -> None:
    (payload,) = valid_requests({18: (0, 0)}, random.Random(1), each=1)
    assert struct.unpack_from(">ihhi", framed(numbered(payload, 77))) == (len(payload), 18, 0, 77)
    assert numbered(b"short", 77) == b"short"
