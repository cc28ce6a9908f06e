"""A member of a consumer group by librdkafka that says what happens to it; SIGTERM: it leaves."""

import argparse
import signal
import struct
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.support.client_events import EventPrinter


class Member:
    """One consumer and what it tells."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Subscribe; nothing is sent before `run`."""
        self._printer = EventPrinter(arguments.name)
        self._incremental = arguments.strategy == "cooperative-sticky"
        self._asked = False
        self._printer.say("started")
        static = {"group.instance.id": arguments.instance} if arguments.instance else {}
        self._consumer = Consumer(
            {
                **static,
                "bootstrap.servers": arguments.bootstrap,
                "group.id": arguments.group,
                "client.id": arguments.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": arguments.session_ms,
                "heartbeat.interval.ms": arguments.heartbeat_ms,
                "fetch.wait.max.ms": 100,
                "partition.assignment.strategy": arguments.strategy,
            }
        )
        self._consumer.subscribe(
            [arguments.topic],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )

    def stop(self, *_: object) -> None:
        """Leave at the next opportunity; a signal handler."""
        self._asked = True

    def run(self) -> None:
        """Read and commit until asked to stop."""
        try:
            while not self._asked:
                self._turn()
        finally:
            self._consumer.close()
        self._printer.say("left")

    def _turn(self) -> None:
        positions: dict[int, TopicPartition] = {}
        for message in self._consumer.consume(50, timeout=0.1):
            if (error := message.error()) is not None:
                self._printer.say("error", str(error))
                continue
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            self._printer.offsets("records", partition, (offset,))
            positions[partition] = TopicPartition(topic, partition, offset + 1)
        if positions:
            self._commit(list(positions.values()))

    def _commit(self, positions: list[TopicPartition]) -> None:
        try:
            answers = self._consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as error:
            self._printer.say("error", str(error))
            return
        for answer in answers or ():
            if answer.error is None:
                self._printer.offsets("commit", answer.partition, (answer.offset,))

    def _generation(self) -> int:
        """From the serialised group metadata: "CGMDv2:" and an integer in host order."""
        serialised: bytes = self._consumer.consumer_group_metadata()
        (generation,) = struct.unpack_from("=i", serialised, len(b"CGMDv2:"))
        return int(generation)

    def _assigned(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._printer.assigned(
            self._generation(), numbers(partitions), incremental=self._incremental
        )

    def _revoked(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._printer.revoked(self._generation(), numbers(partitions))


def numbers(partitions: Sequence[TopicPartition]) -> tuple[int, ...]:
    """Partition numbers."""
    return tuple(sorted(partition.partition for partition in partitions))


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--strategy", default="range")
    parser.add_argument("--instance", default="")
    parser.add_argument("--session-ms", type=int, default=30_000)
    parser.add_argument("--heartbeat-ms", type=int, default=500)
    member = Member(parser.parse_args())
    signal.signal(signal.SIGTERM, member.stop)
    member.run()


if __name__ == "__main__":
    main()
