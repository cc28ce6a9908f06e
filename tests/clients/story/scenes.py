"""The scenes: everything that makes a group rebalance, each done by a real client.

Only the member id that is taken and never used comes from a bare connection: no client library
abandons one on purpose.
"""

import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.clients.story.script import HEARTBEAT_MS, LONG_MS, Scene, Story
from tests.support.client_processes import client_group
from tests.support.wire import RawConnection, create_topic

SHORT_MS = 4_000
"""Sessions and rebalance timeouts that are to run out."""
ABANDONED_MS = 6_000
"""The session of a member id nobody comes back with: long enough for another member to join."""
WORKERS = 5


def members_come_change_freeze_and_go(scene: Scene) -> None:
    """aiokafka."""
    other = scene.topic_beside()
    ada = scene.aiokafka("ada")
    scene.expect("`ada` joins the empty group", "member_joined", "ada")
    bob = scene.aiokafka("bob", "--also", other, session_ms=SHORT_MS)
    scene.expect("`bob` joins", "member_joined", "bob")
    bob.signal(signal.SIGUSR1)
    scene.expect("`bob` subscribes to another topic too", "metadata_changed", "bob")
    bob.pause()
    scene.expect("`bob`'s process is frozen", "session_expired", "bob")
    bob.resume()
    scene.expect("`bob` goes on, and joins anew", "member_joined", "bob")
    bob.leave()
    scene.expect("`bob` leaves", "member_left", "bob")
    ada.leave()
    scene.expect("`ada` leaves, nobody is left", "member_left", "ada", outcome="emptied")


def static_members_restart(scene: Scene) -> None:
    """librdkafka; it speaks `range` and `roundrobin` until one member speaks the latter alone."""
    both = ("--strategy", "range,roundrobin")
    scene.librdkafka("till-1", "--instance", "one", *both)
    scene.expect("`till-1` joins as instance `one`", "member_joined", "till-1", instance="one")
    second = scene.librdkafka("till-2", "--instance", "two", *both)
    scene.expect("`till-2` joins as instance `two`", "member_joined", "till-2", instance="two")
    second.kill()
    second = scene.librdkafka("till-2", "--instance", "two", *both)
    scene.client_group.wait(
        lambda invariants: bool(invariants.holding["till-2"]), "till-2 has partitions again"
    )
    scene.expect_nothing("`till-2` is killed and started again", "till-2", "two")
    second.kill()
    last = ("--instance", "two", "--strategy", "roundrobin")
    second = scene.librdkafka("till-2", *last, session_ms=SHORT_MS)
    done = "`till-2` is started again with `roundrobin` alone"
    scene.expect(done, "static_replaced", "till-2", instance="two")
    second.kill()
    done = "`till-2` is killed and stays away"
    scene.expect(done, "session_expired", "till-2", instance="two")


def slow_members_are_waited_for(scene: Scene) -> None:
    """aiokafka."""
    times = {"session_ms": LONG_MS, "rebalance_ms": SHORT_MS}
    scene.aiokafka("ann", **times)
    scene.expect("`ann` joins the empty group", "member_joined", "ann")
    bea = scene.aiokafka("bea", **times)
    scene.expect("`bea` joins", "member_joined", "bea")
    bea.pause()
    scene.aiokafka("cid", **times)
    scene.until_waiting_for("bea")
    bea.resume()
    done = "`cid` joins, and `bea` is slow to join again"
    scene.expect(done, "member_joined", "cid", waited_for="bea")
    bea.pause()
    scene.aiokafka("dan", **times)
    done = "`dan` joins, and `bea` is too slow"
    scene.expect(done, "member_joined", "dan", waited_for="bea", evicted="bea")
    bea.resume()
    scene.expect("`bea` joins anew", "member_joined", "bea")


def a_member_id_is_abandoned(scene: Scene) -> None:
    """aiokafka, and a bare connection."""
    scene.aiokafka("eve")
    scene.expect("`eve` joins the empty group", "member_joined", "eve")
    with RawConnection(scene.client_group.bootstrap) as connection:
        reply = connection.call(
            "JoinGroup",
            5,
            group_id=scene.client_group.group,
            session_timeout=ABANDONED_MS,
            rebalance_timeout=ABANDONED_MS,
            member_id="",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
    assert reply["error_code"] == "MEMBER_ID_REQUIRED", reply
    scene.aiokafka("fay")
    done = "`raw` takes a member id and goes, then `fay` joins"
    scene.expect(done, "member_joined", "fay", waited_for="raw")


def five_members_restart_one_by_one(scene: Scene) -> None:
    """librdkafka."""
    names = [f"worker-{number}" for number in range(1, WORKERS + 1)]
    workers = {}
    for name in names:
        workers[name] = scene.librdkafka(name)
        scene.expect(f"`{name}` joins", "member_joined", name)
    for name in names:
        workers[name].leave()
        scene.expect(f"`{name}` stops for its restart", "member_left", name)
        workers[name] = scene.librdkafka(name)
        scene.expect(f"`{name}` is back", "member_joined", name)


def sarama_members(program: Path) -> Callable[[Scene], None]:
    """The same for sarama, whose program is given."""

    def play(scene: Scene) -> None:
        client_group = scene.client_group
        command = [str(program), "-bootstrap", client_group.bootstrap, "-group", client_group.group]
        command += ["-topic", client_group.topic, "-heartbeat-ms", str(HEARTBEAT_MS)]

        def started(name: str, session_ms: int) -> Callable[[], None]:
            member = client_group.start(
                name, [*command, "-name", name, "-session-ms", str(session_ms)]
            )
            scene.expect(f"`{name}` joins", "member_joined", name)
            return member.leave if session_ms == LONG_MS else member.pause

        leave = started("gus", LONG_MS)
        freeze = started("hal", SHORT_MS)
        freeze()
        scene.expect("`hal`'s process is frozen", "session_expired", "hal")
        leave()
        scene.expect("`gus` leaves", "member_left", "gus", outcome="emptied")

    return play


SCENES: dict[str, Callable[[Scene], None]] = {
    "orders": members_come_change_freeze_and_go,
    "tills": static_members_restart,
    "reports": slow_members_are_waited_for,
    "mails": a_member_id_is_abandoned,
    "workers": five_members_restart_one_by_one,
}
"""By group."""

SETTINGS = {"group.min.session.timeout.ms": "1000"}
"""What the server of a story needs."""


def play(story: Story, scenes: dict[str, Callable[[Scene], None]], logs: Path) -> None:
    """Play scenes one after the other, so that the metric tells one rebalance from the next.

    Clients end without leaving: nothing happens any more. Raises AssertionError if something of
    the script does not happen.
    """
    story.wait_for_http()
    with ExitStack() as client_groups:
        for group, scene in scenes.items():
            topic = f"{group}-topic"
            create_topic(story.server.bootstrap, topic, 4)
            folder = logs / group
            folder.mkdir(parents=True)
            made = client_group(story.server.bootstrap, group, topic, folder)
            scene(Scene(story, client_groups.enter_context(made)))
