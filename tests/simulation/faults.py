"""The faults of clients, connections, disk, nodes and partition owners.

Each takes two numbers, which select the target and the variant.
"""

from typing import TYPE_CHECKING

from tests.simulation.clients import ABANDONED_TOPIC, TOPIC
from tests.simulation.consumer import Phase
from tests.simulation.log import FailureKind

if TYPE_CHECKING:
    from tests.simulation.simulator import Simulator


def kill(simulator: "Simulator", who: int, how: int) -> None:
    """End a process; if its host is lost, too, no one closes its connections."""
    if simulator.consumers:
        consumer = simulator.consumers[who % len(simulator.consumers)]
        simulator.tell(f"{consumer.name} dies")
        consumer.phase = Phase.GONE
        consumer.changed()
        if how % 2:
            simulator.hang_up(consumer)
        else:
            simulator.abandon(consumer)


def freeze(simulator: "Simulator", who: int, _how: int) -> None:
    if simulator.consumers:
        consumer = simulator.consumers[who % len(simulator.consumers)]
        consumer.frozen = not consumer.frozen
        consumer.changed()
        simulator.tell(f"{consumer.name} {'freezes' if consumer.frozen else 'thaws'}")


def drop(simulator: "Simulator", who: int, _how: int) -> None:
    if simulator.network.connections:
        connection = simulator.network.connections[who % len(simulator.network.connections)]
        simulator.tell(f"the connection of {connection.client.name} breaks")
        simulator.network.drop(connection)


def fail(simulator: "Simulator", who: int, how: int) -> None:
    operations = [o for o in simulator.disk.next_operations() if o.future is not None]
    if operations:
        operation = operations[who % len(operations)]
        trouble = list(FailureKind)[how % len(FailureKind)]
        simulator.tell(f"the {operation} {trouble.value}")
        simulator.disk.fail(operation, trouble)


def crash(simulator: "Simulator", who: int, how: int) -> None:
    node = simulator.nodes[who % len(simulator.nodes)]
    simulator.tell(f"node {node.index} dies, {how % 4} appends under way survive")
    simulator.checker.died(node)
    node.crash(how % 4)
    simulator.network.drop_node(node)


def stop(simulator: "Simulator", who: int, _how: int) -> None:
    node = simulator.nodes[who % len(simulator.nodes)]
    if node.accepts:
        simulator.tell(f"node {node.index} is told to stop")
        node.stop()


def start(simulator: "Simulator", who: int, _how: int) -> None:
    node = simulator.nodes[who % len(simulator.nodes)]
    if not node.accepts and (node.has_stopped or node.is_new):
        simulator.tell(f"node {node.index} starts")
        simulator.checker.died(node)
        simulator.network.drop_node(node)
        node.start_again()


def delete_topic(simulator: "Simulator", _who: int, how: int) -> None:
    """Notify the running nodes; later commits count for a topic of the same name."""
    topic = (ABANDONED_TOPIC, TOPIC)[how % 2]
    simulator.tell(f"the topic {topic} is deleted")
    for node in simulator.nodes:
        node.topic_deleted(topic)


def move(simulator: "Simulator", who: int, how: int) -> None:
    """Another node owns a partition now; with one node, the same again after a while.

    Some who were connected to the old one may go on asking it.
    """
    partition = who % simulator.setup.partitions
    old = simulator.nodes[simulator.disk.owners[partition]]
    new = simulator.nodes[how % len(simulator.nodes)]
    simulator.tell(f"partition {partition} moves from node {old.index} to {new.index}")
    simulator.disk.owners[partition] = new.index
    simulator.disk.epochs[partition] += 1
    old.storage.tell(partition, assigned=False)
    new.storage.tell(partition, assigned=True)
    for connection in [c for c in simulator.network.connections if c.node is old]:
        if connection.client in simulator.consumers and how // 2 % 2:
            simulator.network.drop(connection)
