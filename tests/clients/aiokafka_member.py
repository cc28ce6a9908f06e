"""A member of a consumer group by aiokafka that says what happens to it.

SIGTERM: it leaves. SIGUSR1: it subscribes to the topic of `--also` as well.
"""

import argparse
import asyncio
import signal
from collections.abc import Collection

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor  # type: ignore[import-untyped]
from aiokafka.errors import KafkaConnectionError, KafkaError  # type: ignore[import-untyped]

from tests.support.client_events import EventPrinter

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Tells of assignments."""

    def __init__(self, consumer: AIOKafkaConsumer, printer: EventPrinter) -> None:
        """Tell of `consumer`."""
        self._consumer = consumer
        self._printer = printer

    @property
    def generation(self) -> int:
        """The consumer's generation, which aiokafka shows nowhere in public."""
        return int(self._consumer._coordinator.generation)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Called after a SyncGroup was answered."""
        self._printer.assigned(self.generation, numbers(assigned))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Called before the member joins again."""
        self._printer.revoked(self.generation, numbers(revoked))


def numbers(partitions: Collection[TopicPartition]) -> tuple[int, ...]:
    """Partition numbers."""
    return tuple(sorted(partition.partition for partition in partitions))


async def start(consumer: AIOKafkaConsumer, printer: EventPrinter, asked: asyncio.Event) -> None:
    """Connect, however long the server is away; aiokafka waits for it only later on."""
    while not asked.is_set():
        try:
            await consumer.start()
        except KafkaConnectionError as error:
            printer.say("error", repr(error))
            await asyncio.sleep(0.1)
        else:
            return


async def consume(consumer: AIOKafkaConsumer, printer: EventPrinter, asked: asyncio.Event) -> None:
    """Read and commit batch by batch until `asked` to stop."""
    while not asked.is_set():
        batches = await consumer.getmany(timeout_ms=100, max_records=50)
        for partition, records in batches.items():
            offsets = tuple(record.offset for record in records)
            printer.offsets("records", partition.partition, offsets)
        if batches:
            await commit(
                consumer,
                printer,
                {partition: records[-1].offset + 1 for partition, records in batches.items()},
            )


async def commit(
    consumer: AIOKafkaConsumer, printer: EventPrinter, positions: dict[TopicPartition, int]
) -> None:
    """Commit and tell what was acknowledged."""
    try:
        await consumer.commit(positions)
    except KafkaError as error:
        printer.say("error", repr(error))
        return
    for partition, position in positions.items():
        printer.offsets("commit", partition.partition, (position,))


async def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--strategy", choices=ASSIGNORS, default="range")
    parser.add_argument("--also", default="")
    parser.add_argument("--session-ms", type=int, default=30_000)
    parser.add_argument("--rebalance-ms", type=int, default=None)
    parser.add_argument("--heartbeat-ms", type=int, default=500)
    arguments = parser.parse_args()
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    printer = EventPrinter(arguments.name)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        client_id=arguments.name,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=arguments.session_ms,
        rebalance_timeout_ms=arguments.rebalance_ms,
        heartbeat_interval_ms=arguments.heartbeat_ms,
        retry_backoff_ms=100,
        partition_assignment_strategy=(ASSIGNORS[arguments.strategy],),
    )
    listener = Listener(consumer, printer)
    consumer.subscribe([arguments.topic], listener=listener)
    both = [arguments.topic, arguments.also]
    loop.add_signal_handler(signal.SIGUSR1, lambda: consumer.subscribe(both, listener=listener))
    printer.say("started")
    await start(consumer, printer, asked)
    try:
        await consume(consumer, printer, asked)
    finally:
        await consumer.stop()
    printer.say("left")


if __name__ == "__main__":
    asyncio.run(main())
