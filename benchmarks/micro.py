"""What single steps cost, by pyperf: `python -m benchmarks.micro [--fast] [-o FILE]`.

Codec, state machine, timers, batches and answers about offsets; where somebody else's library does
the same step, it is measured beside ours, after both have come to the same bytes.
"""

import asyncio
import atexit
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final, NamedTuple

import pyperf

from benchmarks import codec, stored
from benchmarks.tables import table
from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.batch import LogRecord, build_batch
from coordinator_protocol.codec import response_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coordinator_protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from coordinator_protocol.offset_answers import commit_accepted, fetched_group
from coordinator_protocol.offset_answers import fetched as fetched_body
from coordinator_protocol.offset_value import pack_offset
from coordinator_protocol.records import decode_key, decode_value, encode_key, encode_value
from coordinator_server.clock import SystemClock
from coordinator_server.group.context import Context, Limits
from coordinator_server.group.effects import unpacked
from coordinator_server.group.events import CommitOffsets, Heartbeat, Loaded
from coordinator_server.group.group import Group
from coordinator_server.group.replay import apply
from coordinator_server.ids import SystemIds
from coordinator_server.runtime.timers import LoopTimers

WALL: Final = 1_700_000_000_000
ARMED: Final = 10_000

Work = Callable[[], object]


class Step(NamedTuple):
    """A step, how it is set up, and how somebody else's library is for the same."""

    name: str
    ours: Callable[[], Work]
    theirs: Callable[[], Work] | None = None
    whose: str = ""


def steps() -> Iterator[Step]:
    """All of them; nothing is set up before it is measured."""
    for exchange in codec.exchanges():
        for what in (codec.reading, codec.writing):
            name = f"{what.__name__} {exchange.name}"
            yield Step(name, partial(what, exchange), partial(what, exchange, kio=True), "kio")
    yield Step("state machine: heartbeat", heartbeat)
    yield Step("state machine: heartbeat, renewed at once", renewal)
    for partitions in (1, 50):
        yield Step(f"state machine: commit of {partitions}", partial(commit, partitions))
    name = f"timer: arm and cancel, beside {ARMED:,}"
    yield Step(name, our_timer, their_timer, "asyncio call_later")
    for records in (1, 50):
        yield Step(f"batch of {records}: build", partial(batch, records))
    yield Step("record of an offset: encode", record)
    yield Step("record of an offset: decode", decoded)
    yield Step("answer to a commit of 50", committed, committed_by_objects, "our encoder")
    yield Step("answer to a fetch of 50", fetched, fetched_by_objects, "our encoder")


# --- state machine ---


def _group() -> tuple[Group, Context]:
    """A Stable group of ten."""
    group = Group("group")
    found = stored.group("group", 10, WALL)
    assert found.key is not None
    assert found.value is not None
    key = decode_key(found.key)
    apply(group, key, decode_value(key, found.value))  # type: ignore[arg-type]
    limits = Limits()
    context = Context(0, WALL, SystemIds(), limits)
    group.handle(Loaded(), context)
    return group, context


def _heartbeat() -> Heartbeat:
    return Heartbeat(object(), stored.member_id(3), None, 1)


def heartbeat() -> Work:
    """A turn."""
    group, context = _group()
    return partial(group.handle, _heartbeat(), context)


def renewal() -> Work:
    """What a repeated heartbeat is."""
    group, _ = _group()
    work = partial(group.renew, stored.member_id(3), None, 1, 1)
    assert work()
    return work


def commit(partitions: int) -> Work:
    """A turn."""
    group, context = _group()
    given = [OffsetCommitRequestPartition(each, 1_000 + each) for each in range(partitions)]
    topics = [OffsetCommitRequestTopic(name="orders", partitions=given)]
    event = CommitOffsets(object(), stored.member_id(3), None, 1, topics, -1, False)
    work = partial(group.handle, event, context)
    assert work().writes
    return work


# --- timers ---


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


def our_timer() -> Work:
    """One heap for all."""
    loop = _loop()
    timers = LoopTimers(loop, SystemClock())
    far = time.monotonic_ns() // 1_000_000 + 3_600_000
    for each in range(ARMED):
        timers.call_at(far + each, _nothing)
    return lambda: timers.call_at(far, _nothing).cancel()


def their_timer() -> Work:
    """A timer of the loop."""
    loop = _loop()
    for each in range(ARMED):
        loop.call_later(3_600 + each / 1_000, _nothing)

    def arm() -> None:
        loop.call_later(3_600, _nothing).cancel()

    return arm


def _nothing() -> None:
    return


# --- records ---


def batch(records: int) -> Work:
    """Of commits."""
    return partial(build_batch, list(stored.commits("group", records, WALL)))


def _commit() -> LogRecord:
    return next(stored.commits("group", 1, WALL))


def record() -> Work:
    """Key and value, from objects."""
    found = _commit()
    assert found.key is not None
    assert found.value is not None
    key: Any = decode_key(found.key)
    value = decode_value(key, found.value)
    return lambda: (encode_key(key), encode_value(value))


def decoded() -> Work:
    """Key and value, into objects."""
    found = _commit()
    raw_key, raw_value = found.key, found.value
    assert raw_key is not None
    assert raw_value is not None

    def decode() -> None:
        key: Any = decode_key(raw_key)
        decode_value(key, raw_value)

    return decode


# --- answers about offsets ---


GIVEN: Final = [OffsetCommitRequestPartition(each, each) for each in range(50)]
"""What is committed."""
KEPT: Final = [(each, pack_offset(123_456 + each, 3, "", WALL)) for each in range(50)]
"""What is found of it, as it is in the log."""


def committed() -> Work:
    """All accepted."""
    topics = [OffsetCommitRequestTopic(name=codec.TOPIC, partitions=GIVEN)]
    return partial(commit_accepted, 8, topics)


def committed_by_objects() -> Work:
    """The same by the encoder of all messages, which takes objects."""
    encode = response_encoder(ApiKey.OFFSET_COMMIT, 8)

    def answer() -> bytes:
        rows = [OffsetCommitResponsePartition(each.partition_index, 0) for each in GIVEN]
        topic = OffsetCommitResponseTopic(name=codec.TOPIC, partitions=rows)
        return encode(OffsetCommitResponse(topics=[topic]))

    assert answer() == committed()()
    return answer


def fetched() -> Work:
    """All found."""
    topics = [(codec.TOPIC, KEPT)]
    return lambda: fetched_body([fetched_group(codec.GROUP, topics, ErrorCode.NONE)])


def fetched_by_objects() -> Work:
    """The same by the encoder of all messages, which takes objects."""
    encode = response_encoder(ApiKey.OFFSET_FETCH, 8)

    def answer() -> bytes:
        rows = [OffsetFetchResponsePartitions(*unpacked(*each)) for each in KEPT]
        topic = OffsetFetchResponseTopics(name=codec.TOPIC, partitions=rows)
        group = OffsetFetchResponseGroup(group_id=codec.GROUP, topics=[topic])
        return encode(OffsetFetchResponse(groups=[group]))

    assert answer() == fetched()()
    return answer


# --- pyperf ---


def measure(runner: pyperf.Runner, name: str, set_up: Callable[[], Work]) -> float | None:
    """Mean seconds; None in a worker, which measures one step only."""

    def timed(loops: int) -> float:
        work = set_up()
        each = range(loops)
        began = time.perf_counter()
        for _ in each:
            work()
        return time.perf_counter() - began

    found = runner.bench_time_func(name, timed)
    return None if found is None or runner.args.worker else float(found.median())


def main() -> None:
    """Measure and print a table."""
    program = ("-m", "benchmarks.micro")
    runner = pyperf.Runner(values=3, processes=3, program_args=program)
    rows = []
    for step in steps():
        mine = measure(runner, step.name, step.ours)
        theirs = step.theirs and measure(runner, f"{step.name}, {step.whose}", step.theirs)
        if mine:
            cells = [f"{theirs * 1e6:.2f}", f"{theirs / mine:.1f}"] if theirs else ["-", "-"]
            rows.append([step.name, step.whose or "-", f"{mine * 1e6:.2f}", *cells])
    if rows:
        head = ("step", "beside", "ours us", "theirs us", "theirs / ours")
        sys.stdout.write(f"\n{table(head, rows)}\n")


if __name__ == "__main__":
    main()
