"""Values of topic configs: what Kafka 4.1.1 answered to a CreateTopics with each of them."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.topics.configs import TOPIC_CONFIGS, check_configs
from coordinator_server.topics.errors import TopicError

ACCEPTED = [
    {"cleanup.policy": ""},
    {"cleanup.policy": " compact , delete "},
    {"cleanup.policy": "compact,compact"},
    {"compression.gzip.level": "-1"},
    {"compression.gzip.level": "9"},
    {"compression.lz4.level": "17"},
    {"compression.type": " zstd "},
    {"compression.zstd.level": "-131072"},
    {"flush.messages": "9223372036854775807"},
    {"internal.segment.bytes": "-3"},
    {"leader.replication.throttled.replicas": ""},
    {"leader.replication.throttled.replicas": "0:1, 1:2"},
    {"leader.replication.throttled.replicas": "*"},
    {"leader.replication.throttled.replicas": ","},
    {"local.retention.ms": "5", "retention.ms": "3"},
    {"message.timestamp.type": "LogAppendTime"},
    {"min.cleanable.dirty.ratio": ".5"},
    {"min.cleanable.dirty.ratio": "1e-3"},
    {"min.cleanable.dirty.ratio": "1d"},
    {"min.cleanable.dirty.ratio": "NaN"},
    {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"},
    {"preallocate": " TRUE "},
    {"remote.log.copy.disable": "true", "local.retention.ms": "5"},
    {"remote.storage.enable": "false"},
    {"retention.bytes": "-9223372036854775808"},
    {"retention.ms": "\u0663"},
    {"segment.index.bytes": "+5"},
    {"segment.ms": " 7 "},
]

NOT_TAKEN = [
    ("cleanup.policy", "Compact", "String must be one of: compact, delete"),
    ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
    ("compression.gzip.level", "x", "Not a number of type INT"),
    ("compression.lz4.level", "18", "Value must be no more than 17"),
    (
        "compression.type",
        "GZIP",
        "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    ("compression.zstd.level", "-131073", "Value must be at least -131072"),
    ("flush.ms", "", "Not a number of type LONG"),
    ("flush.ms", "9223372036854775808", "Not a number of type LONG"),
    ("flush.ms", " 1_0 ", "Not a number of type LONG"),
    ("max.message.bytes", "2147483648", "Not a number of type INT"),
    ("max.message.bytes", "-1", "Value must be at least 0"),
    ("message.timestamp.type", "createtime", "String must be one of: CreateTime, LogAppendTime"),
    ("min.cleanable.dirty.ratio", "yes", "Not a number of type DOUBLE"),
    ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
    ("min.cleanable.dirty.ratio", "-0.1", "Value must be at least 0"),
    ("min.cleanable.dirty.ratio", "Infinity", "Value must be no more than 1"),
    ("preallocate", " yes", "Expected value to be either true or false"),
    ("segment.bytes", "1048575", "Value must be at least 1048576"),
]

THROTTLED = "leader.replication.throttled.replicas"

DIFFERENTLY_TOLD = [
    (
        {"cleanup.policy": "compact, x"},
        "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    (
        {"min.cleanable.dirty.ratio": " 3 "},
        "Invalid value 3.0 for configuration min.cleanable.dirty.ratio: Value must be no more than",
    ),
    (
        {"segment.bytes": " +5 "},
        "Invalid value 5 for configuration segment.bytes: Value must be at least 1048576",
    ),
    (
        {THROTTLED: "0:1, 0-1"},
        f"Invalid value [0:1, 0-1] for configuration {THROTTLED}: {THROTTLED} must be the literal",
    ),
    (
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
    ),
    ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled in the broker."),
    ({"retention.ms": "x", "unknown": "1"}, "Unknown topic config name: unknown"),
]


@pytest.mark.parametrize("configs", ACCEPTED, ids=str)
def test_values_that_kafka_takes_are_taken(configs: dict[str, str]) -> None:
    check_configs(configs)


def refusal(configs: dict[str, str]) -> str:
    with pytest.raises(TopicError) as refused:
        check_configs(configs)
    assert refused.value.error == ErrorCode.INVALID_CONFIG
    return str(refused.value)


@pytest.mark.parametrize(("name", "value", "why"), NOT_TAKEN)
def test_values_that_kafka_refuses_are_refused_in_its_words(
    name: str, value: str, why: str
) -> None:
    assert refusal({name: value}) == f"Invalid value {value} for configuration {name}: {why}"


@pytest.mark.parametrize(("configs", "message"), DIFFERENTLY_TOLD)
def test_a_value_is_told_as_it_was_read(configs: dict[str, str], message: str) -> None:
    assert refusal(configs).startswith(message)


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_a_value_that_is_long_is_refused_in_a_message_that_is_not(name: str) -> None:
    message = refusal({name: "2x" * 16_000})
    assert len(message) < 2_000
    assert f" for configuration {name}: " in message


def test_a_number_of_ten_thousand_digits_is_out_of_range() -> None:
    assert refusal({"retention.ms": "9" * 10_000}).endswith("Not a number of type LONG")
