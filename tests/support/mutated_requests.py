"""Valid requests of every announced API by kio, and seeded mutations of them."""

import random
import re
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from aiokafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatchBuilder,
)
from kio.index import load_request_schema

from tests.oracle.oracle.wire import API_NAMES, _inner_type, encode_request

TOPICS = ("mutated-a", "mutated-b")
SENTINEL = 0x7FFF_FFFF
"""A correlation id no request made here has."""

ODD_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
ODD_NUMBERS = (0, 1, -1, -2, 127, 255, 32767, -32768, 2**31 - 1, -(2**31), 0x00FF_FFFF)


def record_batch() -> bytes:
    """Two records as a producer would send them."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10_000,
    )
    for number in range(2):
        builder.append(number, 1_700_000_000_000, b"key", b"value", [])
    return bytes(builder.build())


RECORDS = record_batch()
SUBSCRIPTION = struct.pack(">hihsi", 0, 1, 1, b"t", -1)

GROUP = re.compile(rb"mutated-\d{6}")

Make = Callable[[random.Random], Any]


def group_id(chance: random.Random) -> str:
    """One of so many that members of one group rarely meet, and wait for one another."""
    return f"mutated-{chance.randrange(1_000_000):06}"


def with_other_groups(payload: bytes, chance: random.Random) -> bytes:
    """The same request about another group."""
    return GROUP.sub(group_id(chance).encode(), payload)


def topic(chance: random.Random) -> str:
    """One of a few."""
    return chance.choice(TOPICS)


BY_NAME: Mapping[str, Make] = {
    "group_id": group_id,
    "groups_names": group_id,
    "key": group_id,
    "coordinator_keys": group_id,
    "topic": topic,
    "topic_names": topic,
    "name": topic,
    "key_type": lambda chance: chance.randrange(2),
    "member_id": lambda chance: chance.choice(("", "nobody")),
    "protocol_type": lambda _: "consumer",
    "protocol_name": lambda _: "range",
    "metadata": lambda _: SUBSCRIPTION,
    "records": lambda _: RECORDS,
    "session_timeout": lambda _: 6_000,
    "rebalance_timeout": lambda _: 6_000,
    "timeout": lambda _: 1_000,
    "max_wait": lambda _: 10,
    "max_bytes": lambda _: 1_000_000,
    "partition_max_bytes": lambda _: 100_000,
    "replica_id": lambda _: -1,
    "session_epoch": lambda _: -1,
    "session_id": lambda _: 0,
    "current_leader_epoch": lambda _: -1,
    "acks": lambda _: -1,
    "num_partitions": lambda _: 1,
    "replication_factor": lambda _: 1,
    "timestamp": lambda chance: chance.choice((-1, -2, 0)),
    "client_software_name": lambda _: "mutated",
    "client_software_version": lambda _: "1.0",
    "endpoint_type": lambda _: 1,
    "retention_time": lambda _: -1,
}

BY_TYPE: Mapping[str, Make] = {
    "string": lambda chance: chance.choice(("", "text", "a longer text")),
    "bytes": lambda chance: chance.randbytes(chance.randrange(20)),
    "bool": lambda chance: chance.random() < 0.5,
    "uuid": lambda chance: str(uuid.UUID(int=chance.getrandbits(128))),
}

LEFT_EMPTY = ("forgotten_topics_data", "assignments", "configs")
"""Arrays that are left empty: nothing valid is in them here."""


def values(schema: type, chance: random.Random) -> dict[str, Any]:
    """Plain values for all fields of an entity but those with a tag."""
    return {
        field.name: _value(field, chance) for field in fields(schema) if "tag" not in field.metadata
    }


def _value(field: Any, chance: random.Random) -> Any:
    item_type, is_array = _inner_type(field.type)
    if not is_array:
        return _item(field, item_type, chance)
    if field.name in LEFT_EMPTY:
        return []
    return [_item(field, item_type, chance) for _ in range(chance.choice((1, 1, 2)))]


def _item(field: Any, item_type: Any, chance: random.Random) -> Any:
    if is_dataclass(item_type):
        assert isinstance(item_type, type)
        return values(item_type, chance)
    if field.name in BY_NAME:
        return BY_NAME[field.name](chance)
    is_array = _inner_type(field.type)[1]
    if field.default is None and not is_array:
        return None
    kafka_type = field.metadata["kafka_type"]
    if kafka_type in BY_TYPE:
        return BY_TYPE[kafka_type](chance)
    return chance.randrange(2) if is_array or field.default is MISSING else field.default


def valid_requests(
    announced: Mapping[int, tuple[int, int]], chance: random.Random, each: int
) -> list[bytes]:
    """So many payloads of each announced API and version, without the length in front."""
    return [
        encode_request(
            API_NAMES[key], version, 0, "mutated", values(load_request_schema(key, version), chance)
        )
        for key, (lowest, highest) in sorted(announced.items())
        for version in range(lowest, highest + 1)
        for _ in range(each)
    ]


def numbered(payload: bytes, correlation_id: int) -> bytes:
    """The payload with that correlation id, where it is long enough to have one."""
    if len(payload) < 8:
        return payload
    return payload[:4] + struct.pack(">i", correlation_id) + payload[8:]


def framed(payload: bytes) -> bytes:
    """The payload with its length in front."""
    return struct.pack(">i", len(payload)) + payload


def sentinel() -> bytes:
    """A request every server answers at once."""
    return framed(encode_request("ApiVersions", 0, SENTINEL, "mutated", {}))


def mutations(valid: Sequence[bytes], chance: random.Random) -> Iterator[bytes]:
    """Payloads with one to three mutations each, for ever."""
    while True:
        payload = bytearray(with_other_groups(chance.choice(valid), chance))
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            chance.choice(MUTATORS)(payload, chance)
        yield bytes(payload)


def _position(payload: bytearray, chance: random.Random) -> int:
    """Mostly in the body: most headers that are mutated only say an unknown API."""
    start = 0 if chance.random() < 0.1 else min(8, len(payload))
    return chance.randrange(start, len(payload) + 1)


def _flip(payload: bytearray, chance: random.Random) -> None:
    at = _position(payload, chance)
    if at < len(payload):
        payload[at] ^= 1 << chance.randrange(8)


def _odd_byte(payload: bytearray, chance: random.Random) -> None:
    at = _position(payload, chance)
    if at < len(payload):
        payload[at] = chance.choice(ODD_BYTES)


def _odd_number(payload: bytearray, chance: random.Random) -> None:
    at = _position(payload, chance)
    size = chance.choice((2, 4, 8))
    number = chance.choice(ODD_NUMBERS) & (2 ** (8 * size) - 1)
    payload[at : at + size] = number.to_bytes(size, "big")


def _cut(payload: bytearray, chance: random.Random) -> None:
    del payload[_position(payload, chance) :]


def _append(payload: bytearray, chance: random.Random) -> None:
    payload += chance.randbytes(chance.randrange(1, 9))


def _delete(payload: bytearray, chance: random.Random) -> None:
    at = _position(payload, chance)
    del payload[at : at + chance.randrange(1, 5)]


def _double(payload: bytearray, chance: random.Random) -> None:
    at = _position(payload, chance)
    payload[at:at] = payload[at : at + chance.randrange(1, 17)]


def _scramble(payload: bytearray, chance: random.Random) -> None:
    at = _position(payload, chance)
    size = min(chance.randrange(1, 9), len(payload) - at)
    payload[at : at + size] = chance.randbytes(size)


MUTATORS = (
    *(_flip, _flip, _odd_byte, _odd_byte, _odd_number),
    *(_cut, _append, _delete, _double, _scramble),
)
