"""The topic configs Kafka 4.1 knows, and the values it takes; ours have no effect yet.

Names, bounds and words are those of Kafka's `LogConfig` and `ConfigDef`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_server.topics.errors import TopicError

Value = int | float | bool | str
Read = Callable[[str], Value]
"""Reads a value; raises _Wrong."""

LONGEST_TOLD: Final = 1_000
"""Characters of a value that a message repeats: it must fit into an answer."""
MOST_DIGITS: Final = 1_000
"""So many are read of a number: Python reads no more than some thousands."""
_BLANK: Final = "".join(map(chr, range(33)))
"""The characters that Java's `trim` removes."""
_DOUBLE: Final = r"[+-]?(NaN|Infinity|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)"
"""The numbers that Java reads, without hexadecimal ones."""
_PAIR: Final = re.compile("([0-9]+:[0-9]+)?")
_LONGEST: Final = (1 << 63) - 1


class _Wrong(Exception):
    """A value that is refused: how it is told, and why."""

    def __init__(self, value: object, why: str) -> None:
        super().__init__(why)
        self.value = str(value)


def _whole(kind: str, bits: int, least: int | None, most: int | None) -> Read:
    def read(raw: str) -> int:
        if not re.fullmatch(r"[+-]?\d+", raw.strip(_BLANK)):
            raise _Wrong(raw, f"Not a number of type {kind}")
        value = int(raw.strip(_BLANK)[:MOST_DIGITS])
        if not -(1 << bits) <= value < 1 << bits:
            raise _Wrong(raw, f"Not a number of type {kind}")
        _check_bounds(value, str(value), least, most)
        return value

    return read


def _check_bounds(value: float, told: str, least: int | None, most: int | None) -> None:
    if least is not None and value < least:
        raise _Wrong(told, f"Value must be at least {least}")
    if most is not None and value > most:
        raise _Wrong(told, f"Value must be no more than {most}")


def _int(least: int | None = None, most: int | None = None) -> Read:
    return _whole("INT", 31, least, most)


def _long(least: int | None = None) -> Read:
    return _whole("LONG", 63, least, None)


def _gzip_level(raw: str) -> int:
    value = int(_int()(raw))
    if not (1 <= value <= 9 or value == -1):
        raise _Wrong(value, "Value must be between 1 and 9 or equal to -1")
    return value


def _ratio(raw: str) -> float:
    if not re.fullmatch(_DOUBLE, raw.strip(_BLANK)):
        raise _Wrong(raw, "Not a number of type DOUBLE")
    value = float(raw.strip(_BLANK).rstrip("fFdD"))
    # Not a number passes: it is neither below nor above.
    _check_bounds(value, str(value).replace("inf", "Infinity"), 0, 1)
    return value


def _flag(raw: str) -> bool:
    value = raw.strip(_BLANK).lower()
    if value not in ("true", "false"):
        raise _Wrong(raw, "Expected value to be either true or false")
    return value == "true"


def _one_of(*words: str) -> Read:
    def read(raw: str) -> str:
        value = raw.strip(_BLANK)
        if value not in words:
            raise _Wrong(value, f"String must be one of: {', '.join(words)}")
        return value

    return read


def _some_of(*words: str) -> Read:
    one = _one_of(*words)

    def read(raw: str) -> str:
        return ",".join([str(one(element)) for element in _elements(raw)])

    return read


def _elements(raw: str) -> list[str]:
    value = raw.strip(_BLANK)
    return [element.strip(" \t\n\x0b\f\r") for element in value.split(",")] if value else []


def _replicas(name: str) -> Read:
    def read(raw: str) -> str:
        elements = _elements(raw)
        if not all(map(_PAIR.fullmatch, set(elements))) and "".join(elements) != "*":
            raise _Wrong(
                f"[{', '.join(elements)}]",
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
            )
        return ",".join(elements)

    return read


_COMPRESSION: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_CONFIGS: Final[dict[str, Read]] = {
    "cleanup.policy": _some_of("compact", "delete"),
    "compression.gzip.level": _gzip_level,
    "compression.lz4.level": _int(1, 17),
    "compression.type": _one_of(*_COMPRESSION),
    "compression.zstd.level": _int(-131_072, 22),
    "delete.retention.ms": _long(0),
    "file.delete.delay.ms": _long(0),
    "flush.messages": _long(1),
    "flush.ms": _long(0),
    "follower.replication.throttled.replicas": _replicas("follower.replication.throttled.replicas"),
    "index.interval.bytes": _int(0),
    "internal.segment.bytes": _int(),
    "leader.replication.throttled.replicas": _replicas("leader.replication.throttled.replicas"),
    "local.retention.bytes": _long(-2),
    "local.retention.ms": _long(-2),
    "max.compaction.lag.ms": _long(1),
    "max.message.bytes": _int(0),
    "message.timestamp.after.max.ms": _long(0),
    "message.timestamp.before.max.ms": _long(0),
    "message.timestamp.type": _one_of("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": _ratio,
    "min.compaction.lag.ms": _long(0),
    "min.insync.replicas": _int(1),
    "preallocate": _flag,
    "remote.log.copy.disable": _flag,
    "remote.log.delete.on.disable": _flag,
    "remote.storage.enable": _flag,
    "retention.bytes": _long(),
    "retention.ms": _long(-1),
    "segment.bytes": _int(1_048_576),
    "segment.index.bytes": _int(4),
    "segment.jitter.ms": _long(0),
    "segment.ms": _long(1),
    "unclean.leader.election.enable": _flag,
}


def check_configs(configs: Mapping[str, str]) -> None:
    """Raise TopicError with INVALID_CONFIG for a name or a value that Kafka refuses."""
    for name in configs:
        if name not in TOPIC_CONFIGS:
            raise _invalid(f"Unknown topic config name: {name}")
    values = {name: _value(name, raw) for name, raw in configs.items()}
    least = values.get("min.compaction.lag.ms", 0)
    most = values.get("max.compaction.lag.ms", _LONGEST)
    assert isinstance(least, int)
    assert isinstance(most, int)
    if least > most:
        raise _invalid(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )
    if values.get("remote.storage.enable"):
        raise _invalid(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage."
        )


def _value(name: str, raw: str) -> Value:
    try:
        return TOPIC_CONFIGS[name](raw)
    except _Wrong as wrong:
        told = wrong.value[:LONGEST_TOLD]
        raise _invalid(f"Invalid value {told} for configuration {name}: {wrong}") from wrong


def _invalid(message: str) -> TopicError:
    return TopicError(ErrorCode.INVALID_CONFIG, message)
