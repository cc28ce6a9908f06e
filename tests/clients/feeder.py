"""A producer that writes to every partition of a topic and says what was acknowledged."""

import argparse
import asyncio
import signal

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]

from tests.support.client_events import EventPrinter


async def feed(arguments: argparse.Namespace, printer: EventPrinter, asked: asyncio.Event) -> None:
    """Write a record to each partition, wait a little, and again until `asked` to stop."""
    producer = AIOKafkaProducer(bootstrap_servers=arguments.bootstrap, acks="all")
    await producer.start()
    number = 0
    try:
        while not asked.is_set():
            await asyncio.gather(
                *(
                    write(producer, printer, arguments.topic, partition, number)
                    for partition in range(arguments.partitions)
                )
            )
            number += 1
            await asyncio.sleep(arguments.pause_ms / 1000)
    finally:
        await producer.stop()
    printer.say("left")


async def write(
    producer: AIOKafkaProducer, printer: EventPrinter, topic: str, partition: int, number: int
) -> None:
    """Write one record and tell its offset; what is not acknowledged is not told."""
    try:
        written = await producer.send_and_wait(topic, b"%d" % number, partition=partition)
    except KafkaError as error:
        printer.say("error", repr(error))
    else:
        printer.offsets("produced", partition, (written.offset,))


async def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--pause-ms", type=int, default=20)
    arguments = parser.parse_args()
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    printer = EventPrinter(arguments.name)
    printer.say("started")
    await feed(arguments, printer, asked)


if __name__ == "__main__":
    asyncio.run(main())
