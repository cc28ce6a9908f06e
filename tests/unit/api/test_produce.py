"""Produce appends what is sound, answers when it is durable, and refuses as Kafka refuses."""

import asyncio
import struct
from pathlib import Path

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from coordinator_server.api import produce
from coordinator_server.api.services import Services
from coordinator_server.ports import Operation, Resource
from tests.support.data_plane import batch_of, make_topics, records_in, with_attributes
from tests.support.fake_services import NOW, FakeCall, fake_services

HOUR = 3_600_000


@pytest.fixture
def services(tmp_path: Path) -> Services:
    services = fake_services(make_topics(tmp_path))
    services.topics.catalog.create([("orders", 2)])
    return services


def request(
    *partitions: tuple[int, bytes | None],
    topic: str = "orders",
    acks: int = -1,
    timeout_ms: int = 10_000,
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in partitions]
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )


async def send(
    services: Services, asked: ProduceRequest, *, version: int = 9
) -> list[PartitionProduceResponse]:
    response = await produce.handle(FakeCall(version), asked, services)
    assert response is not None
    return [answer for topic in response.responses for answer in topic.partition_responses]


async def refused(
    services: Services, records: bytes | None, *, version: int = 9
) -> tuple[ErrorCode, str]:
    (answer,) = await send(services, request((0, records)), version=version)
    assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (-1, -1, -1)
    assert await records_in(services.topics, "orders", 0) == []
    return ErrorCode(answer.error_code), answer.error_message or ""


async def test_records_get_offsets_one_after_the_other(services: Services) -> None:
    (first,) = await send(services, request((0, batch_of((NOW, b"a"), (NOW, b"b")))))
    (second,) = await send(services, request((0, batch_of((NOW, b"c")))))
    assert (first.error_code, first.base_offset, first.log_start_offset) == (0, 0, 0)
    assert first.log_append_time_ms == -1
    assert second.base_offset == 2
    assert await records_in(services.topics, "orders", 0) == [(0, b"a"), (1, b"b"), (2, b"c")]


async def test_an_acknowledged_record_is_there_after_a_restart(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path))
    services.topics.catalog.create([("orders", 1)])
    await send(services, request((0, batch_of((NOW, b"a")))))
    services.topics.close()
    again = make_topics(tmp_path)
    assert await records_in(again, "orders", 0) == [(0, b"a")]
    assert (await again.offsets(again.catalog.topics()["orders"], 0)) == (0, 1)


async def test_each_partition_has_its_own_answer(services: Services) -> None:
    answers = await send(services, request((0, batch_of((NOW, b"a"))), (5, batch_of((NOW, b"b")))))
    assert [answer.error_code for answer in answers] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_of_a_partition_named_twice_the_last_records_count(services: Services) -> None:
    first, second = batch_of((NOW, b"a")), batch_of((NOW, b"b"), (NOW, b"c"))
    for entries in (
        ([(0, None), (1, first), (0, second)],),
        ([(0, first)], [(1, first), (0, second)]),
    ):
        asked = request()
        asked.topic_data = [
            topic for partitions in entries for topic in request(*partitions).topic_data
        ]
        response = await produce.handle(FakeCall(9), asked, services)
        assert response is not None
        (answers,) = response.responses
        found = [(answer.index, answer.error_code) for answer in answers.partition_responses]
        assert found == [(0, ErrorCode.NONE), (1, ErrorCode.NONE)]
    values = [value for _, value in await records_in(services.topics, "orders", 0)]
    assert values == [b"b", b"c", b"b", b"c"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_compressed_batches_are_kept_as_they_are(services: Services, codec: str) -> None:
    records = batch_of((NOW, b"a" * 500), (NOW, b"b" * 500), codec=codec)
    assert len(records) < 1000
    (answer,) = await send(services, request((0, records)))
    assert answer.error_code == ErrorCode.NONE
    topic = services.topics.catalog.topics()["orders"]
    assert await services.topics.offsets(topic, 0) == (0, 2)


@pytest.mark.parametrize("records", [None, b"", b"\0" * 60])
async def test_no_batch_at_all_is_an_invalid_record(
    services: Services, records: bytes | None
) -> None:
    code, _ = await refused(services, records)
    assert code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


async def test_two_batches_are_an_invalid_record(services: Services) -> None:
    code, message = await refused(services, batch_of((NOW, b"a")) * 2)
    assert code is ErrorCode.INVALID_RECORD
    assert "exactly one" in message


@pytest.mark.parametrize("magic", [0, 1, 3])
async def test_another_magic_is_an_invalid_record(services: Services, magic: int) -> None:
    records = bytearray(batch_of((NOW, b"a")))
    records[16] = magic
    code, _ = await refused(services, bytes(records))
    assert code is ErrorCode.INVALID_RECORD


async def test_a_flipped_bit_is_a_corrupt_message(services: Services) -> None:
    records = bytearray(batch_of((NOW, b"a")))
    records[-1] ^= 1
    code, _ = await refused(services, bytes(records))
    assert code is ErrorCode.CORRUPT_MESSAGE


async def test_a_wrong_count_is_an_invalid_record(services: Services) -> None:
    code, _ = await refused(services, batch_of((NOW, b"a"), count=2))
    assert code is ErrorCode.INVALID_RECORD


async def test_a_base_offset_of_the_clients_is_an_invalid_record(services: Services) -> None:
    records = struct.pack(">q", 5) + batch_of((NOW, b"a"))[8:]
    code, _ = await refused(services, records)
    assert code is ErrorCode.INVALID_RECORD


async def test_zstd_before_version_7_is_an_unsupported_compression(services: Services) -> None:
    records = batch_of((NOW, b"a"), codec="zstd")
    code, _ = await refused(services, records, version=6)
    assert code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


async def test_an_unknown_codec_is_an_unsupported_compression(services: Services) -> None:
    code, _ = await refused(services, with_attributes(batch_of((NOW, b"a")), 5))
    assert code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


async def test_a_batch_above_the_limit_is_too_large(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path, max_message_bytes=200))
    services.topics.catalog.create([("orders", 1)])
    code, message = await refused(services, batch_of((NOW, b"x" * 200)))
    assert code is ErrorCode.MESSAGE_TOO_LARGE
    assert "200" in message


async def test_a_timestamp_far_ahead_is_invalid(services: Services) -> None:
    code, _ = await refused(services, batch_of((NOW + HOUR + 1, b"a")))
    assert code is ErrorCode.INVALID_TIMESTAMP
    (answer,) = await send(services, request((0, batch_of((NOW + HOUR, b"a")))))
    assert answer.error_code == ErrorCode.NONE


async def test_control_batches_are_not_for_clients(services: Services) -> None:
    code, message = await refused(services, with_attributes(batch_of((NOW, b"a")), 0x20))
    assert code is ErrorCode.INVALID_RECORD
    assert "control" in message


async def test_a_producer_id_we_never_gave_is_unknown(services: Services) -> None:
    records = batch_of((NOW, b"a"), producer_id=9, producer_epoch=0, base_sequence=0)
    code, message = await refused(services, records)
    assert code is ErrorCode.UNKNOWN_PRODUCER_ID
    assert "enable.idempotence" in message


async def test_a_transactional_batch_needs_a_transactional_id_that_is_mapped(
    services: Services,
) -> None:
    records = batch_of(
        (NOW, b"a"), producer_id=9, producer_epoch=0, base_sequence=0, transactional=True
    )
    code, _ = await refused(services, records)
    assert code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_the_offsets_topic_cannot_be_written(services: Services) -> None:
    asked = request((0, batch_of((NOW, b"a"))), topic="__consumer_offsets")
    (answer,) = await send(services, asked)
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert answer.error_message == "Cannot append to internal topic __consumer_offsets"


@pytest.mark.parametrize("acks", [2, -2])
async def test_other_acks_are_invalid(services: Services, acks: int) -> None:
    (answer,) = await send(services, request((0, batch_of((NOW, b"a"))), acks=acks))
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert await records_in(services.topics, "orders", 0) == []


async def test_without_acks_there_is_no_answer(services: Services) -> None:
    call = FakeCall(9)
    asked = request((0, batch_of((NOW, b"a"))), acks=0)
    assert await produce.handle(call, asked, services) is None
    assert call.answered_nothing
    assert call.disconnected is None
    await send(services, request((0, batch_of((NOW, b"b")))))
    assert await records_in(services.topics, "orders", 0) == [(0, b"a"), (1, b"b")]


async def test_without_acks_an_error_closes_the_connection(services: Services) -> None:
    call = FakeCall(9)
    asked = request((9, batch_of((NOW, b"a"))), acks=0)
    assert await produce.handle(call, asked, services) is None
    assert not call.answered_nothing
    assert call.disconnected == ("produce with acks=0 failed: orders-9: UNKNOWN_TOPIC_OR_PARTITION")


async def test_write_on_the_topic_is_needed(tmp_path: Path) -> None:
    denied = {(Operation.WRITE, Resource.TOPIC, "orders")}
    services = fake_services(make_topics(tmp_path), denied=denied)
    services.topics.catalog.create([("orders", 1)])
    (answer,) = await send(services, request((0, batch_of((NOW, b"a")))))
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_records_at_the_same_time_get_offsets_of_their_own(services: Services) -> None:
    sends = [send(services, request((0, batch_of((NOW, b"%d" % n))))) for n in range(20)]
    answers = await asyncio.gather(*sends)
    assert sorted(answer.base_offset for (answer,) in answers) == list(range(20))
    assert len(await records_in(services.topics, "orders", 0)) == 20


@pytest.mark.parametrize("acks", [1, -1])
async def test_the_answer_waits_until_records_are_durable_whatever_the_timeout(
    services: Services, acks: int
) -> None:
    asked = request((0, batch_of((NOW, b"a"))), acks=acks, timeout_ms=0)
    (answer,) = await send(services, asked)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert await records_in(services.topics, "orders", 0) == [(0, b"a")]
