"""Stories the simulation has told: scripts that once broke a rule, as short as they were found.

Each is played with its bug planted again, too: a story that no longer leads there says nothing.
"""

from unittest.mock import PropertyMock, patch

import pytest

from coordinator_server.group.events import Event
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.tenure import Tenure
from coordinator_server.runtime.unlogged_generations import SpentGenerations
from tests.simulation.consumer import Consumer
from tests.simulation.invariants import InvariantChecker
from tests.simulation.node import Node
from tests.simulation.run import play
from tests.simulation.script import Act, Script, Setup, Step
from tests.simulation.watched_actors import WatchedActor

pytestmark = pytest.mark.sim


def test_group_that_comes_back_just_when_its_end_is_durable_is_not_forgotten() -> None:
    """A commit was acknowledged and not found again until the next load.

    The sweep ends a group; a read waits for the tombstones, and behind it, on the same
    connection, a commit. The group was forgotten once for each of the two held things, and the
    second time it was the new group of the same id.
    """
    story = Script(
        Setup(groups=3, topic_partitions=1, retention_ms=20_000, kinds=(0,)),
        [
            Step(Act.LIVE, 0, 2),
            Step(Act.KILL, 0),
            Step(Act.ARRIVE, 1),
            Step(Act.TIME, 6, 6),
            Step(Act.TIME, 7, 7),
            Step(Act.TIME, 4, 4),
            Step(Act.LIVE, 0, 2),
            Step(Act.LIVE, 3, 2),
            Step(Act.NUDGE, 4, 6),
        ],
    )

    def forget(self: Tenure, actor: GroupActor) -> None:
        if actor.is_idle and not self.writer.holds_back(actor):
            actor.stop()
            self.actors.pop(actor.group.group_id, None)

    with patch.object(Tenure, "forget", forget):
        assert "fetched -1" in play(story).broken
    assert play(story).broken == ""


def test_a_group_is_not_settled_while_one_of_its_members_means_to_join_again() -> None:
    """The simulation was wrong here, not the coordinator: "never answered".

    A busy leader hears of a rebalance and will join in a while. The rebalance is lost with a failed
    append; the group is loaded Stable, and taken to have settled. The leader's JoinGroup fell into
    the second after the last power cut, which is shorter than the other member's heartbeats.
    """
    story = Script(
        Setup(topic_partitions=4, group_max_size=2, retention_ms=60_000, kinds=(14, 7_137, 4_220)),
        [
            Step(Act.LIVE, 2, 2),
            Step(Act.TIME, 6, 6),
            Step(Act.LIVE, 2, 3),
            Step(Act.TIME, 5, 5),
        ],
    )
    with patch.object(Consumer, "will_join", PropertyMock(return_value=False)):
        assert "never answered" in play(story).broken
    assert play(story).broken == ""


def test_a_group_loaded_with_more_members_than_it_may_have_rebalances_to_its_end() -> None:
    """The simulation was wrong here, not the coordinator: "never ended" (seed 103521).

    Static members stay without having joined again, so that a group outgrew its limit; each load
    begins a rebalance for that, the one after the last power cut as well.
    """
    story = Script(
        Setup(
            partitions=2, groups=2, group_max_size=2, late_news=True, kinds=(5_304, 5_820, 1_319)
        ),
        [Step(Act.LIVE, 258, 1_090), Step(Act.ARRIVE, 866, 1_586), Step(Act.TIME, 636, 5_116)],
    )
    with patch.object(
        InvariantChecker, "rebalances_are_under_way", PropertyMock(return_value=False)
    ):
        assert "never ended" in play(story).broken
    assert play(story).broken == ""


def test_a_sync_for_a_generation_that_its_tenure_has_lost_is_not_taken_for_the_next() -> None:
    """Members were assigned nothing, and nobody had two of the four partitions.

    Generation 3 is lost with a failed append. Its leader joins again, and sends its SyncGroup for
    the lost one once more behind that. The next generation was 3 again: the assignments of the
    lost one, for members it no longer had, became its own.
    """
    story = Script(
        Setup(
            partitions=2,
            groups=2,
            topic_partitions=4,
            retention_ms=200_000,
            late_news=True,
            kinds=(8_644, 104, 4_031),
        ),
        [
            Step(Act.ARRIVE, 834, 5_713),
            Step(Act.LIVE, 496, 2_363),
            Step(Act.TOPIC, 872, 3_483),
            Step(Act.ARRIVE, 925, 3_403),
            Step(Act.ARRIVE, 179, 5_848),
            Step(Act.ARRIVE, 235, 9_866),
            Step(Act.TIME, 927, 9_608),
            Step(Act.NUDGE, 120, 4_510),
            Step(Act.LIVE, 544, 9_811),
            Step(Act.TIME, 289, 6_856),
            Step(Act.LIVE, 827, 1_012),
            Step(Act.FAIL, 5, 5_589),
            Step(Act.LIVE, 344, 9_280),
            Step(Act.NUDGE, 249, 8_204),
        ],
    )
    with patch.object(SpentGenerations, "of", return_value=0):
        assert "generation 3 was lost, and is used again" in play(story).broken
        with patch.object(InvariantChecker, "_joined"):
            assert "partitions owned: [0, 3]" in play(story).broken
    assert play(story).broken == ""


def test_a_group_that_was_lost_before_it_was_written_begins_anew_with_all_its_numbers() -> None:
    """The simulation was wrong here, not the coordinator: generation 2 used again (seed 5270).

    Two generations are answered, and the first append fails. The log has nothing of the group,
    which begins with 1 for members with new ids; once that is written the log has a record of it.
    """
    story = Script(
        Setup(
            topic_partitions=3,
            group_max_size=2,
            retention_ms=604_800_000,
            mailbox=True,
            kinds=(94, 3_501),
        ),
        [
            Step(Act.IDLE, 757, 5_697),
            Step(Act.ARRIVE, 857, 6_623),
            Step(Act.DISK, 485, 6_853),
            Step(Act.RUN, 547, 4_540),
            Step(Act.DISK, 252, 2_938),
            Step(Act.RUN, 227, 4_265),
            Step(Act.DISK, 67, 5_822),
            Step(Act.RUN, 140, 6_728),
            Step(Act.DISK, 397, 1_678),
            Step(Act.NUDGE, 243, 1_559),
            Step(Act.NUDGE, 526, 7_569),
            Step(Act.TIME, 59, 1_663),
            Step(Act.DELIVER, 628, 5_926),
            Step(Act.DELIVER, 589, 2_264),
            Step(Act.TIME, 730, 4_330),
            Step(Act.TIME, 578, 9_219),
            Step(Act.FAIL, 251, 6_651),
        ],
    )

    def forget_the_first(self: InvariantChecker, node: Node, group: str, _tenure: int) -> None:
        self._told.pop((node, group, 1), None)

    with patch.object(InvariantChecker, "_begins_anew", forget_the_first):
        assert "generation 2 was lost, and is used again" in play(story).broken
    assert play(story).broken == ""


def test_what_a_stopped_actor_was_given_is_not_waited_for() -> None:
    """The simulation was wrong here, not the coordinator: Released overtook (seed 27998).

    A node is told to stop while a held reply is about to leave: its actors take nothing more of
    what they were given, and the reply that leaves has its member's session renewed.
    """
    story = Script(
        Setup(
            nodes=2,
            groups=2,
            topic_partitions=7,
            retention_ms=200_000,
            mailbox=True,
            kinds=(7_622,),
        ),
        [
            Step(Act.MOVE, 408, 8_421),
            Step(Act.ARRIVE, 826, 1_926),
            Step(Act.LIVE, 322, 2_332),
            Step(Act.STOP, 455, 5_981),
            Step(Act.DISK, 729, 2_028),
        ],
    )

    def stop(self: WatchedActor) -> list[Event]:
        self.is_over = True
        return GroupActor.stop(self)

    with patch.object(WatchedActor, "stop", stop):
        assert "Released overtook" in play(story).broken
    assert play(story).broken == ""
