"""What goes wrong in a world: clients, connections, disk, nodes and owners.

Each takes two numbers, which choose whom it befalls and how.
"""

from typing import TYPE_CHECKING

from tests.simulation.clients import ABANDONED_TOPIC, TOPIC
from tests.simulation.consumer import Phase
from tests.simulation.log import Trouble

if TYPE_CHECKING:
    from tests.simulation.world import World


def kill(world: "World", who: int, how: int) -> None:
    """A process is gone; its host may be, too, so that nobody closes its connection."""
    if world.consumers:
        consumer = world.consumers[who % len(world.consumers)]
        world.tell(f"{consumer.name} dies")
        consumer.phase = Phase.GONE
        consumer.changed()
        if how % 2:
            world.hang_up(consumer)
        else:
            world.abandon(consumer)


def freeze(world: "World", who: int, _how: int) -> None:
    if world.consumers:
        consumer = world.consumers[who % len(world.consumers)]
        consumer.frozen = not consumer.frozen
        consumer.changed()
        world.tell(f"{consumer.name} {'freezes' if consumer.frozen else 'thaws'}")


def drop(world: "World", who: int, _how: int) -> None:
    if world.network.connections:
        connection = world.network.connections[who % len(world.network.connections)]
        world.tell(f"the connection of {connection.client.name} breaks")
        world.network.drop(connection)


def fail(world: "World", who: int, how: int) -> None:
    operations = [o for o in world.disk.next_operations() if o.future is not None]
    if operations:
        operation = operations[who % len(operations)]
        trouble = list(Trouble)[how % len(Trouble)]
        world.tell(f"the {operation} {trouble.value}")
        world.disk.fail(operation, trouble)


def crash(world: "World", who: int, how: int) -> None:
    node = world.nodes[who % len(world.nodes)]
    world.tell(f"node {node.index} dies, {how % 4} appends under way survive")
    world.judge.died(node)
    node.crash(how % 4)
    world.network.drop_node(node)


def stop(world: "World", who: int, _how: int) -> None:
    node = world.nodes[who % len(world.nodes)]
    if node.accepts:
        world.tell(f"node {node.index} is told to stop")
        node.stop()


def start(world: "World", who: int, _how: int) -> None:
    node = world.nodes[who % len(world.nodes)]
    if not node.accepts and (node.has_stopped or node.is_new):
        world.tell(f"node {node.index} starts")
        world.judge.died(node)
        world.network.drop_node(node)
        node.start_again()


def delete_topic(world: "World", _who: int, how: int) -> None:
    """The nodes that live hear of it; commits go on as if it were made anew."""
    topic = (ABANDONED_TOPIC, TOPIC)[how % 2]
    world.tell(f"the topic {topic} is deleted")
    for node in world.nodes:
        node.topic_deleted(topic)


def move(world: "World", who: int, how: int) -> None:
    """Another node owns a partition now; with one node, the same again after a while.

    Some who were connected to the old one may go on asking it.
    """
    partition = who % world.setup.partitions
    old = world.nodes[world.disk.owners[partition]]
    new = world.nodes[how % len(world.nodes)]
    world.tell(f"partition {partition} moves from node {old.index} to {new.index}")
    world.disk.owners[partition] = new.index
    world.disk.epochs[partition] += 1
    old.storage.tell(partition, assigned=False)
    new.storage.tell(partition, assigned=True)
    for connection in [c for c in world.network.connections if c.node is old]:
        if connection.client in world.consumers and how // 2 % 2:
            world.network.drop(connection)
